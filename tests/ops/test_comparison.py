"""Comparisons: infinities, NaN, limits of dtypes, None."""

from __future__ import annotations

import math

import pytest

import extempo as ex
from extempo.errors import NumericalError

from .helpers import values


def test_infinities_are_close_only_to_themselves():
    x = ex.tensor([math.inf, -math.inf, math.inf, 1.0])
    y = ex.tensor([math.inf, math.inf, 1.0, math.inf])
    assert values(ex.isclose(x, y)) == [True, False, False, False]


def test_isclose_of_bools_and_of_nan():
    assert values(ex.isclose(ex.tensor([True, False]), ex.tensor([True, True]))) == [True, False]
    nan = ex.tensor([math.nan])
    assert not ex.allclose(nan, nan)
    assert ex.allclose(nan, nan, equal_nan=True)


def test_tensors_of_different_shapes_are_not_equal():
    assert not ex.equal(ex.tensor([1.0]), ex.tensor([1.0, 1.0]))
    assert ex.equal(ex.empty(0, 3), ex.empty(0, 3))


def test_comparing_with_none_is_false():
    assert (ex.tensor([1.0]) == None) is False  # noqa: E711 - the operator is what is tested
    assert (ex.tensor([1.0]) != None) is True  # noqa: E711 - the operator is what is tested


@pytest.mark.parametrize("dtype", [ex.int8, ex.int16, ex.int32, ex.int64])
def test_isclose_of_integers_at_their_limits_does_not_wrap_around(dtype):
    least, most = ex.iinfo(dtype).min, ex.iinfo(dtype).max
    a, b = ex.tensor([least, 0, most, most], dtype=dtype), ex.tensor([0, least, -1, most], dtype=dtype)
    assert values(ex.isclose(a, b)) == [False, False, False, True]


def test_no_integer_is_infinite_also_into_out():
    for question in (ex.isposinf, ex.isneginf):
        for dtype in (ex.bool, ex.uint8, ex.int64):
            out = ex.ones(2, dtype=ex.bool)
            assert question(ex.tensor([0, 1], dtype=dtype), out=out) is out
            assert values(out) == [False, False]


@pytest.mark.parametrize("close", [ex.isclose, ex.allclose])
@pytest.mark.parametrize("tolerance", [{"rtol": -0.1}, {"atol": -1e-8}, {"rtol": math.nan}])
def test_tolerances_are_not_negative(close, tolerance):
    with pytest.raises(NumericalError, match=f"{next(iter(tolerance))} must be 0 or more"):
        close(ex.tensor([1.0]), ex.tensor([1.0]), **tolerance)
