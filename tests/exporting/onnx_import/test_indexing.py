"""Picking and putting by index: negative indices, repeated ones, reductions."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.errors import ArgumentError, ShapeError


def test_indices_count_from_both_ends(agrees, normal):
    x = normal(4, 3)
    agrees("Gather", [x, np.array([[0, -1], [2, -4]])])
    agrees("Gather", [x, np.array(-1)], axis=1)
    agrees("GatherElements", [x, np.array([[0, -1, 2]])])
    agrees("GatherND", [x, np.array([[-1, 0], [1, -1]])])
    agrees("GatherND", [normal(2, 3, 4), np.array([[[1]], [[-1]]])], batch_dims=1)


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_values_are_put_and_combined(agrees, normal, reduction):
    x = normal(4, 3)
    at = np.array([[0, 1, -1], [2, 2, 2]]) if reduction != "none" else np.array([[0, 1, -1], [2, 3, 2]])
    agrees("ScatterElements", [x, at, normal(2, 3)], reduction=reduction)
    places = np.array([[1], [1]]) if reduction != "none" else np.array([[1], [-1]])
    agrees("ScatterND", [x, places, normal(2, 3)], reduction=reduction)


def test_an_unknown_reduction_is_named(run_node, normal):
    with pytest.raises(ArgumentError, match="one of none, add, mul, max, min, got 'mean'"):
        run_node("ScatterND", [normal(4), np.array([[1]]), normal(1)], reduction="mean")


def test_indices_that_do_not_fit_are_an_error(run_node, normal):
    with pytest.raises(ShapeError, match="do not fit a tensor"):
        run_node("GatherND", [normal(4), np.array([[1, 2]])])
    with pytest.raises(ex.errors.IndexRangeError):
        run_node("Gather", [normal(4), np.array([4])])


def test_rows_are_kept_by_a_condition(agrees, normal):
    agrees("Compress", [normal(3, 2), np.array([True, False, True])], axis=0)
    agrees("Compress", [normal(3, 2), np.array([False, True, True])])


def test_one_hot_rows_of_indices_outside_are_off(agrees):
    values = np.array([-1.0, 5.0], np.float32)
    y = agrees("OneHot", [np.array([0, -1, 3, -4]), np.array(3), values])[0]
    assert (y[2:] == -1.0).all()
    agrees("OneHot", [np.array([[0, 1]]), np.array([2]), values], axis=0)


def test_places_that_are_not_zero(agrees, run_node):
    agrees("NonZero", [np.array([[1.0, 0.0], [0.0, 2.0]], np.float32)], types=[7])
    assert run_node("NonZero", [np.array(2.0, np.float32)], types=[7])[0].tolist() == [[0]]


def test_values_once_each_in_order_of_size_or_of_place(agrees, rng):
    x = rng.integers(0, 4, 12).astype(np.float32)
    for ordered in (0, 1):
        agrees("Unique", [x], 4, types=[1, 7, 7, 7], sorted=ordered)
        agrees("Unique", [x.reshape(6, 2)], 4, types=[1, 7, 7, 7], sorted=ordered, axis=0)


def test_picked_values_have_gradients(node_model, normal):
    module = ex.from_onnx(node_model("GatherND", [normal(3, 2), np.array([[0, 1], [0, 1]])]))
    x = ex.ones(3, 2, requires_grad=True)
    module(x, ex.tensor([[0, 1], [0, 1]])).sum().backward()
    assert x.grad.tolist() == [[0, 2], [0, 0], [0, 0]]
