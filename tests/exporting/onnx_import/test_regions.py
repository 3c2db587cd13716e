"""Regions of images beside onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from extempo.errors import ArgumentError, ShapeError

BOXES = np.array([[0.5, 1.0, 4.2, 5.0], [2.0, 2.0, 7.9, 6.1], [-1.0, 0.0, 3.0, 9.0]], np.float32)


@pytest.mark.parametrize("ratio", [0, 2])
@pytest.mark.parametrize("coordinates", ["half_pixel", "output_half_pixel"])
def test_regions_are_averaged_over_samples(agrees, normal, ratio, coordinates):
    images = np.array([0, 1, 0])
    agrees(
        "RoiAlign", [normal(2, 3, 8, 8), BOXES, images], output_height=2, output_width=3, sampling_ratio=ratio,
        coordinate_transformation_mode=coordinates, spatial_scale=0.9, atol=1e-4,
    )  # fmt: skip


def test_impossible_regions_are_errors(run_node, normal):
    x = normal(1, 1, 8, 8)
    with pytest.raises(ShapeError, match=r"rois must be \(1, 4\)"):
        run_node("RoiAlign", [x, BOXES, np.array([0])])
    with pytest.raises(ArgumentError, match="finite corners"):
        run_node("RoiAlign", [x, np.full((1, 4), np.nan, np.float32), np.array([0])])
    with pytest.raises(ShapeError, match="check the rois"):
        run_node("RoiAlign", [x, np.array([[0, 0, 1e9, 1e9]], np.float32), np.array([0])])


def test_the_largest_of_each_cell(agrees, normal):
    rois = np.array([[0, 0, 0, 5, 7], [1, 2, 3, 6, 6]], np.float32)
    agrees("MaxRoiPool", [normal(2, 3, 8, 8), rois], pooled_shape=[2, 2])


@pytest.mark.parametrize("centred", [0, 1])
def test_boxes_that_overlap_a_better_one_are_left_out(agrees, rng, centred):
    boxes, scores = rng.uniform(0, 1, (2, 20, 4)).astype(np.float32), rng.uniform(0, 1, (2, 3, 20)).astype(np.float32)
    limits = [np.array([4]), np.array([0.3], np.float32), np.array([0.2], np.float32)]
    found = agrees("NonMaxSuppression", [boxes, scores, *limits], types=[7], center_point_box=centred)[0]
    assert len(found) > 6


def test_no_limit_means_no_boxes(run_node, rng):
    boxes, scores = rng.uniform(0, 1, (1, 5, 4)).astype(np.float32), rng.uniform(0, 1, (1, 1, 5)).astype(np.float32)
    assert run_node("NonMaxSuppression", [boxes, scores], types=[7])[0].shape == (0, 3)
    with pytest.raises(ShapeError, match="expected boxes"):
        run_node("NonMaxSuppression", [boxes[0], scores], types=[7])
