"""What follows from sizes, learnt as a function of them: the same as asking again, or no answer at all."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extempo.core.types import TensorType, float32
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
