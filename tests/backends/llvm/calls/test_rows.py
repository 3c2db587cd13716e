"""Rows of arrays by numbers, straight at the native functions: they move rows, or decline and change nothing."""

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from extempo.backends.llvm.calls.rows_call import WORDS
from extempo.backends.selection import native

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)

ROWS = native().rows()
FLOAT, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)


def table(*arrays, n_places=20):
    """Places for the rows of the arrays, numbered one after the other, and the arrays."""
    places, first = np.zeros((n_places, WORDS), np.int64), 0
    for k, array in enumerate(arrays):
        assert ROWS.put(places, first, 1, array, array.itemsize, k)
        first += len(array)
    return places, list(arrays)


def gather(places, arrays, numbers, shape, dtype=FLOAT):
    return ROWS.gather(places, arrays, numbers, shape, dtype, dtype.itemsize)


@pytest.mark.parametrize("width", [1, 2, 7, 8, 9, 33])
def test_rows_are_gathered_from_several_arrays(width):
    rng = np.random.default_rng(width)
    x, y = (rng.normal(size=(n, width)).astype(np.float32) for n in (5, 4))
    places, arrays = table(x, y)
    numbers = [8, 0, 5, 5, 2]
    for given in (numbers, np.array(numbers), np.repeat(numbers, 2)[::2]):
        np.testing.assert_array_equal(gather(places, arrays, given, (width,)), np.concatenate([x, y])[numbers])


def test_neighbours_are_a_view_of_their_array():
    x = np.arange(12, dtype=np.float32).reshape(6, 2)
    places, arrays = table(x)
    assert np.shares_memory(gather(places, arrays, [2, 3, 4], (2,)), x)
    assert not np.shares_memory(gather(places, arrays, [2, 4, 3], (2,)), x)


@pytest.mark.parametrize("numbers", [[], [20], [-1], [2**70], ["a"], np.array([0.0]), (0, 1), [7]])
def test_numbers_that_are_none_or_have_no_row_are_declined(numbers):
    places, arrays = table(np.ones((3, 2), np.float32))
    assert gather(places, arrays, numbers, (2,)) is None


def test_rows_of_another_dtype_or_size_are_declined():
    places, arrays = table(np.ones((3, 2), np.float32))
    assert gather(places, arrays, [0, 1], (2,), DOUBLE) is None
    assert gather(places, arrays, [0, 1], (3,)) is None
    assert gather(places, arrays, [0, 1], [2]) is None


@pytest.mark.parametrize("dtype", [FLOAT, DOUBLE])
@pytest.mark.parametrize("width", [1, 7, 8, 9, 33])
def test_values_are_added_in_the_order_of_the_numbers(width, dtype):
    rng = np.random.default_rng(width)
    x, values = rng.normal(size=(5, width)).astype(dtype), rng.normal(size=(4, width)).astype(dtype)
    places, _ = table(x)
    numbers, expected = [3, 1, 3, 3], x.copy()
    for number, value in zip(numbers, values, strict=True):
        expected[number] += value
    assert ROWS.add(places, numbers, values, dtype.itemsize, None, None)
    np.testing.assert_array_equal(x, expected)


def test_adding_marks_the_slots_of_its_numbers():
    x = np.zeros((4, 2), np.float32)
    places, _ = table(x)
    slots, marks = np.full(20, -1), np.zeros(3, np.uint8)
    slots[[0, 1, 2]] = 0, 2, -1
    assert ROWS.add(places, [1, 2], np.ones((2, 2), np.float32), 4, slots, marks)
    assert marks.tolist() == [0, 0, 1]


def test_what_may_not_be_written_is_not_added_to():
    x = np.zeros((3, 2), np.float32)
    x.flags.writeable = False
    places, _ = table(x)
    assert not ROWS.add(places, [0], np.ones((1, 2), np.float32), 4, None, None)
    assert not ROWS.add(places, [0], np.ones((2, 2), np.float32), 4, None, None)
    assert not x.any()


def test_rows_whose_elements_are_apart_get_no_numbers():
    places = np.zeros((5, WORDS), np.int64)
    assert not ROWS.put(places, 0, 1, np.zeros((3, 8), np.float32)[:, ::2], 4, 0)
    assert not ROWS.put(places, 3, 1, np.zeros((3, 2), np.float32), 4, 0)  # more rows than places
    assert not places.any()
    assert ROWS.put(places, 0, 2, np.zeros((3, 8), np.float32)[:, :4], 4, 0)
    assert (places[[0, 2, 4]] != 0).any(axis=1).all()


def test_some_of_the_numbers_fill_rows_of_an_array():
    x, out = np.arange(10, dtype=np.float32).reshape(5, 2), np.zeros((4, 2), np.float32)
    places, _ = table(x)
    assert ROWS.fill(places, np.array([4, 3, 2, 1]), out, 4, 1, 3)
    np.testing.assert_array_equal(out, [[0, 0], x[3], x[2], [0, 0]])
    assert not ROWS.fill(places, np.array([4, 3]), out, 4, 0, 5)


def test_places_say_whether_something_is_there():
    places, _ = table(np.ones((2, 2), np.float32), n_places=4)
    found = ROWS.has(places, [0, 3, 1], np.dtype(bool))
    assert found.tolist() == [True, False, True]
