"""Views and other shapes of ragged tensors are those of each row."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import extempo as ex
from extempo.errors import IndexRangeError, ShapeError, UnsupportedError

from .looped import FEW, LENGTHS, check_rows, ragged_leaf


def by_row(fn, of_row, x):
    return check_rows(fn, x, of_row=lambda i, row: of_row(row))


# ---- reshape


@FEW
@given(LENGTHS)
def test_regular_dimensions_are_split_and_merged(lengths):
    x = ragged_leaf(lengths, 6)
    n, size = len(x), x.shape[1]
    for shape in ((n, size, 2, 3), (n, size, -1, 3), (-1, size, 2, 3), (n, -1, 2, 3)):
        y = by_row(lambda t, shape=shape: t.reshape(shape), lambda row: row.reshape(-1, 2, 3), x)
        assert y._rows is x._rows
    by_row(lambda t: t.view(n, size, 2, 3), lambda row: row.reshape(-1, 2, 3), x)
    by_row(lambda t: t.unflatten(2, (2, -1)), lambda row: row.unflatten(1, (2, -1)), x)
    z = ragged_leaf(lengths, 2, 3, 2, dim=3)
    by_row(lambda t: t.reshape(n, 6, t.shape[3], 2), lambda row: row.reshape(6, -1, 2), z)
    by_row(lambda t: t.reshape(n, 3, -1, t.shape[3], 1, 2), lambda row: row.reshape(3, 2, -1, 1, 2), z)
    by_row(lambda t: t.flatten(1, 2), lambda row: row.flatten(0, 1), z)


@FEW
@given(LENGTHS, st.integers(1, 3))
def test_the_ragged_dimension_is_merged_with_its_neighbours(lengths, dim):
    x = ragged_leaf(lengths, 2, 3, dim=dim)
    n = len(x)
    y = by_row(lambda t: t.reshape(n, -1), lambda row: row.reshape(-1), x)
    assert y.lengths().tolist() == [6 * length for length in lengths]
    by_row(lambda t: t.flatten(1), lambda row: row.flatten(), x)
    by_row(lambda t: t.flatten(1, 2), lambda row: row.flatten(0, 1), x)
    by_row(lambda t: t.flatten(2, 3), lambda row: row.flatten(1, 2), x)
    whole = x.reshape(-1)
    assert not whole.is_nested
    assert whole.tolist() == [value for row in x for value in row.reshape(-1).tolist()]
    assert x.flatten().tolist() == whole.tolist()


def test_rows_and_places_are_merged_to_the_values():
    x = ragged_leaf([2, 0, 3], 4)
    assert x.flatten(0, 1).tolist() == x.values().tolist()
    with pytest.raises(UnsupportedError, match="flatten"):
        ragged_leaf([2, 0, 3], 4, dim=2).flatten(0, 1)


@pytest.mark.parametrize("shape", [(3, 4), (2, 4, -1), (15, -1), (3, 5, 4), (3, -1, 3), (3, -2, 4), (3, -1, -1)])
def test_shapes_that_the_rows_do_not_have_are_refused(shape):
    with pytest.raises(ShapeError):
        ragged_leaf([2, 0, 3], 4).reshape(shape)


def test_the_ragged_size_of_other_rows_is_refused():
    x, other = ragged_leaf([2, 3], 4), ragged_leaf([3, 2], 4)
    assert x.reshape(ragged_leaf([2, 3], 4).shape).shape == x.shape
    with pytest.raises(ShapeError, match="other rows"):
        x.reshape(other.shape)


# ---- one dimension more or less


@FEW
@given(LENGTHS, st.integers(1, 3))
def test_dimensions_of_one_come_and_go(lengths, dim):
    x = ragged_leaf(lengths, 1, 3, dim=dim)
    for d in range(1, 4):
        by_row(lambda t, d=d: t.unsqueeze(d), lambda row, d=d: row.unsqueeze(d - 1), x)
    one = next(d for d in range(1, 4) if d != dim)
    for y in (by_row(lambda t: t.squeeze(one), lambda row: row.squeeze(one - 1), x), x.squeeze()):
        assert y.ndim == 3
        assert y._rows is x._rows
    with pytest.raises((UnsupportedError, ShapeError)):
        ragged_leaf([2, 1], 3).unsqueeze(0)


def test_squeeze_leaves_the_rows_and_their_lengths():
    x = ragged_leaf([1], 1)
    assert x.squeeze().ndim == 2
    assert x.squeeze(0).shape == x.shape
    assert x.squeeze((0, 2)).ndim == 2


@FEW
@given(LENGTHS, st.integers(1, 3))
def test_dimensions_after_the_first_are_moved(lengths, dim):
    x = ragged_leaf(lengths, 2, 3, dim=dim)
    by_row(lambda t: t.transpose(1, 3), lambda row: row.transpose(0, 2), x)
    by_row(lambda t: t.permute(0, 3, 1, 2), lambda row: row.permute(2, 0, 1), x)
    by_row(lambda t: t.movedim(1, -1), lambda row: row.movedim(0, -1), x)
    by_row(lambda t: t.swapaxes(2, 3), lambda row: row.swapaxes(1, 2), x)
    by_row(lambda t: t.mT, lambda row: row.mT, x)
    with pytest.raises(UnsupportedError, match="dimension 0"):
        x.transpose(0, 1)


# ---- expand, repeat


@FEW
@given(LENGTHS)
def test_expand_and_repeat_of_each_row(lengths):
    x = ragged_leaf(lengths, 1, 3)
    by_row(lambda t: t.expand(-1, -1, 4, -1), lambda row: row.expand(-1, 4, -1), x)
    by_row(lambda t: t.expand(*t.shape[:2], 4, 3), lambda row: row.expand(-1, 4, -1), x)
    by_row(lambda t: t.repeat(1, 1, 2, 3), lambda row: row.repeat(1, 2, 3), x)
    by_row(lambda t: t.repeat(1, 3, 2, 1), lambda row: row.repeat(3, 2, 1), x)
    by_row(lambda t: t.repeat(1, 0, 1, 1), lambda row: row.repeat(0, 1, 1), x)
    by_row(lambda t: t.repeat_interleave(2, 3), lambda row: row.repeat_interleave(2, 2), x)
    assert x.repeat(2, 1, 1, 1).lengths().tolist() == lengths * 2
    with pytest.raises(ShapeError):
        x.expand(len(x), 5, 1, 3)


def test_a_regular_tensor_expands_to_the_rows():
    x = ragged_leaf([2, 0, 3], 4)
    t = ex.arange(3.0).reshape(3, 1, 1).requires_grad_()
    y = t.expand_as(x)
    assert [row.shape for row in y] == [(2, 4), (0, 4), (3, 4)]
    y.sum().backward()
    assert t.grad.reshape(-1).tolist() == [8.0, 0.0, 12.0]


# ---- parts


@FEW
@given(LENGTHS, st.integers(1, 2))
def test_parts_of_regular_dimensions(lengths, dim):
    x = ragged_leaf(lengths, 5, dim=dim)
    d = 3 - dim
    by_row(lambda t: t.narrow(d, 1, 3), lambda row: row.narrow(d - 1, 1, 3), x)
    by_row(lambda t: t.select(d, -1), lambda row: row.select(d - 1, -1), x)
    for k in range(2):
        by_row(lambda t, k=k: t.chunk(2, d)[k], lambda row, k=k: row.chunk(2, d - 1)[k], x)
        by_row(lambda t, k=k: t.split([1, 4], d)[k], lambda row, k=k: row.split([1, 4], d - 1)[k], x)
        by_row(lambda t, k=k: t.tensor_split(2, d)[k], lambda row, k=k: row.tensor_split(2, d - 1)[k], x)
        by_row(lambda t, k=k: t.split(3, d)[k], lambda row, k=k: row.split(3, d - 1)[k], x)
    by_row(lambda t: t.unfold(d, 2, 1), lambda row: row.unfold(d - 1, 2, 1), x)
    by_row(lambda t: t.index_select(d, ex.tensor([4, 0])), lambda row: row.index_select(d - 1, ex.tensor([4, 0])), x)


def test_parts_of_the_rows_and_of_their_places():
    x = ragged_leaf([2, 4, 3], 2)
    assert x.select(0, 1).shape == (4, 2)
    assert [part.lengths().tolist() for part in x.split(2)] == [[2, 4], [3]]
    assert x.narrow(0, 1, 2).lengths().tolist() == [4, 3]
    by_row(lambda t: t.select(1, -2), lambda row: row.select(0, -2), x)
    by_row(lambda t: t.narrow(1, 1, 1), lambda row: row.narrow(0, 1, 1), x)
    by_row(lambda t: t.narrow(1, -2, 2), lambda row: row.narrow(0, -2, 2), x)
    with pytest.raises(IndexRangeError, match="row 0 of length 2"):
        x.narrow(1, 0, 3)
    with pytest.raises(UnsupportedError, match="as one number"):
        x.chunk(2, 1)


def test_diagonals_of_regular_dimensions():
    x = ragged_leaf([2, 0, 3], 3, 4)
    by_row(lambda t: t.diagonal(0, 2, 3), lambda row: row.diagonal(0, 1, 2), x)
    by_row(lambda t: t.diagonal(0, 1, 3), lambda row: row.diagonal(0, 0, 2), ragged_leaf([2, 1], 3, 4, dim=2))
    with pytest.raises(UnsupportedError, match="diagonal"):
        x.diagonal(0, 1, 2)
