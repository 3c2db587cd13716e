"""Matrices in either order, and products compared with NumPy in float64."""

from __future__ import annotations

import numpy as np

from ..guarded import call


def draw(rng, shape, dtype=np.float32, transposed=False):
    """Numbers of that shape; transposed: the last two dimensions are stored the other way round."""
    if not transposed:
        return rng.standard_normal(shape).astype(dtype)
    return rng.standard_normal((*shape[:-2], shape[-1], shape[-2])).astype(dtype).swapaxes(-1, -2)


def check(got, want, k):
    """Equal up to what summing k products in any order may lose."""
    assert got.shape == want.shape
    eps = np.finfo(got.dtype).eps
    np.testing.assert_allclose(got, want, rtol=8 * eps, atol=4 * eps * max(k, 1))


def check_matmul(a, b):
    (got,) = call("matmul", a, b)
    check(got, np.matmul(a.astype(np.float64), b.astype(np.float64)), a.shape[-1])
    return got
