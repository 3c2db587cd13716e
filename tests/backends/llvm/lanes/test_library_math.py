"""Functions by the C library: float64's and the rare ones, against NumPy and the standard library."""

import math

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from extempo.backends.llvm.lanes import library_math

from ..lane_kernels import Kernel, ulps

X = np.array([-750.0, -40.0, -3.0, -1.0, -1e-9, -0.0, 0.0, 1e-9, 0.5, 1.0, 3.0, 40.0, 750.0])
LONG = X.astype(np.longdouble)


def of(function, dtype=np.float64):
    return Kernel(lambda e, values: [function(e.b, *values)], [dtype], [dtype])


def by_math(fn):
    return np.array([fn(float(x)) for x in X])


SIGMOID = 1.0 / (1.0 + np.exp(-LONG))
EXPECTED = {
    "sigmoid": SIGMOID,
    "softplus": np.logaddexp(0.0, LONG),
    "silu": np.where(X < -700, -0.0, LONG * SIGMOID),
    "gelu": by_math(lambda x: 0.5 * x * math.erfc(-x / math.sqrt(2.0))),
    "mish": LONG * np.tanh(np.logaddexp(0.0, LONG)),
    "lgamma": by_math(lambda x: math.lgamma(x) if x > 0 else math.nan),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_float64_functions_are_right_to_a_few_units_and_never_overflow(name):
    with np.errstate(over="ignore"):
        got, expected = of(getattr(library_math, name))(X), EXPECTED[name]
    there = np.isfinite(expected.astype(np.float64)) & (np.abs(expected) > 1e-290)
    assert there.sum() >= 5
    limit = 10 if name == "gelu" else 4  # far below 0, erfc multiplies the rounding of x
    assert ulps(got, expected)[there].max() <= limit
    assert not np.isnan(got[np.isfinite(expected.astype(np.float64))]).any()


def test_the_slope_of_gelu_tanh_is_its_derivative():
    x = np.linspace(-15.0, 15.0, 61)
    slope, value, step = of(library_math.gelu_tanh_slope)(x), of(library_math.gelu_tanh), 1e-6
    np.testing.assert_allclose(slope, (value(x + step) - value(x - step)) / (2 * step), atol=1e-9)


def test_nan_stays_nan():
    for name in EXPECTED:
        assert np.isnan(of(getattr(library_math, name))(np.full(9, np.nan))).all()


def test_lgamma_of_float32_is_rounded_from_float64():
    x = np.array([0.5, 1.0, 1.5, 2.0, 2.5, 100.0, 1e10], np.float32)
    expected = np.array([math.lgamma(float(v)) for v in x]).astype(np.float32)
    np.testing.assert_array_equal(of(library_math.lgamma, np.float32)(x), expected)
