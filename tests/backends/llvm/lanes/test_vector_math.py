"""Elementary functions on float32 lanes: errors in ulp over the whole range, and what they are at its edges."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from ..lane_kernels import Kernel, of_method, ulps


def each(fn):
    """A function of the standard library, which knows erf, for every element."""
    return lambda x: np.array(list(map(fn, x.tolist())))


def sigmoid(x):
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1.0) / (1.0 + e)


def mish(x):
    e = np.exp(-np.abs(x))
    top = np.where(x < 0, e * (e + 2.0), 1.0 + 2.0 * e)
    return x * (top / (top + np.where(x < 0, 2.0, 2.0 * e * e)))


# In float64: what the function is, and by how many ulp of float32 the native one may differ.
FUNCTIONS = {
    "exp": (np.exp, 1.0),
    "exp2": (np.exp2, 1.0),
    "expm1": (np.expm1, 2.0),
    "log": (np.log, 1.0),
    "log2": (np.log2, 1.25),
    "log10": (np.log10, 1.0),
    "log1p": (np.log1p, 1.0),
    "tanh": (np.tanh, 1.5),
    "sigmoid": (sigmoid, 2.0),
    "softplus": (lambda x: np.logaddexp(x, 0.0), 2.0),
    "silu": (lambda x: x * sigmoid(x), 2.0),
    "mish": (mish, 4.0),
    "gelu_tanh": (lambda x: x * sigmoid(math.sqrt(8.0 / math.pi) * (x + 0.044715 * x**3)), 2.0),
    "sin": (np.sin, 2.0),
    "cos": (np.cos, 2.0),
    "erf": (each(math.erf), 1.5),
    "erfc": (each(math.erfc), 2.0),
    "gelu": (lambda x: x * 0.5 * each(math.erfc)(x * -math.sqrt(0.5)), 2.0),
}
SLOW = {"erf", "erfc", "gelu"}  # their references are computed one element at a time


@functools.cache
def whole_range(step):
    """Every `step`-th float32 by its bits: zeros, denormals, infinities and NaN among them."""
    return np.arange(0, 2**32, step, dtype=np.uint64).astype(np.uint32).view(np.float32)


@functools.cache
def usual_range(n):
    """n numbers where functions bend and results become tiny."""
    lines = [np.linspace(-limit, limit, n // 4) for limit in (1.0, 6.0, 20.0, 120.0)]
    return np.concatenate(lines).astype(np.float32)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_error_stays_small_over_the_whole_range(name):
    reference, allowed = FUNCTIONS[name]
    slower = 8 if name in SLOW else 1
    kernel = of_method(name)
    for x in (whole_range(997 * slower), usual_range(400_000 // slower)):
        y = kernel(x)
        with np.errstate(all="ignore"):
            error = ulps(y, reference(x.astype(np.float64)))
        i = int(np.argmax(error))
        assert error[i] <= allowed, f"{name}({x[i]!r}) is {y[i]!r}, {error[i]} ulp off"


INF = math.inf
# At minus infinity, -0.0, 0.0 and infinity; NaN gives NaN. The gated units are inf * 0 below, as NumPy computes it.
EDGES = {
    "exp": (0.0, 1.0, 1.0, INF),
    "exp2": (0.0, 1.0, 1.0, INF),
    "expm1": (-1.0, -0.0, 0.0, INF),
    "log": (math.nan, -INF, -INF, INF),
    "log2": (math.nan, -INF, -INF, INF),
    "log10": (math.nan, -INF, -INF, INF),
    "log1p": (math.nan, -0.0, 0.0, INF),
    "tanh": (-1.0, -0.0, 0.0, 1.0),
    "sigmoid": (0.0, 0.5, 0.5, 1.0),
    "softplus": (0.0, math.log(2.0), math.log(2.0), INF),
    "silu": (math.nan, -0.0, 0.0, INF),
    "mish": (math.nan, -0.0, 0.0, INF),
    "gelu_tanh": (math.nan, -0.0, 0.0, INF),
    "gelu": (math.nan, -0.0, 0.0, INF),
    "sin": (math.nan, -0.0, 0.0, math.nan),
    "cos": (math.nan, 1.0, 1.0, math.nan),
    "erf": (-1.0, -0.0, 0.0, 1.0),
    "erfc": (2.0, 1.0, 1.0, 0.0),
}


@pytest.mark.parametrize("name", EDGES)
def test_the_edges_are_exact_and_keep_the_sign_of_zero(name):
    y = of_method(name)(np.array([-INF, -0.0, 0.0, INF, math.nan, -math.nan], np.float32))
    expected = np.array([*EDGES[name], math.nan, math.nan], np.float32)
    np.testing.assert_array_equal(y, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(y)[numbers], np.signbit(expected)[numbers])


def test_every_function_has_its_edges_tested():
    assert EDGES.keys() == FUNCTIONS.keys()


@pytest.mark.parametrize("name", ["expm1", "log1p", "tanh", "sin"])
def test_denormal_numbers_come_back_unchanged(name):
    tiny = np.array([1, 2, 3, 1000, 2**22, 2**23 - 1, 2**23], np.uint32).view(np.float32)
    for x in (tiny, -tiny):
        np.testing.assert_array_equal(of_method(name)(x), x)


def test_the_slope_of_gelu_tanh_is_right_to_3e_7_everywhere():
    """In ulp there is no bound: it passes through 0."""
    for x in (whole_range(997), usual_range(400_000)):
        x = x[~np.isnan(x)]
        wide = np.clip(x.astype(np.float64), -12.0, 12.0)
        inner = math.sqrt(8.0 / math.pi) * (wide + 0.044715 * wide**3)
        growth = math.sqrt(8.0 / math.pi) * (1.0 + 3.0 * 0.044715 * wide**2)
        expected = sigmoid(inner) * (1.0 + wide * growth * sigmoid(-inner))
        np.testing.assert_allclose(of_method("gelu_tanh_slope")(x), expected, rtol=0.0, atol=3e-7)


@pytest.mark.parametrize("name", ["exp", "exp2", "erfc", "gelu", "gelu_tanh", "silu", "sigmoid"])
def test_results_become_denormal_before_they_become_zero(name):
    bounds = {"exp2": (-149.0, -127.0), "erfc": (9.2, 10.0), "gelu": (-14.0, -13.1), "gelu_tanh": (-10.74, -10.11)}
    low, high = (bounds | {"silu": (-107.0, -92.0)}).get(name, (-103.0, -87.5))
    y = np.abs(of_method(name)(np.linspace(low, high, 1000, dtype=np.float32)))
    assert (y > 0.0).all()
    assert (y < np.finfo(np.float32).tiny).mean() > 0.5


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_lane_alone_gives_what_it_gives_in_a_vector(name):
    def lane_by_lane(e, values):
        out = e.b.undefined(values[0].type)
        for lane in range(values[0].type.lanes):
            out = e.b.insert(out, getattr(e, name)(e.b.extract(values[0], lane)), lane)
        return [out]

    x = usual_range(4000)
    alone = Kernel(lane_by_lane, [np.float32], [np.float32])(x)
    np.testing.assert_array_equal(alone, of_method(name)(x))
