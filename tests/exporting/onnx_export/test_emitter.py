"""Elementwise ops where ONNX or onnxruntime needs a detour: dtypes, NaN, signs of zero, float64."""

from __future__ import annotations

import math

import numpy as np
import pytest

import extempo as ex

from .agreement import Exported

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e-20, 3e4, math.inf, -math.inf, math.nan]


def agree(fn, *args, **tolerance):
    """Up to the sign of 0, which onnxruntime's Where does not keep."""
    theirs = Exported(ex.program(fn, args, check=False)).run(*args)[0]
    np.testing.assert_allclose(theirs, fn(*args).numpy(), **tolerance)


@pytest.mark.parametrize(
    "name", ["fmax", "fmin", "maximum", "minimum", "atan2", "copysign", "hypot", "remainder", "fmod", "floor_divide"]
)
def test_functions_of_two_agree_at_special_values(name):
    grid = ex.tensor([[a, b] for a in SPECIAL for b in SPECIAL])
    if name == "hypot":  # of NaN and infinity, onnxruntime's largest is the NaN
        grid = grid[~grid.isnan().any(1)]
    if name in ("remainder", "fmod", "floor_divide"):
        grid = grid[grid.isfinite().all(1) & (grid[:, 1] != 0)]
        agree(lambda x: getattr(ex, name)(x[:, 0], x[:, 1]).abs(), grid, rtol=1e-4, atol=1e-3)
        return
    agree(lambda x: getattr(ex, name)(x[:, 0], x[:, 1]), grid, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["expm1", "log1p", "sign", "round", "trunc", "isfinite", "isinf", "isnan", "signbit"])
def test_functions_of_one_agree_at_special_values(name):
    if name == "log1p":
        agree(lambda x: ex.log1p(x), ex.tensor([v for v in SPECIAL if not v < -1]), rtol=1e-6, atol=0)
        return
    agree(lambda x: getattr(ex, name)(x).float(), ex.tensor(SPECIAL), rtol=1e-6, atol=0)


@pytest.mark.parametrize("name", ["erf", "atan", "asin", "acos", "sinh", "cosh", "tan", "asinh", "atanh", "expm1"])
def test_float64_keeps_its_digits_where_onnxruntime_has_float32_only(name):
    x = ex.linspace(-0.95, 0.95, 41, dtype=ex.float64)
    agree(lambda x: getattr(ex, name)(x), x, rtol=1e-13, atol=1e-15)


def test_acosh_and_large_slopes_in_float64():
    x = ex.tensor([1.0, 1.5, 40.0, 1e9], dtype=ex.float64)
    agree(lambda x: ex.acosh(x) + ex.atan(x) + ex.nn.functional.softplus(x), x, rtol=1e-14)


def test_arithmetic_of_bools_and_small_integers():
    flags = ex.tensor([True, False, True]), ex.tensor([True, True, False])
    Exported(ex.program(lambda a, b: (a + b, a * b, a < b, a & b, ~a, ex.maximum(a, b)), flags)).agree(*flags)
    for d in (ex.int8, ex.uint8, ex.int16, ex.int32, ex.int64):
        numbers = ex.tensor([7, 3, 5], dtype=d), ex.tensor([2, 3, 4], dtype=d)
        made = ex.program(lambda a, b: (a + b, a // b, a % b, a**b, ex.maximum(a, b), a > b, a & b), numbers)
        Exported(made).agree(*numbers)


def test_shifts_of_signed_integers():
    numbers = ex.tensor([-9, 5, 1, 7]), ex.tensor([1, 2, 40, 70])
    Exported(ex.program(lambda a, b: (a << b, a >> b), numbers)).agree(*numbers)


def test_half_precision_rounds_once_at_the_end_of_an_op():
    x = ex.linspace(-3, 3, 33).half()
    Exported(ex.program(lambda x: (ex.sigmoid(x), ex.nn.functional.gelu(x), x / 3), x)).agree(x, rtol=1e-3, atol=1e-4)
