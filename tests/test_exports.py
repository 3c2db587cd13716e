"""The public names: which there are, and that none means something else than PyTorch's name of the same spelling."""

from __future__ import annotations

import importlib
import inspect
import pickle
import sys
import types

import pytest

import extempo as ex


def public_names(namespace: object) -> list[str]:
    return [n for n in dir(namespace) if not n.startswith("_")]


def kind(value: object) -> str:
    if isinstance(value, types.ModuleType):
        return "module"
    if inspect.isclass(value):
        return "class"
    if callable(value):
        return "function"
    return type(value).__name__


def test_every_listed_name_exists_and_is_documented():
    undocumented = []
    for name in ex.__all__:
        value = getattr(ex, name)
        if callable(value) and not inspect.getdoc(value):
            undocumented.append(name)
    assert undocumented == []
    assert len(set(ex.__all__)) == len(ex.__all__)


# Names where the kind differs although the meaning is PyTorch's.
SAME_MEANING = {
    "backends": "both hold the switches of numeric libraries; ours also holds our own backends",
    "ops": "PyTorch's is a namespace object of its operators, ours a package of them",
}


@pytest.mark.conformance
@pytest.mark.parametrize(
    "namespace",
    ["", "nn.functional", "linalg", "special", "autograd", "func", "autograd.functional", "random", "nested"],
)
def test_public_names_mean_what_pytorchs_mean(namespace):
    torch = pytest.importorskip("torch", reason="compares the namespaces with PyTorch: pip install -e '.[conformance]'")
    ours, theirs = ex, torch
    for step in filter(None, namespace.split(".")):
        ours, theirs = getattr(ours, step), getattr(theirs, step)
    different = {}
    for name in public_names(ours):
        if not hasattr(theirs, name) or name in SAME_MEANING:
            continue
        a, b = kind(getattr(ours, name)), kind(getattr(theirs, name))
        if a != b and not (b in ("function", "class") and a in ("function", "class")):
            different[name] = (a, b)
    assert different == {}


PUBLIC_PACKAGES = ("amp", "autograd", "data", "distributions", "inspect", "metrics", "nn", "optim", "train")


@pytest.mark.parametrize("package", ["extempo", *(f"extempo.{name}" for name in PUBLIC_PACKAGES)])
def test_public_classes_say_where_they_are_public(package):
    module = importlib.import_module(package)
    classes = [getattr(module, name) for name in module.__all__ if isinstance(getattr(module, name), type)]
    of_extempo = [c for c in classes if c.__module__.startswith("extempo")]
    for found in of_extempo:
        assert getattr(sys.modules[found.__module__], found.__name__) is found
        assert found.__module__ in ("extempo", *(f"extempo.{name}" for name in PUBLIC_PACKAGES))
    assert ex.Tensor.__module__ == "extempo"
    assert pickle.loads(pickle.dumps(of_extempo)) == of_extempo
