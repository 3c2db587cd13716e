"""Division with a remainder on lanes: NumPy's signs, and no trap."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from extempo.core.op import REGISTRY

from ..lane_kernels import DTYPES, Kernel, kernel_of


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod"])
@pytest.mark.parametrize("dtype", DTYPES["i"])
def test_integer_division_by_zero_is_refused_and_never_traps(name, dtype):
    kernel = kernel_of(REGISTRY[name], dtype)
    least = np.iinfo(dtype).min
    a = np.array([least, least, 7, -7, 7, -7, least, 1] * 4, dtype)
    b = np.array([-1, 3, 2, 2, -2, -2, least, 5] * 4, dtype)
    actual, refused = kernel(a, b)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(actual, REGISTRY[name].numpy(a, b))
    assert not refused.any()
    b[27] = 0
    refused = kernel(a, b)[1].tolist()
    assert (refused[:16], refused[27]) == ([False] * 16, True)  # those done at once with it are refused, too


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floats_have_numpys_floor_quotients_and_remainders(dtype):
    rng = np.random.default_rng(3)
    a = np.concatenate([rng.normal(size=50) * 100, [0.0, -0.0, 1e30, -5.0, 6.0, np.inf, 1.0]]).astype(dtype)
    b = np.concatenate([rng.normal(size=50) * 3, [2.0, -2.0, 0.1, 0.0, np.inf, 2.0, np.nan]]).astype(dtype)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(kernel_of(REGISTRY["floor_divide"], dtype)(a, b)[0], np.floor_divide(a, b))
        np.testing.assert_array_equal(kernel_of(REGISTRY["remainder"], dtype)(a, b)[0], np.remainder(a, b))


def test_a_divisor_of_minus_one_does_not_trap_at_the_least_integer():
    least = np.array([np.iinfo(np.int64).min, 5, -5], np.int64)
    minus = np.full(3, -1, np.int64)
    assert kernel_of(REGISTRY["remainder"], np.int64)(least, minus)[0].tolist() == [0, 0, 0]
    assert kernel_of(REGISTRY["floor_divide"], np.int64)(least, minus)[0].tolist() == [least[0], -5, 5]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_rest_of_a_truncating_division_is_exact_whatever_the_quotient(dtype):
    rng = np.random.default_rng(2)
    x, y = ((rng.normal(size=20_000) * 10.0 ** rng.integers(-12, 12, 20_000)).astype(dtype) for _ in range(2))
    x[:2000] = y[:2000] * rng.integers(-9, 9, 2000)  # whole quotients, and some that only round to one
    special = np.array([-np.inf, -0.0, 0.0, np.inf, np.nan, 1.0, -3.0, 1e-40], dtype)
    pairs = [grid.reshape(-1) for grid in np.meshgrid(special, special)]
    x, y = np.concatenate([x, pairs[0]]), np.concatenate([y, pairs[1]])
    kernel = Kernel(lambda e, values: [e.fmod(*values)], [dtype] * 2, [dtype])
    with np.errstate(all="ignore"):
        found, expected = kernel(x, y), np.fmod(x, y)
    np.testing.assert_array_equal(found, expected)
    there = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[there]), np.signbit(expected[there]))
