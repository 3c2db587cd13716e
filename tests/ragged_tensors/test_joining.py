"""cat and stack of ragged tensors: more rows, longer rows, or more of what each element has."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import extempo as ex
from extempo.errors import ShapeError, UnsupportedError

from .looped import FEW, LENGTHS, check_rows, leaf, ragged_leaf, same


@FEW
@given(LENGTHS, LENGTHS, st.integers(1, 3))
def test_along_the_rows_there_are_more_of_them(first, second, dim):
    a, b = ragged_leaf(first, 2, 3, dim=dim), ragged_leaf(second, 2, 3, dim=dim, seed=2)
    y = ex.cat([a, b, a])
    assert y.lengths().tolist() == [*first, *second, *first]
    same(y.values(), ex.cat([*a, *b, *a, leaf(*a[:0].values().shape)], dim - 1), [a, b])


def test_regular_tensors_join_as_rows_of_one_length():
    x, t, row = ragged_leaf([2, 0], 3), leaf(2, 4, 3), leaf(5, 3)
    y = ex.cat([t, x, row.unsqueeze(0)])
    assert y.lengths().tolist() == [4, 4, 2, 0, 5]
    same(y.values(), ex.cat([t[0], t[1], x[0], x[1], row]), [x, t, row])
    turned = ex.cat([ragged_leaf([2, 0], 3, dim=2), leaf(2, 3, 4)])
    assert [r.shape for r in turned] == [(3, 2), (3, 0), (3, 4), (3, 4)]


@FEW
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=4), st.integers(1, 3))
def test_along_the_ragged_dimension_rows_get_longer(lengths, dim):
    a = ragged_leaf([n for n, _ in lengths], 2, 3, dim=dim)
    b = ragged_leaf([n for _, n in lengths], 2, 3, dim=dim, seed=2)
    check_rows(lambda a, b: ex.cat([a, b], dim), a, b, of_row=lambda i, x, y: ex.cat([x, y], dim - 1))
    check_rows(lambda a, b: ex.cat([b, a, b], dim), a, b, of_row=lambda i, x, y: ex.cat([y, x, y], dim - 1))


def test_every_row_gets_a_first_element():
    x, start = ragged_leaf([2, 0, 3], 4), leaf(3, 1, 4)
    check_rows(lambda x, t: ex.cat([t, x], 1), x, start, of_row=lambda i, row, t: ex.cat([t[i], row]))
    by_column = ragged_leaf([2, 0, 3], 4, dim=2)
    check_rows(lambda x, t: ex.cat([x, t], 2), by_column, leaf(3, 4, 2), of_row=lambda i, r, t: ex.cat([r, t[i]], 1))


@FEW
@given(LENGTHS)
def test_along_regular_dimensions_elements_get_more(lengths):
    a, b = ragged_leaf(lengths, 2), ragged_leaf(lengths, 3, seed=2)
    y = check_rows(lambda a, b: ex.cat([a, b], -1), a, b)
    assert y._rows is a._rows
    check_rows(lambda a: ex.stack([a, a * 2], 2), a, of_row=lambda i, row: ex.stack([row, row * 2], 1))
    check_rows(lambda a: ex.stack([a, a * 2], 1), a, of_row=lambda i, row: ex.stack([row, row * 2], 0))
    check_rows(lambda a: ex.stack([a, a * 2], -1), a)


def test_dtypes_are_promoted():
    assert ex.cat([ex.ragged([[1]]), ex.ragged([[1.5, 2.0]])]).tolist() == [[1.0], [1.5, 2.0]]


def test_what_does_not_go_together_is_refused():
    x = ragged_leaf([2, 3], 4)
    with pytest.raises(ShapeError, match="same lengths"):
        ex.cat([x, ragged_leaf([3, 2], 4)], 2)
    with pytest.raises(ShapeError, match="do not go"):
        ex.cat([x, ragged_leaf([3, 2], 5)])
    with pytest.raises(ShapeError, match="do not go"):
        ex.cat([x, ragged_leaf([3], 4)], 1)
    with pytest.raises(ShapeError, match="do not go"):
        ex.cat([x, ragged_leaf([2, 3], 4, dim=2).transpose(1, 2)[..., :3]])
    with pytest.raises(UnsupportedError, match="stack"):
        ex.stack([x, x])
    with pytest.raises(UnsupportedError, match="regular"):
        ex.cat([x, leaf(2, 3, 4)], 2)
