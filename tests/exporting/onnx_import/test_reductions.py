"""Reductions: axes as attribute and input, none of them, empty tensors, ties."""

from __future__ import annotations

import numpy as np
import pytest

from extempo.errors import ArgumentError, IndexRangeError

REDUCTIONS = ["Sum", "Mean", "Prod", "Max", "Min", "L1", "L2", "LogSum", "LogSumExp", "SumSquare"]


@pytest.mark.parametrize("name", REDUCTIONS)
def test_axes_are_an_attribute_or_an_input(agrees, normal, name):
    x = np.abs(normal(2, 3, 4)) + 0.1
    new, old = (
        agrees(f"Reduce{name}", [x, np.array([-1, 0])], opset=18),
        agrees(f"Reduce{name}", [x], opset=11, axes=[2, 0]),
    )
    np.testing.assert_array_equal(new[0], old[0])
    agrees(f"Reduce{name}", [x], opset=18, keepdims=0)
    agrees(f"Reduce{name}", [x, np.zeros(0, np.int64)], opset=18)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_no_axes_may_mean_none_at_all(run_node, normal, name):
    x = np.abs(normal(2, 3)) + 0.1
    (y,) = run_node(f"Reduce{name}", [x], noop_with_empty_axes=1)
    expected = {"SumSquare": x * x, "LogSum": np.log(x)}.get(name, x)
    np.testing.assert_allclose(y, expected, rtol=1e-5)


def test_whole_numbers_stay_whole(agrees):
    x = np.array([[1, 2], [3, 4]])
    for name in ("Sum", "Prod", "Max", "Min"):
        agrees(f"Reduce{name}", [x, np.array([1])], types=[7])


def test_a_number_is_reduced_to_itself(run_node):
    assert run_node("ReduceSum", [np.array(3.0, np.float32)])[0] == 3.0


def test_the_last_of_equal_values_may_be_asked_for(agrees):
    x = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 0.0]], np.float32)
    assert agrees("ArgMax", [x], types=[7], axis=1, keepdims=0)[0].tolist() == [1, 0]
    assert agrees("ArgMax", [x], types=[7], axis=1, keepdims=0, select_last_index=1)[0].tolist() == [2, 1]
    assert agrees("ArgMin", [-x], types=[7], axis=-1, keepdims=0, select_last_index=1)[0].tolist() == [2, 1]
    with pytest.raises(IndexRangeError, match="no axis 2"):
        agrees("ArgMax", [x], types=[7], axis=2)


def test_sums_along_an_axis_may_exclude_themselves_and_go_backwards(agrees, normal):
    x = normal(3, 4)
    for exclusive in (0, 1):
        for reverse in (0, 1):
            agrees("CumSum", [x, np.array(-1)], exclusive=exclusive, reverse=reverse)


def test_of_equal_values_the_first_are_the_largest(agrees):
    x = np.array([2.0, 3.0, 3.0, 1.0, 3.0], np.float32)
    assert agrees("TopK", [x, np.array([2])], 2, types=[1, 7])[1].tolist() == [1, 2]
    agrees("TopK", [x, np.array([3])], 2, types=[1, 7], largest=0)
    with pytest.raises(ArgumentError, match="k must be at most the size of the axis, 5, got 6"):
        agrees("TopK", [x, np.array([6])], 2, types=[1, 7])
