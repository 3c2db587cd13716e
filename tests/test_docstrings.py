"""Every public name has a docstring with an example, and every example shows what really happens.

The namespaces are those of the reference. Errors have a page with examples of its own: tests/test_error_docs.py.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib
import inspect
import types
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import extempo as ex

NAMESPACES = [
    "extempo",
    "extempo.amp",
    "extempo.autograd",
    "extempo.autograd.forward_ad",
    "extempo.autograd.functional",
    "extempo.autograd.graph",
    "extempo.backends",
    "extempo.cpu",
    "extempo.data",
    "extempo.distributed",
    "extempo.distributed.comm_hooks",
    "extempo.distributions",
    "extempo.distributions.constraints",
    "extempo.distributions.kl",
    "extempo.distributions.transforms",
    "extempo.distributions.utils",
    "extempo.exporting",
    "extempo.func",
    "extempo.inspect",
    "extempo.learn",
    "extempo.linalg",
    "extempo.masked",
    "extempo.memory",
    "extempo.metrics",
    "extempo.nested",
    "extempo.nn",
    "extempo.nn.attention",
    "extempo.nn.functional",
    "extempo.nn.init",
    "extempo.nn.parallel",
    "extempo.nn.utils",
    "extempo.nn.utils.parametrizations",
    "extempo.nn.utils.parametrize",
    "extempo.nn.utils.prune",
    "extempo.nn.utils.rnn",
    "extempo.optim",
    "extempo.optim.lr_scheduler",
    "extempo.optim.swa_utils",
    "extempo.profiling",
    "extempo.random",
    "extempo.serialization",
    "extempo.signal.windows",
    "extempo.special",
    "extempo.testing",
    "extempo.train",
    "extempo.utils.checkpoint",
    "extempo.utils.dlpack",
]
ROOT = Path(__file__).parents[1]
OPTIONAL = ["pyarrow"]  # what a few examples need and an installation may lack
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def needs_an_example(value: object) -> bool:
    """Functions and classes do; constants and dtypes speak for themselves, errors have docs/errors.md."""
    return callable(value) and not (inspect.isclass(value) and issubclass(value, BaseException))


def public_values(namespace: str) -> Iterator[tuple[str, object]]:
    """What `__all__` lists, or else what the module defines itself."""
    module = importlib.import_module(namespace)
    names = getattr(module, "__all__", None)
    if names is None:
        names = [n for n, value in vars(module).items() if getattr(value, "__module__", None) == namespace]
        names = [n for n in names if not n.startswith("_")]
    for name in names:
        value = getattr(module, name)
        if needs_an_example(value) and not isinstance(value, types.ModuleType):
            yield f"{namespace}.{name}", value


def test_no_namespace_of_the_reference_is_left_out(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    public_names = importlib.import_module("scripts.site.public_names")
    assert {*NAMESPACES, "extempo.errors"} == set(public_names.namespaces())


CASES = [case for namespace in NAMESPACES for case in public_values(namespace)]


@contextlib.contextmanager
def settings_kept() -> Iterator[None]:
    """Examples of settings change them for the whole process, so they are put back."""
    kept, dtype = dict(vars(ex.compat.settings)), ex.get_default_dtype()
    try:
        yield
    finally:
        vars(ex.compat.settings).update(kept)
        ex.set_default_dtype(dtype)
        ex.set_printoptions(profile="default")


@pytest.mark.parametrize(("name", "value"), CASES, ids=[name for name, _ in CASES])
def test_every_public_name_has_an_example_that_runs(name, value):
    text = inspect.cleandoc(value.__doc__ or "")  # not getdoc, which would take a base class's
    assert ">>> " in text, f"{name} has no example in its docstring: add a line `>>> ...` with its result below"
    for package in OPTIONAL:
        if f"import {package}" in text:
            pytest.importorskip(package, reason=f"the example reads files of {package}")
    given = {"ex": ex, "nn": ex.nn, "F": ex.nn.functional, "np": np}
    example = doctest.DocTestParser().get_doctest(text, given, name, None, None)
    report: list[str] = []
    ex.manual_seed(0)
    with settings_kept():
        doctest.DocTestRunner(verbose=False, optionflags=FLAGS).run(example, out=report.append)
    assert not report, "".join(report)
