"""Sorting, choosing, finding and counting: ties, NaN, infinities, empty and 0-dim inputs, wrong arguments."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import extempo as ex
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


@pytest.mark.parametrize("median", [ex.median, ex.nanmedian])
def test_the_median_of_nothing_is_nan_and_requires_grad_like_its_input(median: Any) -> None:
    x = ex.empty(0, 3, requires_grad=True)
    assert median(x).isnan()
    median(x).backward()
    assert x.grad.shape == (0, 3)
    assert not median(ex.empty(0)).requires_grad
