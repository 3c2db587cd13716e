"""Maxima of windows: ties, padding, NaN, dilation, and back again."""

import numpy as np
import pytest

import extempo as ex
from extempo.errors import IndexRangeError
from extempo.ops import pool


def counting(*shape):
    return ex.tensor(np.arange(np.prod(shape), dtype=np.float64).reshape(shape))


def test_max_pool_says_where_the_largest_lies_and_sends_the_gradient_there():
    x = ex.tensor([[[1.0, 5.0, 2.0, 4.0]]], requires_grad=True)
    y, indices = pool.max_pool1d(x, 2, 1, return_indices=True)
    assert y.tolist() == [[[5, 5, 4]]]
    assert indices.tolist() == [[[1, 1, 3]]]
    y.sum().backward()
    assert x.grad.tolist() == [[[0, 2, 0, 1]]]


def test_of_equal_elements_the_first_is_named():
    _, indices = pool.max_pool2d_with_indices(ex.ones(1, 1, 4, 4), 3, 1)
    assert indices.tolist() == [[[[0, 1], [4, 5]]]]


def test_padding_never_wins():
    y, indices = pool.max_pool1d(ex.full((1, 1, 3), -float("inf")), 3, 1, 1, return_indices=True)
    assert y.tolist() == [[[-float("inf")] * 3]]
    assert indices.min().item() >= 0
    assert pool.max_pool1d(ex.tensor([[[-5, -7]]]), 2, 2, 1).tolist() == [[[-5, -7]]]


def test_nan_wins_and_is_named():
    y, indices = pool.max_pool1d(ex.tensor([[[1.0, float("nan"), 3.0, 4.0]]]), 2, return_indices=True)
    assert np.isnan(y.numpy()).tolist() == [[[True, False]]]
    assert indices.tolist() == [[[1, 3]]]


def test_dilated_windows_skip_elements():
    assert pool.max_pool1d(counting(1, 1, 6), 2, 1, dilation=3).tolist() == [[[3, 4, 5]]]


def test_unpooling_puts_elements_back_where_they_came_from():
    x = counting(1, 1, 5)
    y, indices = pool.max_pool1d(x, 2, return_indices=True)
    assert pool.max_unpool1d(y, indices, 2).tolist() == [[[0, 1, 0, 3]]]
    assert pool.max_unpool1d(y, indices, 2, output_size=(5,)).tolist() == [[[0, 1, 0, 3, 0]]]
    assert pool.max_unpool1d(y, indices, 2, output_size=(1, 1, 5)).shape == (1, 1, 5)


def test_an_index_outside_of_the_output_is_an_error():
    with pytest.raises(IndexRangeError, match="output_size"):
        pool.max_unpool1d(ex.ones(1, 1, 2), ex.tensor([[[0, 4]]]), 2)


def test_fractional_windows_follow_the_given_draws():
    draws = ex.tensor([[[0.5, 0.5]]], dtype=ex.float64)
    values, indices = pool.fractional_max_pool2d(
        counting(1, 1, 5, 5), 2, output_size=3, return_indices=True, _random_samples=draws
    )
    assert values.tolist() == indices.tolist()
    assert indices[0, 0, -1, -1].item() == 24
