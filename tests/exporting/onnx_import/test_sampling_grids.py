"""Grids and what is read at them, beside onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.mark.parametrize("corners", [0, 1])
def test_images_are_read_at_the_places_of_a_grid(agrees, normal, corners):
    x, grid = normal(2, 3, 4, 5), np.clip(normal(2, 3, 3, 2), -1.2, 1.2)
    for mode in ("linear", "nearest", "cubic"):
        agrees("GridSample", [x, grid], mode=mode, align_corners=corners, atol=1e-4)
    agrees("GridSample", [x, grid], mode="bilinear", padding_mode="border", align_corners=corners, opset=16)


@pytest.mark.parametrize("corners", [0, 1])
def test_grids_of_matrices(agrees, normal, corners):
    agrees("AffineGrid", [normal(2, 2, 3), np.array([2, 3, 4, 5])], align_corners=corners)
