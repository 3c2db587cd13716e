"""Splits are views, in every direction, and can be written."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.errors import DtypeError, IndexRangeError, ShapeError

from .helpers import grid, shapes


def test_split_cuts_by_size_or_by_sizes():
    x = grid(5, 2)
    assert shapes(x.split(2)) == [(2, 2), (2, 2), (1, 2)]
    assert shapes(ex.split(x, [1, 4])) == [(1, 2), (4, 2)]
    assert shapes(ex.zeros(0, 2).split(3)) == [(0, 2)]
    with pytest.raises(ShapeError, match="must add up to"):
        x.split([1, 1])
    with pytest.raises(ShapeError, match="positive split size"):
        x.split(0)


def test_chunks_may_be_fewer_than_asked_for():
    assert shapes(grid(5).chunk(4)) == [(2,), (2,), (1,)]
    assert shapes(ex.zeros(0).chunk(2)) == [(0,), (0,)]
    with pytest.raises(ShapeError, match="positive number of chunks"):
        grid(5).chunk(0)


@pytest.mark.parametrize("where", [3, 7, (1, 3), (-2,), (3, 1), (0, 9), ()])
def test_tensor_split_is_numpys(where):
    x = grid(5, 2)
    expected = np.array_split(x.numpy(), where)
    for given in (where, ex.tensor(where, dtype=ex.int64)):
        found = x.tensor_split(given)
        assert len(found) == len(expected)
        for f, e in zip(found, expected, strict=True):
            np.testing.assert_array_equal(f.numpy(), e)


def test_splits_by_direction():
    x = grid(2, 4, 2)
    assert shapes(x.hsplit(2)) == [(2, 2, 2)] * 2
    assert shapes(x.vsplit(2)) == [(1, 4, 2)] * 2
    assert shapes(x.dsplit([1])) == [(2, 4, 1)] * 2
    assert shapes(grid(4).hsplit(2)) == [(2,)] * 2
    with pytest.raises(ShapeError, match="dimension 1 of size 4 is not divisible into 3"):
        x.hsplit(3)
    with pytest.raises(ShapeError, match="vsplit: expected at least 2 dimensions"):
        grid(4).vsplit(2)


def test_all_parts_of_a_split_can_be_written_with_gradients():
    x = ex.ones(4, requires_grad=True)
    y = x * 1
    first, second = y.split(2)
    first.mul_(3.0)
    second.mul_(first)
    for i, element in enumerate(y):
        element.add_(float(i))
    (g,) = ex.autograd.grad(y.sum(), x)
    assert y.tolist() == [3.0, 4.0, 5.0, 6.0]
    assert g.tolist() == [6.0, 6.0, 3.0, 3.0]


def test_unbind_and_iteration_give_rows():
    x = grid(2, 3)
    assert [row.tolist() for row in x] == [[0, 1, 2], [3, 4, 5]]
    assert shapes(x.unbind(1)) == [(2,)] * 3
    assert ex.zeros(0, 2).unbind() == ()
    with pytest.raises(IndexRangeError, match="unbind: a 0-dim tensor"):
        ex.tensor(1.0).unbind()


def test_copying_splits_take_a_list_as_out():
    x = grid(4)
    outs = [ex.empty(0), ex.empty(0)]
    ex.split_with_sizes_copy(x, [1, 3], out=outs)
    x.zero_()
    assert [o.tolist() for o in outs] == [[0.0], [1.0, 2.0, 3.0]]


@pytest.mark.parametrize("two", [2, np.int64(2), ex.tensor(2)])
def test_sizes_and_sections_have_names_and_may_be_integers_of_any_kind(two):
    x = ex.zeros(4, 6, 2)
    assert shapes(x.split(split_size=two)) == [(2, 6, 2)] * 2
    assert shapes(ex.split(x, [two, two])) == [(2, 6, 2)] * 2
    assert shapes(x.tensor_split(sections=two, dim=1)) == [(4, 3, 2)] * 2
    assert shapes(ex.tensor_split(x, indices=[two], dim=1)) == [(4, 2, 2), (4, 4, 2)]
    assert shapes(ex.tensor_split(x, tensor_indices_or_sections=ex.tensor([2]))) == [(2, 6, 2)] * 2
    assert shapes(x.hsplit(sections=two)) == [(4, 3, 2)] * 2
    assert shapes(x.vsplit(indices=[two])) == [(2, 6, 2)] * 2
    assert shapes(x.dsplit(two)) == [(4, 6, 1)] * 2


@pytest.mark.parametrize("split", [ex.split, ex.tensor_split, ex.hsplit])
@pytest.mark.parametrize("where", [1.5, "ab", [1, "a"], None])
def test_what_is_no_integer_is_no_place_to_split(split, where):
    with pytest.raises(DtypeError, match=r"expected a .* or a list of .*, ints, got"):
        split(ex.zeros(4, 6), where)
