"""Calls of cells without a run: what they are, and whether they agree with the function."""

from __future__ import annotations

import numpy as np

import extempo as ex
from extempo.batching.cells import find
from extempo.batching.vmap_runner import VmapRunner
from extempo.core.graph import Node


def call(fn, *args, grad=True, **kwargs):
    return find(fn).call(args, kwargs, grad)


def kind(fn, *args, grad=True, **kwargs):
    return call(fn, *args, grad=grad, **kwargs).kind


def one_row(x):
    """The rows of one call."""
    if isinstance(x, ex.Tensor):
        return x.detach().numpy()[None]
    return np.array([x])


def assert_agrees(fn, *args, **kwargs):
    """The kind gives what the function gives, on single inputs, and as rows by the rules of vmap."""
    expected = fn(*args, **kwargs)
    made = call(fn, *args, **kwargs)
    single = made.rebuild(list(made.kind.fn(*made.inputs)))
    assert_equal(single, expected)
    rows, _ = VmapRunner(made.kind, (False,) * len(made.inputs)).forward([one_row(x) for x in made.inputs], 1)
    flat = list(made.kind.fn(*made.inputs))
    for row, one, type_ in zip(rows, flat, made.kind.results, strict=True):
        assert one._type == type_
        assert row.dtype == type_.dtype.numpy
        np.testing.assert_allclose(row[0], one.detach().numpy(), rtol=1e-6, atol=1e-6)
    assert tuple(type(t._history) is Node for t in flat) == made.kind.tracked
    return made


def assert_equal(a, b):
    assert type(a) is type(b)
    if isinstance(a, ex.Tensor):
        assert a._type == b._type
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-6, atol=1e-6)
    elif isinstance(a, tuple | list):
        for x, y in zip(a, b, strict=True):
            assert_equal(x, y)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        assert_equal(list(a.values()), list(b.values()))
    else:
        assert a == b
