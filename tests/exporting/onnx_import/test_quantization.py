"""Quantised tensors beside onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from extempo.errors import ArgumentError, ShapeError

UINT8, INT8, INT32 = 2, 3, 6


def test_floats_become_whole_numbers_and_come_back(agrees, normal):
    x = normal(3, 4) * 10
    scale, point = np.array(0.1, np.float32), np.array(3, np.int8)
    (q,) = agrees("QuantizeLinear", [x, scale, point], types=[INT8])
    agrees("DequantizeLinear", [q, scale, point])
    scales, points = np.array([0.1, 0.2, 0.3, 0.4], np.float32), np.array([0, 1, 2, 128], np.uint8)
    (q,) = agrees("QuantizeLinear", [x, scales, points], types=[UINT8], axis=-1)
    agrees("DequantizeLinear", [q, scales, points], axis=-1)
    agrees("QuantizeLinear", [x, scale], types=[UINT8])


def test_blocks_have_scales_of_their_own(agrees, normal):
    x, scale = normal(2, 6) * 10, np.abs(normal(2, 3)) + 0.1
    points = np.ones((2, 3), np.uint8)
    (q,) = agrees("QuantizeLinear", [x, scale, points], types=[UINT8], axis=1, block_size=2)
    agrees("DequantizeLinear", [q, scale, points], axis=1, block_size=2)


def test_blocks_that_do_not_fit_are_an_error(run_node, normal):
    with pytest.raises(
        ShapeError, match=r"blocks of 4 along axis 1 of shape \(2, 6\) do not fit scales of shape \(2, 3\)"
    ):
        run_node("QuantizeLinear", [normal(2, 6), np.ones((2, 3), np.float32)], types=[UINT8], axis=1, block_size=4)


def test_a_zero_point_is_a_whole_number(run_node, normal):
    with pytest.raises(ArgumentError, match="the zero point must be of whole numbers"):
        run_node("QuantizeLinear", [normal(2), np.array(1.0, np.float32), np.array(1.0, np.float32)], types=[UINT8])


def test_the_range_of_values_gives_the_scale(agrees, normal):
    agrees("DynamicQuantizeLinear", [normal(3, 4)], 3, types=[UINT8, 1, UINT8])


def test_products_of_whole_numbers_are_exact(agrees, rng):
    a, b = (rng.integers(0, 255, shape).astype(np.uint8) for shape in ((3, 4), (4, 2)))
    agrees("MatMulInteger", [a, b, np.array(12, np.uint8), np.array(7, np.uint8)], types=[INT32])
    agrees("MatMulInteger", [a, b], types=[INT32])
    x, w = (rng.integers(0, 255, shape).astype(np.uint8) for shape in ((1, 2, 5, 5), (3, 2, 3, 3)))
    agrees("ConvInteger", [x, w, np.array(5, np.uint8)], types=[INT32], pads=[1, 1, 1, 1])


def test_products_of_quantised_tensors_are_quantised(agrees, rng):
    a, b = (rng.integers(0, 255, shape).astype(np.uint8) for shape in ((3, 4), (4, 2)))
    scale, point = (lambda s: np.array(s, np.float32)), (lambda p: np.array(p, np.uint8))
    agrees("QLinearMatMul", [a, scale(0.1), point(3), b, scale(0.2), point(9), scale(3.0), point(7)], types=[UINT8])
    x, w = (rng.integers(0, 255, shape).astype(np.uint8) for shape in ((1, 2, 5, 5), (3, 2, 3, 3)))
    bias = np.array([100, -200, 300], np.int32)
    arrays = [x, scale(0.1), point(3), w, scale(0.2), point(100), scale(9.0), point(7), bias]
    agrees("QLinearConv", arrays, types=[UINT8])
