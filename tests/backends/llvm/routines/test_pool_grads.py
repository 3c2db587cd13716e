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
