"""Differences of neighbours, derivatives and integrals."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex


def test_trapezoid_adds_narrow_integers_in_int64():
    assert ex.trapezoid(ex.tensor([100, 100, 100], dtype=ex.int8)).item() == 200.0
    assert ex.trapezoid(ex.tensor([255, 255], dtype=ex.uint8)).item() == 255.0


def test_differences_derivatives_and_integrals_agree_with_numpy():
    y = np.random.default_rng(0).normal(size=(3, 5))
    x = np.array([0.0, 0.5, 2.0, 2.5, 4.0])
    t = ex.tensor(y)
    assert ex.diff(t, 2).numpy() == pytest.approx(np.diff(y, 2))
    assert ex.diff(t, 9).shape == (3, 0)
    for edge_order in (1, 2):
        for spacing in (0.5, x):
            found = ex.gradient(t, spacing=[ex.tensor(x)] if spacing is x else spacing, dim=1, edge_order=edge_order)
            assert found[0].numpy() == pytest.approx(np.gradient(y, spacing, axis=1, edge_order=edge_order))
    assert ex.trapezoid(t, ex.tensor(x)).numpy() == pytest.approx(np.trapezoid(y, x))
    assert ex.cumulative_trapezoid(t, dx=2)[:, -1].numpy() == pytest.approx(np.trapezoid(y, dx=2))
    assert ex.diff(ex.tensor([True, True, False])).tolist() == [False, True]
    with pytest.raises(ex.errors.ShapeError, match="gradient: dim 0"):
        ex.gradient(ex.zeros(1))
    with pytest.raises(ex.errors.ShapeError, match="diff"):
        ex.diff(ex.tensor(1.0))


def test_differences_of_a_row_that_is_too_short_are_empty():
    assert ex.diff(ex.tensor([1.0])).shape == (0,)
    assert ex.diff(ex.tensor([1.0, 4.0, 9.0]), n=5).shape == (0,)
