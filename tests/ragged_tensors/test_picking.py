"""Elements by number: an index counts from the beginning of each row, and never reaches into the next."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import extempo as ex
from extempo.errors import IndexRangeError, ShapeError, UnsupportedError
from extempo.nn import functional as F
from extempo.ragged_tensors.rows import Rows
from extempo.ragged_tensors.tensor import RaggedTensor

from .looped import FEW, LENGTHS, check_rows, leaf, ragged_ints, ragged_leaf


def indices(of: list[int], lengths: list[int], *shape: int) -> RaggedTensor:
    """Rows of these lengths of places in rows of the lengths `of`."""
    random = np.random.RandomState(0)
    rows = [random.randint(0, max(n, 1), (k, *shape)) for n, k in zip(of, lengths, strict=True)]
    values = np.concatenate([np.zeros((0, *shape), np.int64), *rows])
    return RaggedTensor(ex.from_numpy(values), Rows.of_lengths(lengths))


# ---- gather, scatter


@FEW
@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 5)), max_size=4))
def test_gather_along_the_ragged_dimension(lengths):
    own, wanted = [n for n, _ in lengths], [k for _, k in lengths]
    for shape in ((), (3,)):
        x, index = ragged_leaf(own, *shape), indices(own, wanted, *shape)
        check_rows(lambda x, i: ex.gather(x, 1, i), x, index, of_row=lambda _, row, i: ex.gather(row, 0, i))
    turned = ragged_leaf(own, 3, dim=2)
    index = indices(own, wanted, 3).transpose(1, 2)
    check_rows(lambda x, i: ex.gather(x, 2, i), turned, index, of_row=lambda _, row, i: ex.gather(row, 1, i))


def test_gather_with_equally_many_places_for_each_row_is_regular():
    x, index = ragged_leaf([2, 4, 3], 2), ex.tensor([[[0, 1]], [[3, 2]], [[2, 0]]])
    y = check_rows(lambda x, i: ex.gather(x, 1, i), x, index, of_row=lambda k, row, i: ex.gather(row, 0, i[k]))
    assert y.shape == (3, 1, 2)


def test_gather_from_a_regular_tensor_by_a_ragged_index():
    t, index = leaf(3, 5), indices([5, 5, 5], [2, 0, 4])
    check_rows(lambda i, t: ex.gather(t, 1, i), index, t, of_row=lambda k, i, t: ex.gather(t[k], 0, i))


@FEW
@given(LENGTHS)
def test_gather_and_scatter_along_regular_dimensions(lengths):
    x, index = ragged_leaf(lengths, 4), ragged_ints(lengths, 4, 2)
    check_rows(lambda x, i: ex.gather(x, 2, i), x, index, of_row=lambda _, row, i: ex.gather(row, 1, i))
    src = ragged_leaf(lengths, 2, seed=5)
    check_rows(
        lambda x, i, s: x.scatter_add(2, i, s), x, index, src, of_row=lambda _, row, i, s: row.scatter_add(1, i, s)
    )
    check_rows(lambda x, i: x.scatter(2, i, 7.0), x, index, of_row=lambda _, row, i: row.scatter(1, i, 7.0))


def test_scatter_along_the_ragged_dimension():
    own, wanted = [3, 1, 4], [2, 0, 5]
    x, index, src = ragged_leaf(own, 2), indices(own, wanted, 2), ragged_leaf(wanted, 2, seed=5)
    check_rows(
        lambda x, i, s: x.scatter_add(1, i, s), x, index, src, of_row=lambda _, row, i, s: row.scatter_add(0, i, s)
    )
    check_rows(
        lambda x, i, s: x.scatter_reduce(1, i, s, "amax"),
        x,
        index,
        src,
        of_row=lambda _, row, i, s: row.scatter_reduce(0, i, s, "amax"),
    )


@pytest.mark.parametrize("place", [-1, 2])
def test_an_index_outside_its_row_raises_also_where_the_next_row_would_have_it(place):
    x = ex.ragged([[1.0, 2.0], [3.0, 4.0, 5.0]])
    with pytest.raises(IndexRangeError, match="row of length 2"):
        ex.gather(x, 1, ex.ragged([[place], [0]]))
    with pytest.raises(IndexRangeError, match="row of length 2"):
        x.scatter(1, ex.tensor([[place], [0]]), 0.0)
    with pytest.raises(IndexRangeError, match="row of length 2"):
        x.index_select(1, ex.tensor([place]))


def test_an_index_of_another_number_of_rows_is_refused():
    x = ragged_leaf([2, 3], 4)
    with pytest.raises(ShapeError, match="does not fit"):
        ex.gather(x, 1, ex.zeros(3, 1, 4, dtype=ex.int64))
    with pytest.raises(UnsupportedError, match="dimension 0"):
        ex.gather(x, 0, ex.zeros(2, 1, 4, dtype=ex.int64))


def test_index_select_of_rows_of_places_and_of_regular_dimensions():
    x = ragged_leaf([2, 4, 3], 5)
    assert x.index_select(0, ex.tensor([2, 2, 0])).lengths().tolist() == [3, 3, 2]
    check_rows(
        lambda x: x.index_select(1, ex.tensor([1, 0, 1])),
        x,
        of_row=lambda i, row: row.index_select(0, ex.tensor([1, 0, 1])),
    )
    check_rows(lambda i, t: t[i], ragged_ints([2, 0, 3], 7), leaf(7, 2))


# ---- order, padding


@FEW
@given(LENGTHS, st.integers(1, 3))
def test_flip_and_roll_over_several_dimensions(lengths, dim):
    x = ragged_leaf(lengths, 2, 3, dim=dim)
    check_rows(lambda x: x.flip(1, 2, 3), x, of_row=lambda i, row: row.flip(0, 1, 2))
    check_rows(lambda x: x.roll((1, 2), (1, 2)), x, of_row=lambda i, row: row.roll((1, 2), (0, 1)))
    assert x.flip(0).lengths().tolist() == lengths[::-1]
    assert x.flip(0, dim).tolist() == [row.flip(dim - 1).tolist() for row in reversed(list(x))]
    assert x.roll(1, 0).tolist() == [x[i - 1].tolist() for i in range(len(x))]


@pytest.mark.parametrize("pad", [(1, 2), (0, 0, 2, 1), (1, 1, 0, 3)])
@FEW
@given(LENGTHS)
def test_constant_padding_of_each_row(pad, lengths):
    for dim in (1, 2):
        check_rows(lambda x: F.pad(x, pad, value=7.0), ragged_leaf(lengths, 3, dim=dim))


@FEW
@given(LENGTHS, st.integers(1, 3), st.integers(-1, 1))
def test_triangles_of_the_matrices_of_each_row(lengths, dim, diagonal):
    x = ragged_leaf(lengths, 2, 3, dim=dim)
    for fn in (ex.tril, ex.triu):
        y = check_rows(lambda x, fn=fn: fn(x, diagonal), x)
        assert y._rows is x._rows
        with pytest.raises(UnsupportedError, match=fn.__name__):
            fn(ragged_leaf([2, 3]))


# ---- masks, lookups


@FEW
@given(LENGTHS, st.integers(1, 2))
def test_masked_elements_come_row_by_row(lengths, dim):
    x = ragged_leaf(lengths, 3, dim=dim)
    found = ex.masked_select(x, x > 0)
    assert found.tolist() == [v for row in x for v in ex.masked_select(row, row > 0).tolist()]
    assert x[x > 0].tolist() == found.tolist()
    check_rows(lambda x: ex.where(x > 0, x, 0.0), x)
    check_rows(lambda x: x.masked_fill(x > 0, -1.0), x)
    per_row = ex.arange(len(lengths)).reshape(-1, 1, 1) % 2 == 0
    check_rows(lambda x: x.masked_fill(per_row, 0.0), x, of_row=lambda i, row: row.masked_fill(per_row[i], 0.0))


def test_elements_are_looked_up_among_others():
    x = ragged_ints([2, 0, 3], 5)
    check_rows(lambda x: ex.isin(x, ex.tensor([1, 2])), x)
    check_rows(lambda x: ex.bucketize(x, ex.tensor([1, 3])), x)
    check_rows(lambda x: F.one_hot(x, 5), x)
    floats = ragged_leaf([2, 0, 3])
    assert ex.histc(floats, 4, -2, 2).tolist() == ex.histc(floats.values(), 4, -2, 2).tolist()


def test_matrices_of_regular_dimensions():
    x, b = ragged_leaf([2, 0, 3], 3, 3), ragged_leaf([2, 0, 3], 3, 2, seed=4)
    check_rows(ex.linalg.inv, x, rtol=1e-7)
    check_rows(ex.linalg.det, x, rtol=1e-7)
    check_rows(ex.linalg.solve, x, b, rtol=1e-7)
    check_rows(lambda x: ex.linalg.solve(x, ex.ones(3, 2, dtype=ex.float64)), x, rtol=1e-7)
    with pytest.raises(UnsupportedError, match="inv of"):
        ex.linalg.inv(ragged_leaf([3, 3], 3))
