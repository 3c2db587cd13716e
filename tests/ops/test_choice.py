"""Choices between elements: ties, NaN, crossed bounds, dtypes."""

from __future__ import annotations

import math

import pytest

import extempo as ex
from extempo.errors import DtypeError, ShapeError

from .helpers import gradient, values


def test_nan_wins_in_maximum_and_loses_in_fmax():
    a, b = ex.tensor([math.nan, 1.0]), ex.tensor([0.0, math.nan])
    assert all(math.isnan(v) for v in values(ex.maximum(a, b)))
    assert values(ex.fmax(a, b)) == [0.0, 1.0]


def test_equal_elements_share_the_gradient_of_maximum():
    a = ex.tensor([1.0, 2.0, 0.0], requires_grad=True)
    b = ex.tensor([1.0, 1.0, 1.0], requires_grad=True)
    ex.maximum(a, b).sum().backward()
    assert values(a.grad) == [0.5, 1.0, 0.0]
    assert values(b.grad) == [0.5, 0.0, 1.0]


def test_clamp_passes_the_gradient_on_its_bounds():
    x = ex.tensor([-2.0, -1.0, 0.0, 1.0, 2.0], requires_grad=True)
    assert gradient(lambda x: x.clamp(-1, 1), x) == [0.0, 1.0, 1.0, 1.0, 0.0]


def test_clamp_with_crossed_bounds_gives_the_upper_one():
    low = ex.tensor([2.0], requires_grad=True)
    high = ex.tensor([1.0], requires_grad=True)
    y = ex.clamp(ex.tensor([5.0]), low, high)
    y.sum().backward()
    assert values(y) == [1.0]
    assert values(low.grad) == [0.0]
    assert values(high.grad) == [1.0]


def test_clamp_needs_a_bound():
    with pytest.raises(ShapeError, match="at least one"):
        ex.clamp(ex.tensor([1.0]))


def test_nan_to_num_replaces_by_the_limits_of_the_dtype():
    x = ex.tensor([math.nan, math.inf, -math.inf, 1.5], requires_grad=True)
    limit = ex.finfo(ex.float32).max
    assert values(ex.nan_to_num(x)) == [0.0, limit, -limit, 1.5]
    assert values(ex.nan_to_num(x, 7.0, 8.0, 9.0)) == [7.0, 8.0, 9.0, 1.5]
    assert gradient(ex.nan_to_num, x) == [0.0, 0.0, 0.0, 1.0]


def test_heaviside_asks_for_one_dtype():
    assert values(ex.heaviside(ex.tensor([-1.0, 0.0, 2.0]), ex.tensor(0.5))) == [0.0, 0.5, 1.0]
    with pytest.raises(DtypeError, match="one dtype"):
        ex.heaviside(ex.tensor([1.0]), ex.tensor([1]))


def test_where_refuses_a_condition_that_is_no_bool():
    with pytest.raises(DtypeError, match="bool condition"):
        ex.where(ex.tensor([1.0]), 1.0, 2.0)


def test_a_choice_among_other_things_than_numbers_is_refused_by_name():
    with pytest.raises(DtypeError, match=r"^where: expected a tensor or a number, got str"):
        ex.where(ex.ones(2) > 0, ex.ones(2), "a")
