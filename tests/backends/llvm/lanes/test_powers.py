"""Powers on lanes: the bits of the C library's, whatever exponents stand beside."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from extempo.core.op import REGISTRY

from ..lane_kernels import awkward, kernel_of


def test_powers_do_not_depend_on_the_exponents_beside_them():
    kernel = kernel_of(REGISTRY["pow_tensor"], np.float32)
    x = np.abs(awkward(np.float32, 64, np.random.default_rng(12)))
    for exponent in (2.0, 3.0, 0.5, -0.5, -1.0, -2.0, 1.0, 0.0, 1.7):
        y = np.full_like(x, exponent)
        alone = kernel(x, y)
        mixed = y.copy()
        mixed[1::2] = 2.3
        np.testing.assert_array_equal(kernel(x, mixed)[::2], alone[::2])
