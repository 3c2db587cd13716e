"""Signatures and kernels, by op, types and attributes: what was learnt at some sizes is right at others."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.autograd import vjp_programs
from extempo.core.op import REGISTRY
from extempo.core.types import TensorType, float32
from extempo.dispatch.kernel_cache import SIGNATURES, make_signature
from extempo.errors import ShapeError
from extempo.nn import functional as F
from extempo.symbolic import sym_int
from extempo.symbolic.sym_int import GuardedCache


@pytest.mark.skipif(ex.backends.stats()["backend"] != "native", reason="native kernels")
@pytest.mark.parametrize("n", [1, 2, 5, 6, 7, 30, 64, 121, 360, 5000])
def test_a_learnt_kernel_has_the_words_of_one_that_is_bound(n, monkeypatch):
    monkeypatch.setattr(sym_int, "WORTH", 1)
    op = REGISTRY["linear"]

    def types(n_rows):
        return tuple(TensorType(shape, float32) for shape in ((n_rows, 32), (64, 32), (64,)))

    for near in (n + 6, n + 12, n + 18, n + 60):
        make_signature(op, types(near), {})
    learnt = make_signature(op, types(n), {})
    monkeypatch.setattr(GuardedCache, "find", lambda self, sizes: None)
    bound = make_signature(op, types(n), {})
    assert learnt.type == bound.type
    assert learnt.kernel.__self__[0] == bound.kernel.__self__[0]


def _step(x, y, weight, bias):
    hidden = F.linear(x, weight, bias)
    hidden = F.layer_norm(hidden, (8,)).softmax(-1) + hidden.mean(0) - hidden.amax(1, keepdim=True)
    parts = ex.cat([hidden[1:], hidden.reshape(-1, 8)[:1]])
    loss = F.cross_entropy(parts.T.contiguous().T, y) + hidden.var()
    return loss, *ex.autograd.grad(loss, (x, weight, bias))


def _forget():
    SIGNATURES.clear()
    vjp_programs._plans.clear()


def test_results_at_a_size_do_not_depend_on_the_sizes_that_came_before(monkeypatch):
    rng = np.random.default_rng(0)
    weight, bias = (ex.tensor(rng.normal(size=s).astype("float32"), requires_grad=True) for s in ((8, 5), (8,)))
    inputs = []
    for n in (2, 3, 6, 7, 31, 64, 100):
        x = ex.tensor(rng.normal(size=(n, 5)).astype("float32"), requires_grad=True)
        inputs.append((x, ex.tensor(rng.integers(0, 8, n))))
    monkeypatch.setattr(GuardedCache, "find", lambda self, sizes: None)
    _forget()
    alone = [[t.tolist() for t in _step(x, y, weight, bias)] for x, y in inputs]
    monkeypatch.undo()
    monkeypatch.setattr(sym_int, "WORTH", 1)
    for n in (4, 5, 32, 33, 65, 101, 8, 9):
        _step(ex.ones(n, 5, requires_grad=True), ex.zeros(n, dtype=ex.int64), weight, bias)
    _forget()
    assert [[t.tolist() for t in _step(x, y, weight, bias)] for x, y in inputs] == alone


def test_a_new_size_of_a_learnt_structure_asks_no_rule(monkeypatch):
    monkeypatch.setattr(sym_int, "WORTH", 1)
    weight = ex.ones(8, 5, requires_grad=True)
    for n in (40, 41, 42, 43):
        F.linear(ex.ones(n, 5), weight).softmax(-1).sum().backward()

    def asked(*types, **attrs):
        raise AssertionError("a rule was asked")

    for name in ("linear", "softmax", "sum"):
        monkeypatch.setattr(REGISTRY[name], "infer", staticmethod(asked))
        monkeypatch.setattr(REGISTRY[name], "vjp", staticmethod(asked))
    F.linear(ex.ones(44, 5), weight).softmax(-1).sum().backward()
    assert weight.grad.shape == (8, 5)


def test_the_default_dtype_is_part_of_no_learnt_rule(monkeypatch):
    monkeypatch.setattr(sym_int, "WORTH", 1)
    for n in (3, 4, 5):
        assert (ex.ones(n, dtype=ex.int64) / 2).dtype is ex.float32
    ex.set_default_dtype(ex.float64)
    try:
        assert (ex.ones(6, dtype=ex.int64) / 2).dtype is ex.float64
    finally:
        ex.set_default_dtype(ex.float32)


def test_shapes_that_do_not_fit_are_told_at_sizes_of_a_learnt_structure(monkeypatch):
    monkeypatch.setattr(sym_int, "WORTH", 1)
    for n in (3, 4, 5, 6):
        F.linear(ex.ones(n, 5), ex.ones(8, 5))
    with pytest.raises(ShapeError, match="linear"):
        F.linear(ex.ones(7, 6), ex.ones(8, 5))
