"""Variances and quantiles: corrections, NaN, overflow, gradients."""

from __future__ import annotations

import math

import numpy as np
import pytest

import extempo as ex
from extempo.testing import check_grad

from .helpers import gradient_at

NAN, INF = float("nan"), float("inf")


def test_variance_takes_its_correction_in_every_form():
    x = ex.tensor([1.0, 2.0, 4.0])
    expected = np.var([1.0, 2.0, 4.0])
    for value in (
        x.var(unbiased=False),
        x.var(correction=0),
        x.var(False),
        x.var(0, False),
        ex.var(x, dim=0, correction=0),
    ):
        assert value.item() == pytest.approx(expected)
    assert x.var().item() == x.var(True).item() == pytest.approx(expected * 3 / 2)
    assert x.var(correction=0.5).item() == pytest.approx(expected * 3 / 2.5)
    with pytest.raises(ex.errors.DtypeError, match="not both"):
        x.var(unbiased=True, correction=1)


def test_variance_without_degrees_of_freedom_is_nan_or_infinite():
    assert math.isnan(ex.ones(1).var().item())
    assert math.isnan(ex.zeros(0).std().item())
    assert ex.tensor([1.0, 2.0]).var(correction=2).item() == INF


def test_standard_deviation_has_gradient_zero_where_it_is_zero():
    assert gradient_at(lambda x: x.std(), [2.0, 2.0, 2.0]) == [0, 0, 0]
    check_grad(lambda x: x.std(1), [ex.tensor([[1.0, 2.0, 4.0], [3.0, -1.0, 0.5]])])
    check_grad(lambda x: ex.cat([r.reshape(-1) for r in ex.var_mean(x, 0, keepdim=True)]), [ex.randn(3, 2)])


@pytest.mark.parametrize("dtype", [ex.float16, ex.bfloat16, ex.float32, ex.float64])
def test_variances_of_the_largest_numbers_do_not_overflow_on_the_way(dtype):
    largest = ex.finfo(dtype).max
    same = ex.full((3, 5), largest, dtype=dtype)
    for dim in (None, 0, 1, (0, 1)):
        spread, mean = ex.var_mean(same, dim)
        assert set(spread.flatten().tolist()) == {0.0}
        assert set(mean.flatten().tolist()) == {largest}
        assert set(ex.std(same, dim).flatten().tolist()) == {0.0}
    if dtype is not ex.float64:  # squares of which are finite in float64
        x = ex.tensor([largest / 2, -largest / 2, largest / 2, -largest / 2], dtype=dtype)
        assert ex.std(x, correction=0).item() == x[0].item()
        assert ex.std_mean(x, 0, correction=0).std.item() == x[0].item()


def test_the_deviation_of_equal_numbers_is_zero():
    for dtype in (ex.float32, ex.float64):
        assert ex.full((777,), 3.3, dtype=dtype).std().item() == 0.0


@pytest.mark.parametrize("dtype", [ex.float16, ex.bfloat16])
def test_half_precision_variances_are_rounded_once(dtype):
    x = ex.tensor(np.random.default_rng(0).normal(300.0, 10.0, size=(4, 1000)), dtype=dtype)
    assert ex.equal(x.var(1), x.double().var(1).to(dtype))
    assert ex.equal(x.std(1), x.double().std(1).to(dtype))


def test_std_mean_names_its_results():
    found = ex.std_mean(ex.tensor([[1.0, 3.0]]), 1, keepdim=True, correction=0)
    assert found.std.tolist() == [[1.0]]
    assert found.mean.tolist() == [[2.0]]


def test_nan_is_passed_over_and_gets_no_gradient():
    x = [[1.0, NAN, 3.0], [NAN, NAN, NAN]]
    assert ex.tensor(x).nansum(1).tolist() == [4, 0]
    assert ex.tensor(x).nanmean(1).tolist() == pytest.approx([2, NAN], nan_ok=True)
    assert gradient_at(lambda t: t.nansum(1), x) == [[1, 0, 1], [0, 0, 0]]
    assert ex.tensor([1, 2]).nansum().item() == 3


def test_quantiles_interpolate_in_every_way():
    x = ex.tensor([4.0, 1.0, 2.0, 8.0])
    for interpolation, expected in (("linear", 2.4), ("lower", 2), ("higher", 4), ("midpoint", 3), ("nearest", 2)):
        assert x.quantile(0.4, interpolation=interpolation).item() == pytest.approx(expected)
    assert x.reshape(2, 2).quantile(ex.tensor([0.0, 1.0]), dim=1, keepdim=True).shape == (2, 2, 1)
    assert x.quantile(ex.tensor([0.0, 1.0])).tolist() == [1, 8]
    assert x.reshape(2, 2).quantile(0.5, keepdim=True).shape == (1, 1)


def test_quantile_of_nan_is_nan_and_nanquantile_passes_it_over():
    x = ex.tensor([[1.0, NAN, 3.0], [1.0, 2.0, 3.0]])
    assert x.quantile(0.5, 1).tolist() == pytest.approx([NAN, 2], nan_ok=True)
    assert x.nanquantile(0.5, 1).tolist() == [2, 2]
    assert math.isnan(ex.tensor([NAN]).nanquantile(0.5).item())
    with pytest.raises(ex.errors.ShapeError, match="quantile: q must lie between 0 and 1"):
        x.quantile(50.0)
    with pytest.raises(ex.errors.ShapeError, match="no elements"):
        ex.zeros(0).quantile(0.5)


def test_gradient_of_a_quantile_goes_to_its_neighbours():
    assert gradient_at(lambda x: x.quantile(0.25), [4.0, 1.0, 2.0]) == [0, 0.5, 0.5]
