"""Rows: where each begins and ends, what is refused, and the size that stands for their lengths."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.errors import IndexRangeError, ShapeError, UnsupportedError
from extempo.ragged_tensors.rows import RaggedSize, Rows


def test_offsets_of_the_caller_are_not_touched():
    offsets = np.array([0, 1, 3])
    x = ex.ragged_from_values(ex.arange(3), offsets=offsets)
    offsets[1] = 2
    assert x.tolist() == [[0], [1, 2]]
    assert offsets.flags.writeable


def test_offsets_and_lengths_are_copies():
    x = ex.ragged([[1], [2, 3]])
    x.lengths().zero_()
    x.offsets().zero_()
    assert x.tolist() == [[1], [2, 3]]


def test_rows_know_their_lengths_and_where_each_element_is():
    rows = Rows.of_lengths([2, 0, 3])
    assert rows.offsets.tolist() == [0, 2, 2, 5]
    assert (rows.n, rows.total, rows.longest) == (3, 5, 3)
    assert rows.row_of.tolist() == [0, 0, 2, 2, 2]
    assert rows.place_of.tolist() == [0, 1, 0, 1, 2]
    assert rows.backwards.tolist() == [1, 0, 4, 3, 2]
    assert rows.times(2).lengths.tolist() == [4, 0, 6]
    assert Rows.of_lengths([]).longest == 0


@pytest.mark.parametrize("offsets", [[1, 2], [0, 2, 1], [], [[0, 1]]])
def test_offsets_that_are_none_are_refused(offsets):
    with pytest.raises(ShapeError, match="offsets must begin with 0 and never decrease"):
        Rows(np.array(offsets))


def test_lengths_that_are_none_are_refused():
    with pytest.raises(ShapeError, match="lengths must be a list of numbers that are not negative"):
        Rows.of_lengths([2, -1])


def test_a_row_that_is_too_short_is_named_with_what_to_do():
    rows = Rows.of_lengths([3, 1, 0])
    rows.require_elements("max", 0)
    with pytest.raises(ShapeError, match=r"^max: row 2 is empty, and so has no max; .* x\[x\.lengths\(\) >= 1\]"):
        rows.require_elements("max")
    with pytest.raises(IndexRangeError, match=r"^topk: row 1 has 1 elements, 2 are asked for"):
        rows.require_elements("topk", 2)
    Rows.of_lengths([]).require_elements("max")


def test_many_lengths_are_cut_in_messages():
    assert Rows.of_lengths([1, 2]).brief() == "[1, 2]"
    assert Rows.of_lengths(range(10)).brief() == "[0, 1, 2, 3, 4, 5, 6, 7, ...] (10 rows)"


def test_a_ragged_size_equals_that_of_the_same_lengths_and_is_no_number():
    a, b, c = (RaggedSize(Rows.of_lengths(lengths)) for lengths in ([1, 2], [1, 2], [2, 1]))
    assert a == b
    assert a != c
    assert hash(a) == hash(b)
    with pytest.raises(UnsupportedError, match="as one number, but each row has its own"):
        a + 1
