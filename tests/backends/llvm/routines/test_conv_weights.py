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
