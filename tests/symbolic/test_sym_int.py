"""What follows from sizes, learnt as a function of them: the same as asking again, or no answer at all."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import extempo as ex
from extempo.autograd import vjp_programs
from extempo.core.op import REGISTRY
from extempo.core.types import TensorType, float32
from extempo.dispatch.kernel_cache import SIGNATURES, make_signature
from extempo.errors import ShapeError
from extempo.nn import functional as F
from extempo.symbolic import sym_int as learning
from extempo.symbolic.sym_int import DataDependent, GuardedCache, SymInt, generalize

some_sizes = st.integers(0, 40)


def _cut(m, n, k):
    """Arithmetic as binding rules have it: decisions, divisions, texts, tables."""
    tall = m > 2 * n or n == 1
    rows = -(-m // 6) if tall else max(1, min(m, n) % 7)
    names = ("none", "one", "two", "more")
    padded = [0] * (k % 3)
    return (TensorType((m, rows * n), float32), [rows, m - n, *padded], {"name": names[min(k, 3)], "to": f"{k // 16}"})


@settings(max_examples=200, deadline=None)
@given(st.tuples(some_sizes, some_sizes, some_sizes), st.tuples(some_sizes, some_sizes, some_sizes))
def test_what_was_learnt_at_some_sizes_is_right_at_others_or_says_nothing(learnt_at, asked_at):
    derived = generalize(_cut, learnt_at)
    assert derived is not None
    assert derived(*learnt_at) == _cut(*learnt_at)
    found = derived(*asked_at)
    assert found is None or found == _cut(*asked_at)


def test_sizes_that_lead_to_the_same_decisions_are_answered():
    derived = generalize(_cut, (100, 8, 5))
    assert derived(97, 9, 5) == _cut(97, 9, 5)
    assert derived(10, 9, 5) is None  # no longer tall


@pytest.mark.parametrize(
    "use",
    [
        lambda n: range(n)[-1],
        lambda n: [1, 2, 3, 4][n],
        lambda n: "x" * n,
        lambda n: f"{n:03}",
        lambda n: str(n),
        lambda n: int(n),
        lambda n: float(n),
        lambda n: math.gcd(n, 2),
        lambda n: "some" if n else "none",
        lambda n: n in (1, 3),
        lambda n: sorted([n, 2])[0] == 2,
        lambda n: (7, n) == (7, 3),
    ],
)
def test_what_is_decided_by_a_size_holds_for_sizes_that_decide_alike(use):
    derived = generalize(lambda n: (use(n), n + 1), (3,))
    assert derived(3) == (use(3), 4)
    for other in (0, 1, 2):
        found = derived(other)
        assert found is None or found == (use(other), other + 1)


def test_a_stand_in_is_no_key():
    with pytest.raises(DataDependent):
        hash(SymInt(3, "s0", learning.GuardLog()))
    assert generalize(lambda n: {n: 1}, (3,)) is None


def test_what_a_stand_in_is_mistaken_for_is_not_learnt():
    family = GuardedCache()
    for size in range(1, 4 * learning.WORTH):
        family.missed(lambda n: ((n if isinstance(n, int) else n + 1,), None), (size,))
    assert family.find((5,)) is None


def test_a_family_that_cannot_be_learnt_is_left_alone():
    asked = []

    def derive(n):
        asked.append(type(n) is SymInt)
        return ((hash(n),), None)

    family = GuardedCache()
    for size in range(10 * learning.WORTH):
        family.missed(derive, (size,))
    assert sum(asked) == learning.TRIES


def test_a_family_is_bounded():
    family = GuardedCache()
    for size in range(2 * learning.MOST * learning.WORTH):
        family.missed(lambda n: ((str(n),), None), (size,))
    assert len(family._known) == learning.MOST


@pytest.mark.skipif(ex.backends.stats()["backend"] != "native", reason="native kernels")
@pytest.mark.parametrize("n", [1, 2, 5, 6, 7, 30, 64, 121, 360, 5000])
def test_a_learnt_kernel_has_the_words_of_one_that_is_bound(n, monkeypatch):
    monkeypatch.setattr(learning, "WORTH", 1)
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
    monkeypatch.setattr(learning, "WORTH", 1)
    for n in (4, 5, 32, 33, 65, 101, 8, 9):
        _step(ex.ones(n, 5, requires_grad=True), ex.zeros(n, dtype=ex.int64), weight, bias)
    _forget()
    assert [[t.tolist() for t in _step(x, y, weight, bias)] for x, y in inputs] == alone


def test_a_new_size_of_a_learnt_structure_asks_no_rule(monkeypatch):
    monkeypatch.setattr(learning, "WORTH", 1)
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
    monkeypatch.setattr(learning, "WORTH", 1)
    for n in (3, 4, 5):
        assert (ex.ones(n, dtype=ex.int64) / 2).dtype is ex.float32
    ex.set_default_dtype(ex.float64)
    try:
        assert (ex.ones(6, dtype=ex.int64) / 2).dtype is ex.float64
    finally:
        ex.set_default_dtype(ex.float32)


def test_shapes_that_do_not_fit_are_told_at_sizes_of_a_learnt_structure(monkeypatch):
    monkeypatch.setattr(learning, "WORTH", 1)
    for n in (3, 4, 5, 6):
        F.linear(ex.ones(n, 5), ex.ones(8, 5))
    with pytest.raises(ShapeError, match="linear"):
        F.linear(ex.ones(7, 6), ex.ones(8, 5))
