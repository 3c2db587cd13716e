"""Elements by themselves: operators, broadcasting with regular tensors, conversions, and tensors made alike."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import extempo as ex
from extempo.errors import ExtempoError, ShapeError

from .looped import FEW, LENGTHS, check_rows, leaf, ragged_leaf

FUNCTIONS = [
    lambda x: x * x + 2 - x / 3,
    lambda x: 1 - x,
    lambda x: 2**x,
    lambda x: -x.abs(),
    lambda x: (x > 0) & (x < 1),
    lambda x: ex.clamp(x, -0.5, 0.5),
    lambda x: ex.where(x > 0, x, x * 0.1),
    lambda x: x.sigmoid().log(),
    lambda x: ex.lerp(x, x * 2, 0.3),
    lambda x: x.to(ex.float32).double(),
    lambda x: x.clone(),
    lambda x: x.contiguous(),
    lambda x: ex.frexp(x)[0],
    lambda x: x.nan_to_num(),
    lambda x: x.type_as(ex.zeros(1)),
]


@pytest.mark.parametrize("fn", FUNCTIONS)
@FEW
@given(LENGTHS, st.integers(1, 2))
def test_elements_are_computed_by_themselves(fn, lengths, dim):
    x = ragged_leaf(lengths, 3, dim=dim)
    y = check_rows(fn, x)
    assert y._rows is x._rows


@FEW
@given(LENGTHS, st.integers(1, 2))
def test_regular_tensors_broadcast(lengths, dim):
    x = ragged_leaf(lengths, 3, dim=dim)
    n = len(x)
    check_rows(lambda x, t: x * t, x, leaf(1))
    check_rows(lambda x, t: t - x, x, leaf(3, 1) if dim == 2 else leaf(3))
    each = leaf(n, 3, 1) if dim == 2 else leaf(n, 1, 3)
    check_rows(lambda x, t: x * t, x, each, of_row=lambda i, row, t: row * t[i])
    check_rows(lambda x, t: t / x, x, leaf(n, 1, 1), of_row=lambda i, row, t: t[i] / row)
    check_rows(lambda x, t: x + t, x, leaf(1, 1, 1), of_row=lambda i, row, t: row + t[0])


@FEW
@given(LENGTHS)
def test_ragged_tensors_of_the_same_rows_go_together(lengths):
    x = ragged_leaf(lengths, 3)
    for shape in ((3,), (1,)):
        check_rows(lambda x, y: x * y + y, x, ragged_leaf(lengths, *shape, seed=4))


def test_functions_that_take_tensors_or_something_else_know_ragged_ones():
    x, y = ragged_leaf([2, 0, 3]), ragged_leaf([2, 0, 3], seed=5)
    check_rows(ex.max, x, y)
    check_rows(ex.min, x, y)
    check_rows(lambda x, y: x.to(y.long()), x, y)
    check_rows(ex.alias_copy, x)
    check_rows(lambda x: ex.unsqueeze_copy(x, -1), x)
    assert ex.atleast_2d(x) is x
    with pytest.raises(ShapeError, match="fill"):
        x.fill(y)


def test_arrays_broadcast_with_rows_and_not_with_their_values():
    x = ragged_leaf([2, 1])
    check_rows(lambda x: x * np.float64(2), x)
    check_rows(lambda x: x * np.array([[2.0], [3.0]]), x, of_row=lambda i, row: row * (2.0 + i))
    with pytest.raises(ShapeError):
        x + np.ones(3)


def test_a_regular_tensor_does_not_take_rows_into_its_memory():
    x = ragged_leaf([2, 3])
    for t in (ex.zeros(2, 1, dtype=ex.float64), ex.zeros(1, dtype=ex.float64)):
        with pytest.raises(ExtempoError):
            t.add_(x)
        with pytest.raises(ExtempoError):
            t[...] = x
        with pytest.raises(ExtempoError):
            ex.exp(x, out=t)
        assert not t.numpy().any()


def test_what_does_not_broadcast_is_refused():
    x = ragged_leaf([2, 3], 4)
    for t in (leaf(2, 3, 4), leaf(3, 1, 1), leaf(5), leaf(3, 4), leaf(1, 2, 1, 1)):
        with pytest.raises(ShapeError):
            x + t
        with pytest.raises(ShapeError):
            t * x
    with pytest.raises(ShapeError, match=r"\[2, 3\] and \[3, 2\]"):
        x + ragged_leaf([3, 2], 4)
    with pytest.raises(ShapeError, match="do not meet"):
        x + ragged_leaf([2, 3], 4, dim=2)


@pytest.mark.parametrize("dtype", [ex.float16, ex.float32, ex.int32, ex.bool])
def test_dtypes_are_promoted_as_ever(dtype):
    x = ex.ragged([[1, 2], [3]]).to(dtype)
    assert (x + 1).dtype is (ex.zeros(1, dtype=dtype) + 1).dtype
    assert (x + ex.ones(1, dtype=ex.float64)).dtype is ex.float64


MAKERS = [
    ex.zeros_like,
    ex.ones_like,
    ex.empty_like,
    ex.rand_like,
    ex.randn_like,
    lambda x, **o: ex.full_like(x, 3, **o),
]


@pytest.mark.parametrize("make", MAKERS)
def test_tensors_made_alike_have_the_same_rows(make):
    x = ragged_leaf([2, 0, 3], 4, dim=2)
    y = make(x)
    assert y.shape == x.shape
    assert y.dtype is x.dtype
    assert not y.requires_grad
    assert make(x, dtype=ex.float32, requires_grad=True).requires_grad


def test_draws_are_those_of_the_values():
    x = ex.ragged([[0.5, 0.5, 0.5], [], [0.5]])
    for draw in (
        ex.rand_like,
        ex.randn_like,
        ex.bernoulli,
        lambda t: ex.bernoulli(t, 0.5),
        lambda t: ex.normal(t, 1.0),
    ):
        ex.manual_seed(3)
        ours = draw(x)
        ex.manual_seed(3)
        np.testing.assert_array_equal(ours.values().numpy(), draw(x.values()).numpy())
    assert ex.randint_like(x, 5).lengths().tolist() == [3, 0, 1]


def test_in_place_functions_write_into_the_values():
    x = ex.ragged([[1.0, -2.0], [3.0]])
    values = x.values()
    x.mul_(2).relu_()
    x += 1
    assert values.tolist() == [3.0, 1.0, 7.0]
    x.zero_()
    assert values.tolist() == [0.0, 0.0, 0.0]
