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


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_a_transposed_convolution_is_the_transpose_of_the_convolution(stride):
    rng = np.random.default_rng(stride)
    x, w = draw(rng, (2, 3, 9, 8), np.float64), draw(rng, (5, 3, 3, 2), np.float64)
    attrs = attributes(stride=stride, padding=1)
    counts = tuple((n + 2 - k) // stride + 1 for n, k in ((9, 3), (8, 2)))
    (y,) = call("conv", x, w, None, **attrs, counts=counts)
    g = draw(rng, y.shape, np.float64)
    (back,) = call("conv_transpose", g, w, None, **attrs, counts=(9, 8))
    np.testing.assert_allclose((y * g).sum(), (x * back).sum(), rtol=1e-12)


def test_a_kernel_of_one_place_is_a_matrix_product_of_channels():
    rng = np.random.default_rng(0)
    x, w, bias = (draw(rng, s, np.float32) for s in ((2, 33, 7), (17, 33, 1), (17,)))
    (y,) = call("conv", x, w, bias, **attributes(n=1), counts=(7,))
    exact = np.einsum("ncs,oc->nos", x.astype("d"), w[..., 0].astype("d")) + bias[:, None]
    np.testing.assert_allclose(y, exact, rtol=1e-5, atol=1e-5)
