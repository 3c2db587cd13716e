"""The native weight gradient of a convolution."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

from extempo.backends.llvm.routines import conv_geometry, convolution, pooling  # noqa: F401 - pooling registers routines
from extempo.core.op import REGISTRY

from ..guarded import call
from .convolutions import EPSILON, attributes, draw


def test_the_sum_over_a_large_batch_is_as_good_as_a_pairwise_one():
    rng = np.random.default_rng(0)
    x, g = (np.abs(draw(rng, (256, 2, 16, 16), np.float32)) for _ in range(2))
    attrs = {**attributes(), "kernel": (1, 1)}
    w, bias = call("conv_weight_grad", x, g, **attrs)
    exact_w, exact_bias = REGISTRY["conv_weight_grad"].numpy(x.astype(np.float64), g.astype(np.float64), **attrs)
    np.testing.assert_allclose(w, exact_w, rtol=16 * EPSILON[np.float32])
    np.testing.assert_allclose(bias, exact_bias, rtol=16 * EPSILON[np.float32])


def test_gradients_of_bias_and_weight_are_sums_over_images_and_places():
    x, g = np.ones((3, 2, 4, 4), np.float32), np.ones((3, 5, 4, 4), np.float32)
    w, bias = call("conv_weight_grad", x, g, **attributes(padding=1), kernel=(3, 3))
    assert (bias == 48).all()
    assert (w[:, :, 1, 1] == 48).all()
    assert (w[:, :, 0, 0] == 27).all()  # one row and one column of each image see padding


def test_a_nan_in_the_gradient_stays_with_its_output_channel():
    x, g = np.ones((2, 3, 6, 6), np.float32), np.ones((2, 20, 6, 6), np.float32)
    g[1, 7, 2, 3] = np.nan
    w, bias = call("conv_weight_grad", x, g, **attributes(padding=1), kernel=(3, 3))
    assert np.isnan(w).any(axis=(1, 2, 3)).nonzero()[0].tolist() == [7]
    assert np.isnan(bias).nonzero()[0].tolist() == [7]
