"""Resize and Upsample beside onnxruntime and PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.errors import ArgumentError, ShapeError

COORDINATES = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("coordinates", COORDINATES)
def test_images_are_resized_by_every_mode(agrees, normal, mode, coordinates):
    x = normal(1, 2, 4, 5)
    for sizes in ([1, 2, 8, 7], [1, 2, 3, 2]):
        agrees(
            "Resize", [x, None, None, np.array(sizes)], mode=mode, coordinate_transformation_mode=coordinates, atol=1e-4
        )


@pytest.mark.parametrize("nearest", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
def test_neighbours_are_rounded_as_the_file_says(agrees, normal, nearest):
    scales = np.array([1, 1, 1.5, 0.6], np.float32)
    agrees("Resize", [normal(1, 2, 4, 5), None, scales], mode="nearest", nearest_mode=nearest)


def test_old_files_have_other_inputs(agrees, normal):
    scales = np.array([1, 1, 2, 2], np.float32)
    agrees("Resize", [normal(1, 2, 3, 3), scales], mode="nearest", opset=10)
    agrees("Upsample", [normal(1, 2, 3, 3), scales], mode="linear", opset=9)
    agrees("Upsample", [normal(1, 2, 3, 3)], mode="nearest", scales=[1.0, 1.0, 2.0, 2.0], opset=7)


def test_a_crop_is_resized_and_what_lies_outside_gets_a_value(agrees, normal):
    roi = np.array([0, 0, 0.4, -0.6, 1, 1, 1.2, 1.7], np.float32)
    agrees(
        "Resize", [normal(1, 1, 4, 4), roi, None, np.array([1, 1, 3, 3])], mode="linear", extrapolation_value=10.0,
        coordinate_transformation_mode="tf_crop_and_resize",
    )  # fmt: skip


def test_a_ratio_is_kept(run_node, normal):
    x = normal(1, 1, 4, 8)
    for policy, shape in (("not_larger", (1, 1, 3, 6)), ("not_smaller", (1, 1, 6, 12))):
        (y,) = run_node(
            "Resize", [x, None, None, np.array([6, 6])], axes=[2, 3], keep_aspect_ratio_policy=policy, mode="linear"
        )
        assert y.shape == shape


def test_what_cannot_be_resized_is_an_error(run_node, normal):
    x = normal(1, 1, 4, 4)
    with pytest.raises(ArgumentError, match="needs scales or sizes"):
        run_node("Resize", [x])
    with pytest.raises(ShapeError, match="scales must have 4 entries, got 2"):
        run_node("Resize", [x, None, np.ones(2, np.float32)])
    with pytest.raises(ArgumentError, match="scales must be positive"):
        run_node("Resize", [x, None, np.array([1, 1, 0, np.nan], np.float32)])
    with pytest.raises(ShapeError, match="takes more than"):
        run_node("Resize", [x, None, np.array([1, 1, 1e6, 1e6], np.float32)])
    for options, message in (
        ({"mode": "area"}, "the mode 'area'"),
        ({"nearest_mode": "up"}, "nearest_mode 'up'"),
        ({"coordinate_transformation_mode": "own"}, "coordinate_transformation_mode 'own'"),
    ):
        with pytest.raises(ArgumentError, match=message):
            run_node("Resize", [x, None, np.array([1, 1, 2, 2], np.float32)], **options)


def test_resizing_has_gradients(node_model, normal):
    scales = np.array([1, 1, 2, 2], np.float32)
    module = ex.from_onnx(node_model("Resize", [normal(1, 1, 3, 3), None, scales], mode="linear"))
    x = ex.ones(1, 1, 3, 3, requires_grad=True)
    module(x, ex.from_numpy(scales)).sum().backward()
    assert x.grad.sum().item() == pytest.approx(36.0)
