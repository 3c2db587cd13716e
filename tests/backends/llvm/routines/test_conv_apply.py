"""Native convolution and transposed convolution."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

from extempo.backends.llvm.routines import conv_geometry, convolution, pooling  # noqa: F401 - pooling registers routines

from ..guarded import call
from .convolutions import attributes, draw


def test_an_image_gives_the_same_bits_alone_and_in_a_batch():
    rng = np.random.default_rng(0)
    x, w = draw(rng, (9, 3, 12, 11), np.float32), draw(rng, (20, 3, 3, 3), np.float32)
    attrs = {**attributes(padding=1), "counts": (12, 11)}
    (whole,) = call("conv", x, w, None, **attrs)
    for i in range(9):
        (alone,) = call("conv", x[i : i + 1], w, None, **attrs)
        np.testing.assert_array_equal(whole[i], alone[0])


def test_a_nan_reaches_only_the_windows_that_see_it():
    x = np.zeros((1, 1, 9, 9), np.float32)
    x[0, 0, 4, 4] = np.nan
    (y,) = call("conv", x, np.ones((20, 1, 3, 3), np.float32), None, **attributes(padding=1), counts=(9, 9))
    assert np.isnan(y[0, :, 3:6, 3:6]).all()
    assert np.isnan(y).sum() == 20 * 9
