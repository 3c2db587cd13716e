"""Elementary functions on float64 lanes, and float32 ones that are computed there: errors in ulp, and the edges."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from ..lane_kernels import Kernel, of_method, ulps

LONG = np.longdouble
INF = math.inf
if np.finfo(LONG).nmant <= np.finfo(np.float64).nmant:
    pytest.skip("long double has no more digits than float64 here", allow_module_level=True)

# What the function is in more digits, and by how many ulp the native one may differ.
IN_FLOAT64 = {
    "exp": (np.exp, 1.0),
    "expm1": (np.expm1, 2.0),
    "log": (np.log, 1.0),
    "log1p": (np.log1p, 1.0),
    "tanh": (np.tanh, 3.0),
    "softplus": (lambda x: np.logaddexp(LONG(0.0), x), 2.0),
}
# float32 functions that are rounded from float64.
ROUNDED = {
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "atan": np.arctan,
    "asin": np.arcsin,
    "acos": np.arccos,
}


@functools.cache
def float64_range():
    lines = [np.linspace(-limit, limit, 20_000) for limit in (1e-3, 1.0, 6.0, 20.0, 120.0, 745.0)]
    any_bits = np.random.default_rng(0).integers(0, 2**64, 50_000, dtype=np.uint64).view(np.float64)
    return np.concatenate([*lines, any_bits])


@functools.cache
def float32_range():
    lines = [np.linspace(-limit, limit, 20_000, dtype=np.float32) for limit in (1e-3, 1.0, 6.0, 20.0, 120.0)]
    any_bits = np.arange(0, 2**32, 19_997, dtype=np.uint64).astype(np.uint32).view(np.float32)
    return np.concatenate([*lines, any_bits])


@pytest.mark.parametrize("name", IN_FLOAT64)
def test_float64_functions_are_right_to_few_ulp_over_the_whole_range(name):
    reference, allowed = IN_FLOAT64[name]
    x = float64_range()
    with np.errstate(all="ignore"):
        error = ulps(of_method(name, np.float64)(x), reference(x.astype(LONG)))
    i = int(np.argmax(error))
    assert error[i] <= allowed, f"{name}({x[i]!r}) is {error[i]} ulp off"


@pytest.mark.parametrize("name", ROUNDED)
def test_float32_functions_are_rounded_from_float64(name):
    x = float32_range()
    with np.errstate(all="ignore"):
        error = ulps(of_method(name)(x), ROUNDED[name](x.astype(LONG)))
    i = int(np.argmax(error))
    assert error[i] <= 0.52, f"{name}({x[i]!r}) is {error[i]} ulp off"


def test_tangents_are_right_to_an_ulp_and_the_c_librarys_for_large_angles():
    x = float32_range()
    with np.errstate(all="ignore"):
        assert ulps(of_method("tan")(x), np.tan(x.astype(LONG))).max() <= 1.5


# At minus infinity, -0.0, 0.0 and infinity; NaN gives NaN.
EDGES = {
    "exp": (0.0, 1.0, 1.0, INF),
    "expm1": (-1.0, -0.0, 0.0, INF),
    "log": (math.nan, -INF, -INF, INF),
    "log1p": (math.nan, -0.0, 0.0, INF),
    "tanh": (-1.0, -0.0, 0.0, 1.0),
    "sinh": (-INF, -0.0, 0.0, INF),
    "cosh": (INF, 1.0, 1.0, INF),
    "asinh": (-INF, -0.0, 0.0, INF),
    "acosh": (math.nan, math.nan, math.nan, INF),
    "atanh": (math.nan, -0.0, 0.0, math.nan),
    "tan": (math.nan, -0.0, 0.0, math.nan),
    "atan": (-math.pi / 2, -0.0, 0.0, math.pi / 2),
    "asin": (math.nan, -0.0, 0.0, math.nan),
    "acos": (math.nan, math.pi / 2, math.pi / 2, math.nan),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", EDGES)
def test_the_edges_are_exact_and_keep_the_sign_of_zero(name, dtype):
    y = of_method(name, dtype)(np.array([-INF, -0.0, 0.0, INF, math.nan, -math.nan], dtype))
    expected = np.array([*EDGES[name], math.nan, math.nan], dtype)
    np.testing.assert_array_equal(y, expected)
    there = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(y[there]), np.signbit(expected[there]))


def test_float64_results_become_denormal_before_they_become_zero():
    x = np.linspace(-746.0, -700.0, 997)
    np.testing.assert_allclose(of_method("exp", np.float64)(x), np.exp(x.astype(LONG)).astype(np.float64), atol=5e-324)
    tiny = np.array([5e-324, 1e-310, -3e-308, 1e-300])
    for name in ("expm1", "log1p", "tanh"):
        np.testing.assert_array_equal(of_method(name, np.float64)(tiny), tiny)


@pytest.mark.parametrize("name", [*IN_FLOAT64, *ROUNDED, "tan"])
def test_one_lane_alone_gives_what_it_gives_in_a_vector(name):
    dtype = np.float64 if name in IN_FLOAT64 else np.float32
    x = np.linspace(0.01, 0.99, 37).astype(dtype)
    together = of_method(name, dtype)(x)
    np.testing.assert_array_equal(together, [of_method(name, dtype)(x[i : i + 1])[0] for i in range(len(x))])


def test_angles_have_the_quadrant_and_the_signs_of_the_c_library():
    kernel = Kernel(lambda e, values: [e.atan2(*values)], [np.float32] * 2, [np.float32])
    special = np.array([-INF, -0.0, 0.0, INF, math.nan, 1.0, -1.0, 3.0, 1e-40], np.float32)
    y, x = (grid.reshape(-1).copy() for grid in np.meshgrid(special, special))
    with np.errstate(all="ignore"):
        found, expected = kernel(y, x), np.arctan2(y.astype(np.float64), x.astype(np.float64)).astype(np.float32)
    np.testing.assert_array_equal(found, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(expected[numbers]))
    y, x = float32_range(), np.random.default_rng(1).permutation(float32_range())
    with np.errstate(all="ignore"):
        assert ulps(kernel(y, x), np.arctan2(y.astype(LONG), x.astype(LONG))).max() <= 0.52
