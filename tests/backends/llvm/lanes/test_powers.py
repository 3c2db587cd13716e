"""Powers on lanes: the bits of the C library's, whatever exponents stand beside."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from extempo.backends.llvm.lanes import powers
from extempo.core.op import REGISTRY

from ..lane_kernels import Kernel, awkward, kernel_of


def test_powers_do_not_depend_on_the_exponents_beside_them():
    kernel = kernel_of(REGISTRY["pow_tensor"], np.float32)
    x = np.abs(awkward(np.float32, 64, np.random.default_rng(12)))
    for exponent in (2.0, 3.0, 0.5, -0.5, -1.0, -2.0, 1.0, 0.0, 1.7):
        y = np.full_like(x, exponent)
        alone = kernel(x, y)
        mixed = y.copy()
        mixed[1::2] = 2.3
        np.testing.assert_array_equal(kernel(x, mixed)[::2], alone[::2])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_small_exponents_are_products_roots_and_quotients(dtype):
    kernel = kernel_of(REGISTRY["pow_tensor"], dtype)
    x = np.array([0.0, 0.5, 1.0, 3.0, 10.0, np.inf], dtype)
    with np.errstate(divide="ignore"):
        for exponent, expected in ((2.0, x * x), (3.0, x * x * x), (0.5, np.sqrt(x)), (-1.0, 1 / x), (0.0, x**0)):
            np.testing.assert_array_equal(kernel(x, np.full_like(x, exponent)), expected)
    assert np.isnan(kernel(np.array([-2.0], dtype), np.array([0.5], dtype)))


def test_integer_powers_wrap_around_and_negative_exponents_leave_the_whole_part():
    kernel = Kernel(lambda e, values: [powers.integer_power(e.b, *values)], [np.int64] * 2, [np.int64])
    x = np.array([2, -3, 7, 0, 1, -1, -1, 2, 10], np.int64)
    y = np.array([10, 3, 0, 0, -5, -3, -4, -1, 30], np.int64)
    wrapped = (10**30 + 2**63) % 2**64 - 2**63
    assert kernel(x, y).tolist() == [1024, -27, 1, 1, 1, -1, 1, 0, wrapped]
