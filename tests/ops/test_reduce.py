"""Reductions and statistics at their edges: nothing to reduce, NaN, ties, zeros, half precision, wrong arguments."""

from __future__ import annotations

import math

import numpy as np
import pytest

import extempo as ex
from extempo.testing import check_grad

from .helpers import gradient_at

NAN, INF = float("nan"), float("inf")


def test_sum_of_nothing_is_zero_and_mean_of_nothing_is_nan():
    assert ex.zeros(0).sum().item() == 0
    assert ex.zeros(0).prod().item() == 1
    assert ex.zeros(0, 3).sum(0).tolist() == [0, 0, 0]
    assert math.isnan(ex.zeros(0).mean().item())


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin", "amax", "amin"])
def test_extreme_of_nothing_is_refused_by_name(name):
    with pytest.raises(ex.errors.ShapeError, match=f"^{name}: .*numel"):
        getattr(ex, name)(ex.zeros(0))


def test_extreme_along_another_dimension_of_an_empty_tensor_is_empty():
    values, indices = ex.zeros(0, 3).max(1)
    assert values.shape == indices.shape == (0,)
    assert ex.zeros(0, 3).amin(1).shape == (0,)
    with pytest.raises(ex.errors.ShapeError, match="argmax"):
        ex.zeros(0, 3).max(0)


def test_mean_of_integers_is_refused_with_advice():
    with pytest.raises(ex.errors.DtypeError, match=r"x\.float\(\)\.mean\(\)"):
        ex.tensor([1, 2]).mean()
    assert ex.tensor([1, 2]).mean(dtype=ex.float32).item() == 1.5
    with pytest.raises(ex.errors.DtypeError, match="nanmean"):
        ex.tensor([1, 2]).nanmean()
    with pytest.raises(ex.errors.DtypeError, match="var"):
        ex.tensor([1, 2]).var()


@pytest.mark.parametrize("dtype", [ex.bool, ex.uint8, ex.int8, ex.int32, ex.int64])
def test_integers_add_up_in_int64(dtype):
    x = ex.ones(300, dtype=dtype)
    assert x.sum().dtype is x.prod().dtype is x.cumsum(0).dtype is ex.int64
    assert x.sum().item() == 300


def test_dtype_argument_is_the_dtype_of_the_result():
    x = ex.tensor([1, 2, 3])
    for dtype in (ex.bool, ex.int16, ex.float64):
        assert x.sum(dtype=dtype).dtype is x.prod(dtype=dtype).dtype is dtype
    assert ex.ones(3).half().sum(dtype=ex.float32).dtype is ex.float32


@pytest.mark.parametrize("dtype", [ex.float16, ex.bfloat16])
def test_half_precision_adds_up_in_float32(dtype):
    x = ex.ones(5000, dtype=dtype)
    assert x.sum().item() == ex.tensor(5000.0).to(dtype).item()
    assert x.mean().item() == 1.0
    assert x.mean().dtype is dtype
    # In half precision itself the mean of the squares would overflow.
    assert ex.tensor([300.0, -300.0]).to(dtype).std(correction=0).item() == 300


def test_dim_may_be_none_a_tuple_negative_or_empty():
    x = ex.arange(24.0).reshape(2, 3, 4)
    array = x.numpy()
    assert x.sum((0, -1)).tolist() == array.sum((0, 2)).tolist()
    assert x.sum(()).item() == x.sum(None).item() == array.sum()
    assert x.amax(-2, keepdim=True).shape == (2, 1, 4)
    assert x.sum((2, 0), keepdim=True).shape == (1, 3, 1)
    with pytest.raises(ex.errors.ShapeError, match="twice"):
        x.sum((1, -2))
    with pytest.raises(ex.errors.IndexRangeError, match="sum: dim 3"):
        x.sum(3)


@pytest.mark.parametrize("reduce", [ex.sum, ex.mean, ex.amax, ex.amin, ex.prod])
def test_a_0_dim_tensor_has_no_dim_1(reduce):
    with pytest.raises(ex.errors.IndexRangeError, match="dim 1"):
        reduce(ex.tensor(1.0), 1)


def test_a_0_dim_tensor_reduces_along_dim_0():
    x = ex.tensor(3.0)
    assert x.sum(0).item() == x.prod(-1).item() == x.max(0).values.item() == 3
    assert x.max(0).indices.item() == x.argmin(0).item() == 0
    assert x.amax().shape == ()
    with pytest.raises(ex.errors.IndexRangeError):
        x.max(1)


def test_all_and_any_of_nothing_of_nan_and_of_uint8():
    assert ex.zeros(0).all().item() is True
    assert ex.zeros(0).any().item() is False
    assert ex.tensor([NAN, 1.0]).all().item() is True
    assert ex.tensor([2, 0], dtype=ex.uint8).any().dtype is ex.uint8
    assert ex.tensor([[1, 0], [2, 3]]).all(1).tolist() == [False, True]
    # PyTorch reduces nothing for an empty dim, where sum reduces everything.
    assert ex.tensor([1, 0]).any(dim=()).tolist() == [True, False]


