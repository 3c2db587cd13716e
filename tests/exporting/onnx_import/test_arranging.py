"""Shapes, joins, padding and blocks where versions and edges differ."""

from __future__ import annotations

import numpy as np
import pytest

from extempo.errors import ArgumentError, IndexRangeError, ShapeError


def test_zeros_in_a_shape_copy_sizes_or_are_zeros(agrees, run_node, normal):
    x = normal(2, 0, 3)
    assert agrees("Reshape", [x, np.array([0, 0, 1, 3])])[0].shape == (2, 0, 1, 3)
    assert agrees("Reshape", [x, np.array([3, 0])], allowzero=1)[0].shape == (3, 0)
    with pytest.raises(ShapeError, match="dimension 3 is not there"):
        run_node("Reshape", [x, np.array([1, 1, 1, 0])])


def test_axes_that_are_squeezed_have_size_one(agrees, run_node, normal):
    agrees("Squeeze", [normal(1, 3, 1)])
    agrees("Squeeze", [normal(1, 3, 1), np.array([-1])])
    agrees("Squeeze", [normal(1, 3, 1)], axes=[0], opset=11)
    agrees("Unsqueeze", [normal(3, 4), np.array([-1, 0])])
    agrees("Unsqueeze", [normal(3, 4)], axes=[1], opset=11)
    with pytest.raises(ShapeError, match=r"axis 1 of a tensor of shape .1, 3. cannot be squeezed"):
        run_node("Squeeze", [normal(1, 3), np.array([1])])


@pytest.mark.parametrize(
    ("starts", "ends", "axes", "steps"),
    [
        ([1], [3], [0], [1]),
        ([-1], [-100], [0], [-1]),
        ([4, 3], [0, -9223372036854775807], [0, 1], [-2, -3]),
        ([3], [1], [-1], [1]),
        ([100], [200], [0], [1]),
        ([0], [9223372036854775807], [1], [2]),
        ([1], [1], [0], [-1]),
    ],
)
def test_slices_go_both_ways(agrees, normal, starts, ends, axes, steps):
    agrees("Slice", [normal(5, 4), *(np.array(v) for v in (starts, ends, axes, steps))])


def test_slices_of_old_files_have_attributes(agrees, run_node, normal):
    agrees("Slice", [normal(5, 4)], starts=[1], ends=[3], axes=[1], opset=9)
    with pytest.raises(ArgumentError, match="starts and ends"):
        run_node("Slice", [normal(5)])


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
def test_padding_of_every_mode_widens_and_cuts(agrees, normal, mode):
    agrees("Pad", [normal(4, 5), np.array([1, 2, 3, 0])], mode=mode)
    agrees("Pad", [normal(4, 5), np.array([2, 1]), None, np.array([-1])], mode=mode)
    if mode != "wrap":  # onnxruntime cuts after it has wrapped
        agrees("Pad", [normal(4, 5), np.array([0, -1, 1, 2])], mode=mode)


def test_padding_takes_its_value_from_an_input_or_an_attribute(agrees, run_node, normal):
    agrees("Pad", [normal(3), np.array([1, 1]), np.array(7.0, np.float32)])
    agrees("Pad", [normal(3)], pads=[1, 2], value=7.0, opset=2)
    with pytest.raises(ArgumentError, match="mode 'mirror' is none of"):
        run_node("Pad", [normal(3), np.array([1, 1])], mode="mirror")


def test_a_split_without_sizes_is_even_but_for_the_last(agrees, run_node, normal):
    assert [len(y) for y in agrees("Split", [normal(7)], 3, num_outputs=3)] == [3, 3, 1]
    agrees("Split", [normal(6, 2), np.array([1, 3, 2])], 3)
    with pytest.raises(ArgumentError, match="num_outputs is 4, but the node has 2 outputs"):
        run_node("Split", [normal(6)], 2, num_outputs=4)
    agrees("Split", [normal(2, 6)], 2, axis=1, split=[2, 4], opset=11)


def test_ranges_of_numbers(agrees, run_node):
    for bounds in ((0, 5, 2), (5, 0, -2), (3, 3, 1), (5, 0, 1)):
        agrees("Range", [np.array(b) for b in bounds], types=[7])
    agrees("Range", [np.array(b, np.float32) for b in (0.5, 2.0, 0.3)])
    with pytest.raises(ArgumentError, match="delta must not be 0"):
        run_node("Range", [np.array(b) for b in (0, 1, 0)])


def test_tensors_of_given_sizes(agrees, normal):
    agrees("EyeLike", [normal(3, 4)], k=1)
    agrees("EyeLike", [normal(3, 4)], k=-1, dtype=7, types=[7])
    agrees("ConstantOfShape", [np.array([2, 3])])
    assert agrees("ConstantOfShape", [np.zeros(0, np.int64)])[0].shape == ()
    agrees("Expand", [normal(3, 1), np.array([2, 1, 4])])
    agrees("Tile", [normal(2, 3), np.array([2, 0])])
    agrees("Size", [normal(2, 3)], types=[7])


def test_blocks_and_triangles(agrees, normal):
    x = normal(2, 8, 3, 4)
    for mode in ("DCR", "CRD"):
        agrees("DepthToSpace", [x], blocksize=2, mode=mode)
    agrees("SpaceToDepth", [normal(2, 3, 4, 6)], blocksize=2)
    for upper in (0, 1):
        agrees("Trilu", [normal(2, 3, 4), np.array(-1)], upper=upper)


def test_sequences_are_reversed_as_far_as_they_go(agrees, normal):
    agrees("ReverseSequence", [normal(4, 3, 2), np.array([4, 1, 2])])
    agrees("ReverseSequence", [normal(3, 4), np.array([0, 1, 3])], batch_axis=0, time_axis=1)


def test_an_image_is_cut_or_widened_around_its_centre(run_node):
    x = np.arange(5, dtype=np.float32)
    assert run_node("CenterCropPad", [x, np.array([2])])[0].tolist() == [1, 2]
    assert run_node("CenterCropPad", [x, np.array([8])])[0].tolist() == [0, 0, 1, 2, 3, 4, 0, 0]
    with pytest.raises(IndexRangeError):
        run_node("CenterCropPad", [x, np.array([8])], axes=[3])
