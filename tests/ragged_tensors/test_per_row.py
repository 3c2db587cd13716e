"""One row after the other: results become rows again, errors name the row, and no rows still have a shape."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.errors import ShapeError
from extempo.ragged_tensors import per_row
from extempo.ragged_tensors.tensor import RaggedTensor

from .looped import ragged_leaf


def refuse_short(row):
    if row.shape[0] < 2:
        raise ShapeError("too short")
    return row


def test_an_error_says_which_row_it_was():
    with pytest.raises(ShapeError, match=r"^flip: row 1 of shape \(1,\): too short"):
        per_row.mapped("flip", refuse_short, ragged_leaf([3, 1]))


def test_rows_may_come_out_longer_or_shorter():
    x = ex.ragged([[1.0, 2.0, 3.0], [4.0]])
    assert per_row.mapped("twice", lambda row: ex.cat([row, row]), x).tolist() == [[1, 2, 3] * 2, [4, 4]]


def test_several_results_are_several_ragged_tensors():
    low, high = per_row.mapped("both", lambda row: (row - 1, row + 1), ex.ragged([[1.0], [2.0, 3.0]]))
    assert low.tolist() == [[0.0], [1.0, 2.0]]
    assert high.tolist() == [[2.0], [3.0, 4.0]]


def test_an_empty_row_may_stay_one_without_a_call():
    x = ex.ragged([ex.tensor([1.0, 2.0]), ex.tensor([]), ex.tensor([3.0, 4.0])])
    assert per_row.mapped("flip", refuse_short, x, keep_empty=True).tolist() == [[1, 2], [], [3, 4]]


@pytest.mark.parametrize("dim", [1, 2])
def test_without_rows_the_shape_of_a_result_is_learnt_from_one_that_is_not_there(dim):
    none = ragged_leaf([], 3, dim=dim)
    wide = per_row.mapped("wide", lambda row: ex.cat([row, row], 2 - dim), none)
    assert isinstance(wide, RaggedTensor)
    assert wide.values().shape[2 - dim] == 6
    assert per_row.stacked("sum", lambda row: row.sum(dim - 1), none).shape == (0, 3)


def test_what_belongs_to_each_row_is_a_row_a_sample_or_the_same_for_all():
    shared, samples = ex.zeros(3), ex.zeros(2, 3)
    assert per_row.rows_of(shared, 2, 2) == [shared, shared]
    assert [t.shape for t in per_row.rows_of(samples, 2, 2)] == [(3,), (3,)]
    assert [t.shape for t in per_row.rows_of(ex.zeros(1, 3), 2, 2)] == [(3,), (3,)]
    assert [t.shape for t in per_row.rows_of(ragged_leaf([2, 1]), 2, 2)] == [(2,), (1,)]
