"""Pools beside onnxruntime: padding, dilation, ceilings, indices."""

from __future__ import annotations

import numpy as np
import pytest

from extempo.errors import ShapeError, UnsupportedError


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"strides": [2, 2], "ceil_mode": 1},
        {"pads": [1, 0, 1, 1], "strides": [2, 1]},
        {"dilations": [2, 1], "strides": [2, 2], "pads": [1, 1, 0, 0]},
        {"auto_pad": "SAME_LOWER", "strides": [2, 2]},
    ],
)
def test_the_largest_of_each_window_and_where_it_stands(agrees, normal, options):
    agrees("MaxPool", [normal(2, 3, 7, 6)], 2, types=[1, 7], kernel_shape=[3, 2], **options)
    agrees("MaxPool", [normal(2, 3, 7, 6)], 2, types=[1, 7], kernel_shape=[3, 2], storage_order=1, **options)


@pytest.mark.parametrize("count_include_pad", [0, 1])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"strides": [2, 2], "ceil_mode": 1},
        {"pads": [1, 0, 1, 1], "strides": [2, 1]},
        {"dilations": [2, 1], "strides": [2, 2], "pads": [1, 1, 0, 0]},
        {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
    ],
)
def test_the_mean_counts_what_the_file_says(agrees, normal, options, count_include_pad):
    agrees("AveragePool", [normal(2, 3, 7, 6)], kernel_shape=[3, 2], count_include_pad=count_include_pad, **options)


@pytest.mark.parametrize("n", [1, 3])
def test_pools_have_one_to_three_dimensions(agrees, run_node, normal, n):
    for op in ("MaxPool", "AveragePool", "LpPool"):
        agrees(op, [normal(1, 2, *[5] * n)], kernel_shape=[2] * n)
    with pytest.raises(ShapeError, match="a window that spans 9 does not fit the size 5"):
        run_node("LpPool", [normal(1, 2, *[5] * n)], kernel_shape=[9] * n)
    with pytest.raises(UnsupportedError, match="1 to 3 spatial dimensions"):
        run_node("MaxPool", [normal(1, 1, 2, 2, 2, 2)], kernel_shape=[1] * 4)


def test_norms_of_windows_and_of_whole_images(agrees, normal):
    x = normal(2, 3, 5, 4)
    agrees("LpPool", [x], kernel_shape=[2, 2], p=3, strides=[2, 2], pads=[1, 0, 0, 1])
    for op in ("GlobalAveragePool", "GlobalMaxPool"):
        agrees(op, [x])
    agrees("GlobalLpPool", [x], p=1)


def test_unpooling_puts_values_back(agrees, run_node, normal):
    x = normal(2, 3, 4, 6)
    y, at = run_node("MaxPool", [x], 2, types=[1, 7], kernel_shape=[2, 2], strides=[2, 2])
    (back,) = agrees("MaxUnpool", [y, at], kernel_shape=[2, 2], strides=[2, 2])
    assert back.shape == x.shape
    assert np.array_equal(back[back != 0], x[back != 0])
