"""Sizes that a file asks for."""

from __future__ import annotations

import numpy as np
import pytest

from extempo.errors import IndexRangeError, ShapeError
from extempo.exporting.onnx_import.sizes import axes_in, axis_in, check_size, same_length


def test_axes_count_from_both_ends():
    assert (axis_in(-1, 3), axis_in(2, 3), axis_in(0, 0)) == (2, 2, 0)
    assert axes_in([-1, 0], 3) == [2, 0]
    with pytest.raises(IndexRangeError, match="no axis 3 in a tensor with 3 dimensions"):
        axis_in(3, 3)
    with pytest.raises(ShapeError, match="twice"):
        axes_in([1, -1], 2)


def test_memory_is_refused_before_it_is_taken():
    assert check_size([2, 3]) == (2, 3)
    with pytest.raises(ShapeError, match=r"shape \[1099511627776, 1048576\], which takes more than 2 GiB"):
        check_size([2**40, 2**20])
    with pytest.raises(ShapeError, match="takes more than 2 GiB"):
        check_size([2**40, 0])
    with pytest.raises(ShapeError, match=r"cannot have the shape \[-1\]"):
        check_size([-1])


def test_lists_must_fit_the_dimensions():
    same_length("pads", [1, 2], 2)
    with pytest.raises(ShapeError, match="pads must have 4 entries, got 2"):
        same_length("pads", [1, 2], 4)


@pytest.mark.parametrize(
    ("op", "values"),
    [
        ("ConstantOfShape", [2**40]),
        ("Expand", [2**33, 1]),
        ("Tile", [2**33]),
        ("Pad", [2**33, 0]),
        ("OneHot", [2**33]),
        ("HannWindow", [2**40]),
    ],
)
def test_operators_that_make_large_tensors_refuse_impossible_sizes(run_node, op, values):
    own = np.array(values if op != "HannWindow" else values[0])
    inputs = {
        "ConstantOfShape": [own],
        "OneHot": [np.array([0]), own, np.array([0, 1], np.float32)],
        "HannWindow": [own],
    }.get(op, [np.ones(1, np.float32), own])
    with pytest.raises(ShapeError, match=f"{op} .*takes more than 2 GiB"):
        run_node(op, inputs)


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "LpPool"])
def test_padding_of_windows_is_bounded(run_node, op):
    with pytest.raises(ShapeError, match=f"{op} .*takes more than 2 GiB"):
        run_node(op, [np.ones((1, 1, 4), np.float32)], kernel_shape=[2], pads=[2**33, 0])
