"""Native gradients of pooling, also where indices point anywhere."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")


from ..guarded import call


def test_indices_outside_of_their_windows_are_followed():
    g, indices = np.ones((2, 3, 3), np.float32), np.full((2, 3, 3), 35)
    (y,) = call("max_pool_grad", g, indices, sizes=(6, 6))
    assert (y[:, 5, 5] == 9).all()
    assert y.sum() == 18


@pytest.mark.parametrize("wrong", [36, -1, 1 << 40])
def test_indices_outside_of_the_plane_are_declined(wrong):
    indices = np.zeros((2, 3, 3), np.int64)
    indices[1, 2, 2] = wrong
    assert call("max_pool_grad", np.ones((2, 3, 3), np.float32), indices, sizes=(6, 6)) is None
    assert call("max_pool_grad", np.ones((2, 3, 3), np.float32), indices, sizes=(4, 9)) is None


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [2, 7, 16, 17, 33])
def test_gradients_of_halved_planes_go_to_one_place_each(width, dtype):
    sizes, counts = (4, width), (2, width // 2)
    rng = np.random.default_rng(width)
    g = rng.normal(size=(3, *counts)).astype(dtype)
    rows, columns = np.indices(counts)
    indices = (2 * rows + rng.integers(0, 2, (3, *counts))) * width + 2 * columns + rng.integers(0, 2, (3, *counts))
    (y,) = call("max_pool_grad", g, indices, sizes=sizes)
    expected = np.zeros((3, 4 * width), dtype)
    for plane in range(3):
        expected[plane, indices[plane].ravel()] = g[plane].ravel()
    np.testing.assert_array_equal(y.reshape(3, -1), expected)


def test_a_mean_shares_its_gradient_out_evenly():
    attrs = {"kernel": (2, 3), "stride": (2, 3), "padding": (0, 0), "include_pad": True}
    g = np.arange(1.0, 13.0).reshape(1, 3, 4).astype(np.float32)
    (y,) = call("avg_pool_grad", g, None, sizes=(6, 12), **attrs)
    np.testing.assert_allclose(y, np.kron(g, np.ones((1, 2, 3))) / 6, rtol=1e-6)
    (y,) = call("avg_pool_grad", g, 2, sizes=(6, 12), **attrs)
    np.testing.assert_allclose(y, np.kron(g, np.ones((1, 2, 3))) / 2, rtol=1e-6)
