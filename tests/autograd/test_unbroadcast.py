"""Gradients in the types of their values: broadcast dimensions summed away, dtypes converted."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.autograd.unbroadcast import broadcast_dims, fit, is_smaller, sum_apart, sum_array_to
from extempo.core.types import TensorType


def test_broadcast_dimensions_are_summed_away():
    a, b = ex.ones(3, 1, requires_grad=True), ex.ones(2, 1, 4, requires_grad=True)
    (a * b).sum().backward()
    np.testing.assert_array_equal(a.grad.numpy(), np.full((3, 1), 8))
    np.testing.assert_array_equal(b.grad.numpy(), np.full((2, 1, 4), 3))


def test_broadcasting_to_no_elements_gives_zero_gradients():
    x = ex.ones(1, 3, requires_grad=True)
    (x + ex.ones(0, 3)).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [[0, 0, 0]])


def test_mixed_dtypes_give_each_input_a_gradient_of_its_own_dtype():
    a = ex.ones(2, dtype=ex.float64, requires_grad=True)
    b = ex.ones(2, dtype=ex.float32, requires_grad=True)
    (a * b).sum().backward()
    assert a.grad.dtype is ex.float64
    assert b.grad.dtype is ex.float32


@pytest.mark.parametrize("d", [ex.float16, ex.bfloat16, ex.float32, ex.float64])
def test_every_floating_dtype_goes_backward(d):
    x = ex.ones(3, dtype=d, requires_grad=True)
    (x * x * 2.5).tanh().sum().backward()
    assert x.grad.dtype is d


def test_dims_that_were_broadcast_are_those_in_front_and_those_of_size_one():
    assert broadcast_dims((2, 3, 4), (3, 1)) == (0, 2)
    assert broadcast_dims((3, 1), (3, 1)) == ()
    assert broadcast_dims((5,), ()) == (0,)


def test_a_gradient_that_is_smaller_than_its_value_is_expanded():
    assert is_smaller((), (3,))
    assert is_smaller((1, 3), (2, 3))
    assert not is_smaller((2, 3), (3,))
    whole = fit(ex.tensor(2.0), TensorType((2, 3), ex.float32))
    assert whole.tolist() == [[2.0] * 3] * 2
    array = sum_array_to(np.float32([[1.0]]), TensorType((2, 1), ex.float32))
    assert array.flags.owndata
    np.testing.assert_array_equal(array, [[1.0], [1.0]])


def test_tensors_and_arrays_are_summed_with_the_same_bits():
    g = np.random.default_rng(0).normal(size=(7, 1000, 3)).astype(np.float32)
    for shape in ((1000, 1), (1, 3), (), (7, 1, 1)):
        t = TensorType(shape, ex.float32)
        assert sum_array_to(g, t).tobytes() == fit(ex.tensor(g), t).numpy().tobytes()


def test_a_sum_apart_leaves_its_parts_alone_and_lies_like_them():
    a, b = np.ones((2, 3), order="F"), np.full((2, 3), 2.0, order="F")
    total = sum_apart(a, b)
    assert not np.shares_memory(total, a)
    assert total.flags.f_contiguous
    np.testing.assert_array_equal(total, 3.0)
    np.testing.assert_array_equal(a, 1.0)