def test_nan_wins_every_extreme():
    x = ex.tensor([1.0, NAN, 3.0, NAN])
    assert math.isnan(x.max().item())
    assert math.isnan(x.amin().item())
    assert x.argmax().item() == x.argmin().item() == 1
    assert x.max(0).indices.item() == 1
    assert math.isnan(x.bfloat16().amax().item())


def test_max_along_a_dimension_names_its_results_and_routes_the_gradient_to_the_index():
    x = ex.tensor([[1.0, 5.0, 5.0], [7.0, 7.0, 2.0]], requires_grad=True)
    found = x.max(1)
    assert found.values.tolist() == [5, 7]
    assert found.indices.tolist() == [1, 0]
    found.values.sum().backward()
    assert x.grad.tolist() == [[0, 1, 0], [1, 0, 0]]
    assert not found.indices.requires_grad


def test_amax_and_max_of_all_share_the_gradient_among_equals():
    assert gradient_at(lambda x: x.amax(1), [[1.0, 5.0, 5.0]]) == [[0, 0.5, 0.5]]
    assert gradient_at(lambda x: x.max(), [3.0, 3.0, 3.0, 3.0, 1.0]) == [0.25, 0.25, 0.25, 0.25, 0]
    assert gradient_at(lambda x: ex.aminmax(x).min, [1.0, 1.0]) == [0.5, 0.5]


def test_max_of_two_tensors_is_the_elementwise_maximum():
    a, b = ex.tensor([1, 5]), ex.tensor([3, 2])
    assert ex.max(a, b).tolist() == a.max(other=b).tolist() == [3, 5]
    assert ex.min(a, b).tolist() == [1, 2]


def test_out_receives_values_and_indices():
    values, indices = ex.empty(0), ex.empty(0, dtype=ex.int64)
    ex.max(ex.tensor([[1.0, 4.0], [3.0, 2.0]]), 1, out=(values, indices))
    assert values.tolist() == [4, 3]
    assert indices.tolist() == [1, 0]


def test_argmax_without_dim_counts_in_the_flattened_tensor():
    x = ex.tensor([[1.0, 2.0], [9.0, 3.0]])
    assert x.argmax().item() == x.T.argmax().item() + 1 == 2
    assert x.argmax(keepdim=True).shape == (1, 1)
    with pytest.raises(ex.errors.DtypeError, match="argmax: a bool tensor"):
        ex.tensor([True]).argmax()


@pytest.mark.parametrize(
    ("x", "expected"),
    [([2.0, 3.0, 4.0], [12, 8, 6]), ([2.0, 0.0, 4.0], [0, 8, 0]), ([0.0, 0.0, 4.0], [0, 0, 0]), ([5.0], [1])],
)
def test_gradient_of_prod_is_exact_at_zeros(x, expected):
    assert gradient_at(lambda t: t.prod(), x) == expected


def test_second_gradient_of_prod_is_exact_at_zeros():
    x = ex.tensor([2.0, 0.0, 3.0, 0.0], dtype=ex.float64, requires_grad=True)
    (first,) = ex.autograd.grad(x.prod(), x, create_graph=True)
    (second,) = ex.autograd.grad(first[1], x)
    assert second.tolist() == [0, 0, 0, 6]
    check_grad(lambda t: t.prod(), [x])
    check_grad(lambda t: t.reshape(2, 1, 2).permute(2, 0, 1).prod(1), [x])


def test_prod_and_sum_of_strided_inputs_equal_those_of_contiguous_ones():
    x = ex.randn(4, 6).t()[::2]
    assert x.prod(1).tolist() == pytest.approx(np.prod(np.ascontiguousarray(x.numpy()), 1).tolist())
    assert x.sum(0).tolist() == pytest.approx(np.ascontiguousarray(x.numpy()).sum(0).tolist())


def test_count_nonzero_counts_nan():
    assert ex.count_nonzero(ex.tensor([[0.0, NAN], [1.0, -0.0]]), dim=(0,)).tolist() == [1, 1]


def test_sum_to_size_undoes_broadcasting():
    x = ex.ones(2, 3, 4)
    assert x.sum_to_size(3, 1).tolist() == [[8], [8], [8]]
    assert x.sum_to_size((2, 3, 4)).shape == (2, 3, 4)
    with pytest.raises(ex.errors.ShapeError, match="sum_to_size"):
        x.sum_to_size(2)


def test_dim_may_be_an_integer_of_numpy():
    assert ex.ones(2, 3).sum(np.int64(1)).tolist() == [3.0, 3.0]
    with pytest.raises(ex.errors.DtypeError, match="sum: dim must be an int, got float"):
        ex.ones(2, 3).sum(1.0)
