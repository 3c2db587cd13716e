"""Gradients of scattering to second order: zeros, ties, values that are overwritten."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.testing import check_grad

INDEX = [[0, 2, 0], [1, 1, 2], [0, 0, 0], [2, 1, 1]]


def draw(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def test_gather_of_0_dim_and_empty_tensors():
    assert ex.tensor(3.0).gather(0, ex.tensor(0)).item() == 3.0
    assert ex.tensor(3.0).gather(0, [0, 0]).tolist() == [3.0, 3.0]
    assert ex.zeros(2, 3).gather(1, ex.zeros(2, 0, dtype=ex.int64)).shape == (2, 0)


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
def test_scatter_reduce_has_first_and_second_order_gradients(reduce, include_self):
    index = ex.tensor(INDEX)
    check_grad(
        lambda x, src: x.scatter_reduce(0, index, src, reduce, include_self=include_self),
        (ex.tensor(draw(3, 3), requires_grad=True), ex.tensor(draw(4, 3, seed=1), requires_grad=True)),
    )


def test_the_gradient_of_a_product_survives_zeros():
    x = ex.tensor([2.0, 0.0, 3.0], dtype=ex.float64, requires_grad=True)
    src = ex.tensor([0.0, 5.0, 7.0, 0.0, 0.0], dtype=ex.float64, requires_grad=True)
    y = x.scatter_reduce(0, ex.tensor([0, 0, 1, 2, 2]), src, "prod")
    gx, gs = ex.autograd.grad(y.sum(), [x, src])
    assert gx.tolist() == [0.0, 7.0, 0.0]
    assert gs.tolist() == [10.0, 0.0, 0.0, 0.0, 0.0]


def test_equal_extremes_share_the_gradient():
    x = ex.tensor([1.0, 1.0], requires_grad=True)
    src = ex.tensor([1.0, 1.0, 0.0], requires_grad=True)
    y = x.scatter_reduce(0, ex.tensor([0, 0, 1]), src, "amax")
    gx, gs = ex.autograd.grad(y.sum(), [x, src])
    assert gx.tolist() == [pytest.approx(1 / 3), 1.0]
    assert gs.tolist() == [pytest.approx(1 / 3)] * 2 + [0.0]


def test_a_src_larger_than_the_index_gets_a_zero_gradient_where_it_is_not_used():
    src = ex.ones(3, 3, requires_grad=True)
    y = ex.zeros(3, 3).scatter_add(0, ex.tensor([[0, 1], [0, 1]]), src)
    (g,) = ex.autograd.grad(y.sum(), src)
    assert g.tolist() == [[1, 1, 0], [1, 1, 0], [0, 0, 0]]


def test_of_values_scattered_to_one_place_only_the_last_gets_a_gradient():
    src = ex.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    y = ex.zeros(1, 2).scatter(1, ex.tensor([[1, 0, 1]]), src)
    (g,) = ex.autograd.grad((y * ex.tensor([[5.0, 7.0]])).sum(), src)
    assert y.tolist() == [[2.0, 3.0]]
    assert g.tolist() == [[0.0, 5.0, 7.0]]
