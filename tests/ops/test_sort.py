"""Sorting, choosing, finding and counting: ties, NaN, infinities, empty and 0-dim inputs, wrong arguments."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import extempo as ex
from extempo.errors import NotDifferentiableError
from extempo.testing import check_grad

NAN, INF = float("nan"), float("inf")


def test_sorting_is_stable_both_ways():
    x = ex.tensor([2, 1, 2, 1, 2])
    assert x.sort().indices.tolist() == [1, 3, 0, 2, 4]
    assert x.sort(descending=True).indices.tolist() == [0, 2, 4, 1, 3]
    assert ex.tensor([True, False, True]).sort(descending=True).values.tolist() == [True, True, False]


@pytest.mark.parametrize("dtype", [ex.float64, ex.float32, ex.float16, ex.bfloat16])
def test_nan_sorts_as_the_greatest(dtype):
    x = ex.tensor([1.0, NAN, -INF, INF, NAN, 0.0], dtype=dtype)
    assert x.argsort().tolist() == [2, 5, 0, 3, 1, 4]
    assert x.argsort(descending=True).tolist() == [1, 4, 3, 0, 5, 2]
    assert x.topk(3).indices.sort().values.tolist() == [1, 3, 4]
    assert x.topk(2, largest=False).values.float().tolist() == [-INF, 0]
    assert x.sort().values.dtype is dtype


def test_sort_of_empty_0_dim_and_strided_inputs():
    assert ex.zeros(2, 0).sort().values.shape == (2, 0)
    found = ex.tensor(3.0).sort(0, descending=True)
    assert (found.values.item(), found.indices.item()) == (3, 0)
    x = ex.randn(4, 6).t()[::2]
    assert x.sort(0).values.tolist() == np.sort(x.numpy(), 0).tolist()
    assert ex.msort(x).tolist() == x.sort(0)[0].tolist()
    with pytest.raises(ex.errors.IndexRangeError, match="argsort: dim 1"):
        ex.zeros(3).argsort(1)


def test_gradients_go_back_to_where_the_elements_came_from():
    x = ex.tensor([[3.0, 1.0, 2.0], [0.5, 4.0, -1.0]])
    check_grad(lambda t: t.sort(1, descending=True).values, [x])
    check_grad(lambda t: t.topk(2, 1).values, [x])
    check_grad(lambda t: t.kthvalue(2, 0, keepdim=True).values, [x])
    check_grad(lambda t: t.median(1).values, [x])
    y = ex.tensor([1.0, 2.0, 2.0], requires_grad=True)
    y.mode().values.backward()
    assert y.grad.tolist() == [0, 0, 1]


def test_topk_checks_k():
    x = ex.zeros(2, 3)
    assert x.topk(0).values.shape == (2, 0)
    assert x.topk(2, 0, sorted=False).indices.shape == (2, 3)
    with pytest.raises(ex.errors.IndexRangeError, match="topk: k is 4, but dimension 1"):
        x.topk(4)
    with pytest.raises(ex.errors.IndexRangeError, match=r"kthvalue: k is 0.*counts from 1"):
        x.kthvalue(0)


def test_median_is_the_lower_one_and_nan_if_there_is_one():
    assert ex.tensor([4, 1, 3, 2]).median().item() == 2
    assert math.isnan(ex.tensor([1.0, NAN, 2.0]).median().item())
    assert ex.tensor([[1.0, NAN, 2.0]]).median(1).indices.tolist() == [1]
    assert ex.tensor([1.0, NAN, 2.0, 3.0]).nanmedian().item() == 2
    assert math.isnan(ex.tensor([NAN, NAN]).nanmedian().item())
    assert math.isnan(ex.zeros(0).median().item())
    assert ex.tensor(3.0).median(0).values.item() == 3
    with pytest.raises(ex.errors.ShapeError, match="median"):
        ex.zeros(0, dtype=ex.int64).median()


def test_median_of_all_shares_the_gradient_among_equals():
    x = ex.tensor([2.0, 1.0, 2.0, 5.0], requires_grad=True)
    x.median().backward()
    assert x.grad.tolist() == [0.5, 0, 0.5, 0]


def test_mode_is_the_smallest_of_the_most_frequent():
    found = ex.tensor([[3, 3, 1, 2, 1], [5, 4, 4, 5, 5]]).mode(1)
    assert found.values.tolist() == [1, 5]
    assert found.indices.tolist() == [4, 4]
    assert ex.tensor([NAN, NAN, 2.0, 2.0]).mode().values.item() == 2


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


@pytest.mark.parametrize("median", [ex.median, ex.nanmedian])
def test_the_median_of_nothing_is_nan_and_requires_grad_like_its_input(median: Any) -> None:
    x = ex.empty(0, 3, requires_grad=True)
    assert median(x).isnan()
    median(x).backward()
    assert x.grad.shape == (0, 3)
    assert not median(ex.empty(0)).requires_grad


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
