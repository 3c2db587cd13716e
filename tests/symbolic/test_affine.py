"""Affine forms: what is made of values at three sizes gives those back, and says what it cannot."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from extempo.core.trace_tree import Unplannable
from extempo.core.types import TensorType, float32
from extempo.symbolic.affine import Affine, AffineFit, at_size
from extempo.symbolic.sym_int import generalize

SIZES = (10, 13, 20)


class Place(NamedTuple):
    strides: tuple[int, ...]
    offset: int


def fitted(make):
    return AffineFit(SIZES)([make(n) for n in SIZES])


@pytest.mark.parametrize(
    "make",
    [
        lambda n: 3 * n - 4,
        lambda n: (n, 7, (2 * n, "name")),
        lambda n: TensorType((n, 5), float32),
        lambda n: Place((4 * n, 4), 8 * n + 16),
        lambda n: {"dim": 1, "size": n - 1},
        lambda n: (True, None, 2.5),
        lambda n: (),
    ],
)
def test_what_is_affine_is_known_at_any_size(make):
    form = fitted(make)
    for n in (*SIZES, 0, 1, 1_000_003):
        found = at_size(form, n)
        assert found == make(n)
        assert type(found) is type(make(n))


def test_what_does_not_vary_is_handed_back_as_it_is():
    value = (3, ("a", 2.5), {"dim": 0})
    assert AffineFit(SIZES)([value] * 3) is value
    assert not isinstance(fitted(lambda n: (1, 2)), Affine)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda n: n * n, "grow evenly"),
        (lambda n: n // 2, "grow evenly"),
        (lambda n: n / 2, "a number depends"),
        (lambda n: (0,) * n, "decides what is computed"),
        (lambda n: {"a": n} if n < 15 else {"b": n}, "decides what is computed"),
        (lambda n: n if n < 15 else float(n), "decides what is computed"),
        (lambda n: str(n), "a str depends"),
        (lambda n: 0.0 if n < 15 else -0.0, "a number depends"),
    ],
)
def test_what_is_not_affine_is_refused_with_a_reason(make, reason):
    with pytest.raises(Unplannable, match=reason):
        fitted(make)


def test_nan_is_the_same_number_at_all_sizes():
    form = fitted(lambda n: (n, float("nan")))
    assert repr(at_size(form, 4)) == "(4, nan)"


def test_only_entries_that_vary_are_listed():
    lists = [[5, n, "x", (n, 2)] for n in SIZES]
    found = AffineFit(SIZES).varying(lists)
    assert [i for i, _ in found] == [1, 3]
    assert found[1][1].at(4) == (4, 2)
    with pytest.raises(Unplannable):
        AffineFit(SIZES).varying([[1], [1, 2], [1]])


def test_a_form_takes_a_symbolic_size_as_well_as_a_number():
    form = fitted(lambda n: (2 * n + 1, n, 9))
    derived = generalize(lambda n: form.at(n), (10,))
    assert derived(50) == (101, 50, 9)
