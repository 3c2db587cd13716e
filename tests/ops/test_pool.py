"""Pooling at the edges: padding, ceil_mode, ties, NaN, empty batches, messages."""

import numpy as np
import pytest

import extempo as ex
from extempo.autograd.numerical import gradcheck, gradgradcheck
from extempo.errors import ShapeError
from extempo.ops import pool


def counting(*shape):
    return ex.tensor(np.arange(np.prod(shape), dtype=np.float64).reshape(shape))


def test_ceil_mode_adds_a_window_only_if_it_begins_inside():
    assert pool.max_pool1d(counting(1, 1, 5), 2, 2, ceil_mode=True).tolist() == [[[1, 3, 4]]]
    assert pool.max_pool1d(counting(1, 1, 4), 2, 3, ceil_mode=True).shape == (1, 1, 2)
    assert pool.max_pool1d(counting(1, 1, 3), 1, 3, ceil_mode=True).shape == (1, 1, 1)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_an_input_without_batch_pools_like_one_of_a_batch(n):
    x = counting(2, *(4, 5, 6)[:n])
    for function in (getattr(pool, f"max_pool{n}d"), getattr(pool, f"avg_pool{n}d")):
        np.testing.assert_array_equal(function(x, 2).numpy(), function(x.unsqueeze(0), 2)[0].numpy())
    for function in (getattr(pool, f"adaptive_max_pool{n}d"), getattr(pool, f"adaptive_avg_pool{n}d")):
        np.testing.assert_array_equal(function(x, 3).numpy(), function(x.unsqueeze(0), 3)[0].numpy())


def test_an_empty_batch_pools_to_an_empty_batch():
    x = ex.zeros(0, 2, 4, 4)
    assert pool.max_pool2d(x, 2).shape == (0, 2, 2, 2)
    assert pool.avg_pool2d(x, 2).shape == (0, 2, 2, 2)
    assert pool.adaptive_max_pool2d(x, 3).shape == (0, 2, 3, 3)
    assert pool.adaptive_avg_pool2d(x, 3).shape == (0, 2, 3, 3)


def test_adaptive_windows_cover_the_input_and_may_overlap():
    assert pool.adaptive_avg_pool1d(counting(1, 1, 5), 3).tolist() == [[[0.5, 2, 3.5]]]
    values, indices = pool.adaptive_max_pool1d(counting(1, 1, 5), 3, return_indices=True)
    assert values.tolist() == indices.tolist() == [[[1, 3, 4]]]
    assert pool.adaptive_avg_pool2d(counting(1, 1, 4, 6), (None, 2)).shape == (1, 1, 4, 2)


def test_an_infinity_stays_in_its_adaptive_windows():
    x = ex.zeros(1, 1, 5)
    x[0, 0, 0] = float("inf")
    assert pool.adaptive_avg_pool1d(x, 3).tolist() == [[[float("inf"), 0, 0]]]


def test_norm_pooling_has_the_maximum_as_its_limit():
    x = counting(1, 1, 4)
    np.testing.assert_allclose(pool.lp_pool1d(x, 2, 2).numpy(), [[[1, np.sqrt(13)]]])
    assert pool.lp_pool1d(x, float("inf"), 2).tolist() == [[[1, 3]]]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: pool.max_pool2d(x, 3, 2, 1),
        lambda x: pool.avg_pool2d(x, 2, 1, 1, count_include_pad=False),
        lambda x: pool.adaptive_avg_pool2d(x, (2, 3)),
        lambda x: pool.adaptive_max_pool2d(x, (2, 3)),
        lambda x: pool.lp_pool2d(x, 3, 2),
    ],
)
def test_gradients_of_first_and_second_order_are_right(function):
    x = np.random.default_rng(0).permutation(32).reshape(1, 2, 4, 4) * 0.3 + 0.1
    x = ex.tensor(x, requires_grad=True)
    assert gradcheck(function, (x,))
    assert gradgradcheck(function, (x,))


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: pool.max_pool2d(ex.ones(4, 4), 2), "max_pool2d: expected 4 dimensions"),
        (lambda: pool.max_pool1d(ex.ones(1, 1, 2), 3), "does not fit into size 2"),
        (lambda: pool.avg_pool1d(ex.ones(1, 1, 4), 2, padding=2), "more than half"),
        (lambda: pool.max_pool1d(ex.ones(1, 1, 0), 1), "only the batch may be empty"),
        (lambda: pool.max_pool2d(ex.ones(1, 1, 4, 4), (2, 2, 2)), "one int or 2"),
        (lambda: pool.adaptive_avg_pool2d(ex.ones(1, 1, 4, 4), (2, 2, 2)), "one int or 2"),
        (lambda: pool.avg_pool2d(ex.ones(1, 1, 4, 4), 2, divisor_override=0), "must not be 0"),
        (lambda: pool.fractional_max_pool2d(ex.ones(1, 1, 4, 4), 2), "output_size or output_ratio"),
        (lambda: pool.fractional_max_pool2d(ex.ones(1, 1, 4, 4), 3, output_size=3), "do not fit"),
        (lambda: pool.max_unpool1d(ex.ones(1, 1, 2), ex.ones(1, 1, 3).long(), 2), "expected int64 indices"),
        (lambda: pool.max_unpool1d(ex.ones(1, 1, 2), ex.zeros(1, 1, 2).long(), 2, output_size=(9,)), "too far"),
    ],
)
def test_what_does_not_fit_is_said_before_the_kernel_runs(make, text):
    with pytest.raises(ShapeError, match=text):
        make()
