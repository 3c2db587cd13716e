"""Quotients and remainders: exactness, signs and zeros."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.errors import DtypeError, NumericalError, ShapeError

from .helpers import same_bits, values


def test_truncating_division_is_exact_beyond_float_precision():
    big = 2**62 + 1
    assert values(ex.div(ex.tensor([-big, big]), 3, rounding_mode="trunc")) == [-(big // 3), big // 3]


def test_division_by_integer_zero_is_an_error():
    with pytest.raises(NumericalError, match="division of integers by zero"):
        ex.tensor([1]) // 0
    with pytest.raises(NumericalError):
        ex.tensor([1]) % ex.tensor([0])


def test_unknown_rounding_mode_is_refused():
    with pytest.raises(ShapeError, match="'trunc' or 'floor'"):
        ex.div(ex.tensor([1.0]), 2.0, rounding_mode="up")


def test_addcdiv_refuses_integers():
    with pytest.raises(DtypeError, match=r"use x\.float"):
        ex.addcdiv(ex.tensor([1]), ex.tensor([1]), ex.tensor([2]))


@pytest.mark.parametrize("dtype", [ex.float16, ex.bfloat16, ex.float32, ex.float64])
def test_a_remainder_of_zero_has_the_sign_of_the_dividend(dtype):
    a, b = ex.tensor([0.0, -0.0, 4.0, -4.0], dtype=dtype), ex.tensor([-2.0, 2.0, -2.0, 2.0], dtype=dtype)
    for rest in (ex.remainder(a, b), a % b):
        same_bits(rest, [0.0, -0.0, 0.0, -0.0])
