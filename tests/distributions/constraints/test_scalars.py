"""Constraints of single numbers."""

from __future__ import annotations

import math

import pytest

import extempo as ex
from extempo.distributions import constraints as c

NUMBERS = [-math.inf, -1.0, 0.0, 0.5, 1.0, math.inf, math.nan]


@pytest.mark.parametrize(
    ("constraint", "inside"),
    [
        (c.real, [-math.inf, -1.0, 0.0, 0.5, 1.0, math.inf]),
        (c.boolean, [0.0, 1.0]),
        (c.positive, [0.5, 1.0, math.inf]),
        (c.nonnegative, [0.0, 0.5, 1.0, math.inf]),
        (c.less_than(0.5), [-math.inf, -1.0, 0.0]),
        (c.unit_interval, [0.0, 0.5, 1.0]),
        (c.half_open_interval(0.0, 1.0), [0.0, 0.5]),
        (c.integer_interval(0, 1), [0.0, 1.0]),
        (c.positive_integer, [1.0]),
        (c.nonnegative_integer, [0.0, 1.0]),
    ],
    ids=lambda x: repr(x) if isinstance(x, c.Constraint) else "",
)
def test_what_lies_inside(constraint, inside):
    checked = [x for x, is_inside in zip(NUMBERS, constraint.check(ex.tensor(NUMBERS)), strict=True) if is_inside]
    assert checked == inside


def test_bounds_may_be_tensors_that_broadcast():
    low = ex.tensor([[0.0], [2.0]])
    assert c.greater_than(low).check(ex.tensor([1.0, 3.0])).tolist() == [[True, True], [False, True]]
    assert c.interval(low, 2.5).check(ex.tensor([2.0])).tolist() == [[True], [True]]


def test_whole_numbers_are_discrete():
    assert all(x.is_discrete for x in (c.boolean, c.positive_integer, c.integer_interval(0, 1)))
    assert not any(x.is_discrete for x in (c.real, c.positive, c.unit_interval))
