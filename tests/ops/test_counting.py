"""Searching, distinct elements and histograms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import extempo as ex
from extempo.errors import NotDifferentiableError

NAN, INF = float("nan"), float("inf")


def test_searchsorted_of_rows_equals_a_loop_over_rows():
    rng = np.random.default_rng(0)
    rows, values = np.sort(rng.integers(0, 9, size=(4, 7)), 1), rng.integers(-1, 10, size=(4, 5))
    for side in ("left", "right"):
        expected = [np.searchsorted(r, v, side).tolist() for r, v in zip(rows, values, strict=True)]
        assert ex.searchsorted(ex.tensor(rows), ex.tensor(values), side=side).tolist() == expected
    sequence = ex.tensor([3, 1, 2])
    assert ex.searchsorted(sequence, 2, sorter=sequence.argsort()).item() == 1
    assert ex.bucketize(ex.tensor([0, 3, 9]), ex.tensor([1, 3, 5]), right=True, out_int32=True).dtype is ex.int32
    assert ex.bucketize(ex.tensor([0, 3, 9]), ex.tensor([1, 3, 5])).tolist() == [0, 1, 3]
    assert ex.bucketize(ex.tensor([NAN]), ex.tensor([1.0, 3.0])).tolist() == [2]
    with pytest.raises(ex.errors.ShapeError, match="searchsorted: the sorted sequence must be a vector"):
        ex.searchsorted(ex.zeros(2, 3), ex.zeros(4, 3))
    with pytest.raises(ex.errors.DtypeError, match="convert one"):
        ex.searchsorted(ex.zeros(3), ex.tensor([1]))


def test_unique_keeps_nans_apart_and_counts():
    values, inverse, counts = ex.unique(ex.tensor([[3, 1], [1, 3]]), return_inverse=True, return_counts=True)
    assert (values.tolist(), inverse.tolist(), counts.tolist()) == ([1, 3], [[1, 0], [0, 1]], [2, 2])
    assert ex.tensor([1.0, NAN, NAN, 1.0]).unique().shape == (3,)
    rows, places = ex.unique(ex.tensor([[2, 1], [0, 5], [2, 1]]), return_inverse=True, dim=0)
    assert (rows.tolist(), places.tolist()) == ([[0, 5], [2, 1]], [1, 0, 1])
    assert ex.zeros(0).unique().shape == (0,)


def test_unique_consecutive_drops_repetitions_only():
    values, inverse, counts = ex.unique_consecutive(ex.tensor([1, 1, 2, 1]), return_inverse=True, return_counts=True)
    assert (values.tolist(), inverse.tolist(), counts.tolist()) == ([1, 2, 1], [0, 0, 1, 2], [2, 1, 1])
    assert ex.unique_consecutive(ex.tensor([[1, 1, 2], [3, 3, 3]]), dim=1).tolist() == [[1, 2], [3, 3]]
    assert ex.zeros(0).unique_consecutive().shape == (0,)


def test_isin_takes_numbers_on_either_side():
    x = ex.tensor([1, 2, 3])
    assert ex.isin(x, 2).tolist() == [False, True, False]
    assert ex.isin(2, x).item() is True
    assert ex.isin(x, ex.tensor([3, 1]), invert=True).tolist() == [False, True, False]
    with pytest.raises(ex.errors.DtypeError, match="isin"):
        ex.isin(1, 2)


def test_bincount_counts_and_weighs():
    x = ex.tensor([0, 2, 2])
    assert x.bincount().tolist() == [1, 0, 2]
    assert x.bincount(minlength=5).shape == (5,)
    assert x.bincount(ex.tensor([0.5, 1.0, 2.0])).tolist() == [0.5, 0, 3]
    with pytest.raises(ex.errors.ShapeError, match="negative, got -1"):
        ex.tensor([-1]).bincount()
    with pytest.raises(ex.errors.DtypeError, match="bincount: expected a vector of integers"):
        ex.zeros(3).bincount()


def test_histograms_include_the_right_edge_and_skip_what_is_outside():
    x = ex.tensor([0.0, 1.0, 2.0, 2.0, 5.0, NAN])
    assert x.histc(2, 0, 2).tolist() == [1, 3]
    assert ex.tensor([1.0, 1.0]).histc(2).tolist() == [0, 2]
    found = ex.histogram(x[:5], 2, range=(0.0, 2.0))
    assert (found.hist.tolist(), found.bin_edges.tolist()) == ([1, 3], [0, 1, 2])
    found = ex.histogram(x[:4], ex.tensor([0.0, 1.5, 2.0]), density=True)
    assert found.hist.tolist() == pytest.approx([1 / 3, 1])
    counts, edges = ex.histogramdd(ex.tensor([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]]), [2, 2])
    assert counts.tolist() == [[0, 1], [1, 1]]
    assert edges[1].tolist() == [0, 1, 2]
    with pytest.raises(ex.errors.ShapeError, match="histc: expected bins > 0"):
        x.histc(0)
    with pytest.raises(ex.errors.ShapeError, match="not finite"):
        ex.tensor([1.0, INF]).histc(3)


@pytest.mark.parametrize("find", [ex.unique, ex.unique_consecutive, lambda x: ex.unique(x, dim=0)])
def test_distinct_elements_are_part_of_the_graph_but_have_no_gradient(find: Any) -> None:
    x = ex.tensor([3.0, 3.0, 1.0], requires_grad=True)
    found = find(x)
    assert found.requires_grad
    with pytest.raises(NotDifferentiableError, match="distinct"):
        found.sum().backward()
    assert not find(x.detach()).requires_grad
    assert not find(ex.tensor([1, 1])).requires_grad


@pytest.mark.parametrize("dtype", [ex.float16, ex.bfloat16, ex.float32, ex.float64])
def test_searchsorted_goes_on_after_nan(dtype):
    nan = math.nan
    sequence = ex.tensor([0.0, 1.0, 2.0, nan, nan], dtype=dtype)
    values = ex.tensor([nan, 1.0, math.inf, -1.0], dtype=dtype)
    assert ex.searchsorted(sequence, values).tolist() == [5, 1, 5, 0]
    assert ex.searchsorted(sequence, values, right=True).tolist() == [5, 2, 5, 0]
    assert ex.bucketize(values, sequence).tolist() == [5, 1, 5, 0]
    assert ex.searchsorted(sequence.expand(2, 5), values.expand(2, 4)).tolist() == [[5, 1, 5, 0]] * 2
    assert ex.searchsorted(sequence[:3], values).tolist() == [3, 1, 3, 0]
