"""x[...] on ragged tensors equals the same on each row, values and gradients."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import extempo as ex
from extempo.errors import IndexRangeError, ShapeError, UnsupportedError

from .looped import FEW, LENGTHS, check_rows, ragged_leaf, same

sizes = st.lists(st.integers(0, 5), min_size=0, max_size=5)


def made(lengths, rest=(3,), dim=1):
    shape = [*rest]
    shape.insert(dim - 1, sum(lengths))
    return ex.ragged_from_values(ex.arange(float(np.prod(shape))).view(shape), lengths, dim=dim)


def lists(x):
    """Rows as nested lists, of a ragged tensor or a regular one."""
    return [row.tolist() for row in x]


def slices():
    ends = st.none() | st.integers(-6, 6)
    return st.builds(slice, ends, ends, st.none() | st.integers(1, 3))


@given(sizes, slices())
def test_slices_of_rows(lengths, key):
    x = made(lengths)
    assert lists(x[key]) == lists(x)[key]
    assert isinstance(x[key], ex.RaggedTensor)


@given(sizes, slices(), st.sampled_from([1, 2]))
def test_slices_inside_rows(lengths, key, dim):
    x = made(lengths, dim=dim)
    inside = (slice(None),) * (dim - 1) + (key,)
    assert lists(x[(slice(None), *inside)]) == [row[inside].tolist() for row in x]


@given(sizes.filter(bool), st.integers(-3, 2))
def test_one_place_of_every_row(lengths, place):
    x = made(lengths)
    if all(-n <= place < n for n in lengths):
        assert x[:, place].tolist() == [row[place].tolist() for row in x]
        assert x[:, place, 1:].tolist() == [row[place, 1:].tolist() for row in x]
    else:
        with pytest.raises(IndexRangeError, match=r"out of range for row .*select longer rows first"):
            x[:, place]


@given(sizes.filter(bool), st.data())
def test_rows_by_number_and_by_mask(lengths, data):
    x = made(lengths)
    numbers = data.draw(st.lists(st.integers(-len(lengths), len(lengths) - 1), max_size=6))
    for key in (numbers, ex.tensor(numbers, dtype=ex.int64), np.array(numbers, np.int64)):
        assert lists(x[key]) == [x[i].tolist() for i in numbers]
    mask = data.draw(st.lists(st.booleans(), min_size=len(lengths), max_size=len(lengths)))
    for key in (mask, ex.tensor(mask), np.array(mask)):
        assert lists(x[key]) == [row.tolist() for row, kept in zip(x, mask, strict=True) if kept]


@given(sizes)
def test_masks_of_elements(lengths):
    x = made(lengths)
    mask = x % 2 == 0
    expected = [v for row in x.tolist() for vector in row for v in vector if v % 2 == 0]
    assert x[mask].tolist() == expected


@FEW
@given(LENGTHS)
def test_gradients_of_what_is_picked_equal_those_of_a_loop_over_rows(lengths):
    x = ragged_leaf(lengths, 3)
    for key in ((slice(1, None),), (slice(None, None, 2), 1), (slice(-2, None), slice(None, 2))):
        check_rows(lambda x, key=key: x[key] if isinstance(x, ex.Tensor) else x[(slice(None), *key)], x)
    if lengths and min(lengths):
        for place in (0, -1, [0, -1]):
            check_rows(lambda x, place=place: x[place] if isinstance(x, ex.Tensor) else x[:, place], x)
        same(x[[0, -1], [0, -1]], ex.stack([x[0][0], x[-1][-1]]), [x])
    if lengths:
        same(x[[0, 0, -1]].values(), ex.cat([x[0], x[0], x[-1]]), [x])
        same(x[1:].values(), ex.cat([x[0][:0], *list(x)[1:]]), [x])
        same(x[x > 0.5], ex.cat([row[row > 0.5] for row in x]), [x])


def test_a_row_is_a_view_and_can_be_written_to():
    x = made([2, 1])
    x[0][1] = 7.0
    assert x[0, 1].tolist() == [7, 7, 7]
    x[1] = ex.zeros(1, 3)
    assert x[1].tolist() == [[0, 0, 0]]
    x[0, 0, 2] = -1.0
    assert x[0].tolist()[0][2] == -1
    x[x > 6.5] = 0.0
    assert x.values().max().item() < 6.5
    x[-1] = 9.0
    assert x[1].tolist() == [[9, 9, 9]]


def test_writes_are_seen_in_slices_of_rows():
    x = made([2, 1, 3])
    part = x[1:]
    x[1] = 5.0
    assert part[0].tolist() == [[5, 5, 5]]


def test_an_ellipsis_and_new_dimensions():
    x = made([2, 0, 1])
    assert lists(x[..., 0]) == [row[:, 0].tolist() for row in x]
    assert lists(x[:, :, None]) == [row[:, None].tolist() for row in x]
    assert lists(x[:, None]) == [row[None].tolist() for row in x]
    assert lists(x[...]) == lists(x)
    assert x[0, ..., 1].tolist() == x[0][:, 1].tolist()
    assert lists(x[..., -1:]) == [row[:, -1:].tolist() for row in x]
    assert lists(x[:, :, ex.tensor([2, 0])]) == [row[:, [2, 0]].tolist() for row in x]


def test_regular_dimensions_before_the_ragged_one():
    x = made([2, 3], rest=(4, 2), dim=2)
    assert lists(x[:, 1]) == [row[1].tolist() for row in x]
    assert lists(x[:, 1:3, :, 0]) == [row[1:3, :, 0].tolist() for row in x]
    assert x[:, :, 0].tolist() == [row[:, 0].tolist() for row in x]
    assert x[:, 1, -1].tolist() == [row[1, -1].tolist() for row in x]
    assert lists(x[:, :, 1:]) == [row[:, 1:].tolist() for row in x]


@pytest.mark.parametrize(
    ("key", "error", "message"),
    [
        (2, IndexRangeError, "row 2 is out of range for a ragged tensor of 2 rows"),
        (-3, IndexRangeError, "row -3 is out of range"),
        ([0, 5], IndexRangeError, "row 5 is out of range"),
        ((slice(None), 2), IndexRangeError, r"place 2 is out of range for row 0 of length 2 .*lengths \[2, 3\]"),
        ((0, 0, 0, 0), IndexRangeError, "4 indices"),
        ((slice(None),) * 4, IndexRangeError, "4 indices"),
        ([True], ShapeError, r"mask of rows must have shape \(2,\)"),
        ([0.5], IndexRangeError, "rows are picked by"),
        (None, UnsupportedError, "dimension 0 counts the rows"),
        (ex.ragged([[True], [False]]), ShapeError, "mask of bools with the same rows"),
        (ex.ragged([[1, 2], [3, 4, 5]]), ShapeError, "mask of bools with the same rows"),
        ((slice(None), ex.tensor([True, False])), UnsupportedError, "mask with the same rows"),
        (([0, 1], [1, 3]), IndexRangeError, "out of range for its row"),
        ("a", IndexRangeError, "rows are picked by"),
    ],
)
def test_wrong_keys_say_what_to_do(key, error, message):
    with pytest.raises(error, match=message):
        made([2, 3])[key]


def test_writing_to_parts_of_several_rows_is_refused():
    x = made([2, 3])
    for key in (slice(None), (slice(None), 0), [0, 1]):
        with pytest.raises(UnsupportedError, match="write to one row"):
            x[key] = 0.0
