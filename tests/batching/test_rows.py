"""Tables of rows: gathering and adding are what NumPy says, natively and without native code."""

from __future__ import annotations

import ctypes
import gc
import sys
import weakref

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extempo.backends.selection import native
from extempo.batching.rows import RowTable
from extempo.core.types import DTYPES
from extempo.errors import DtypeError, IndexRangeError, ShapeError

F32 = np.dtype(np.float32)
GUARD = 0xAB
BACKENDS = ["numpy"] if native() is None else ["native", "numpy"]

backends = pytest.mark.parametrize("backend", BACKENDS)
needs_native = pytest.mark.skipif(native() is None, reason="the native backend is off")


def table(backend):
    made = RowTable()
    if backend == "numpy":
        made._native = None
    return made


def bits(array):
    return np.asarray(array).tobytes()


def filled(rng, shape, dtype):
    return np.array(rng.normal(size=shape) * 50).astype(dtype)


def laid_out(array, layout):
    """The same values, lying differently in memory."""
    if layout == "strided" and array.ndim:
        wide = np.zeros((2 * len(array), *array.shape[1:]), array.dtype)
        wide[::2] = array
        return wide[::2]
    if layout == "columns":
        return np.asfortranarray(array)
    if layout == "backwards" and array.ndim:
        return np.ascontiguousarray(array[::-1])[::-1]
    return array


layouts = st.sampled_from(["rows", "rows", "strided", "columns", "backwards"])
row_shapes = st.one_of(
    st.lists(st.integers(0, 5), max_size=3).map(tuple), st.integers(0, 70).map(lambda k: (k,)), st.just((1031,))
)


@given(st.data())
@settings(max_examples=80, deadline=None)
@backends
def test_a_gather_gives_the_rows_of_the_numbers(backend, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    dtype, shape = data.draw(st.sampled_from(DTYPES)).numpy, data.draw(row_shapes)
    made, rows, sources = table(backend), {}, []
    for _ in range(data.draw(st.integers(1, 5))):
        n, way = data.draw(st.integers(0, 9)), data.draw(st.sampled_from(["add", "add_at", "add_one"]))
        if way == "add_one":
            number, array = data.draw(st.integers(0, 400)), filled(rng, shape, dtype)
            made.add_one(number, laid_out(array, data.draw(layouts)))
            rows[number] = array
            continue
        array = laid_out(filled(rng, (n, *shape), dtype), data.draw(layouts))
        sources.append((array, bits(array)))
        if way == "add":
            first, stride = data.draw(st.integers(0, 400)), data.draw(st.integers(1, 40))
            numbers = [first + stride * i for i in range(n)]
            made.add(first, array, stride)
        else:
            numbers = data.draw(st.lists(st.integers(0, 600), min_size=n, max_size=n, unique=True))
            made.add_at(data.draw(st.sampled_from([list, np.array]))(numbers), array)
        rows |= dict(zip(numbers, array, strict=True))
    wanted = data.draw(st.lists(st.sampled_from(sorted(rows)), max_size=12)) if rows else []
    if data.draw(st.booleans()):
        wanted.sort()
    for numbers in (wanted, np.array(wanted, np.int64)):
        got = made.gather(numbers, shape, dtype)
        assert got.shape == (len(wanted), *shape)
        assert got.dtype == dtype
        assert got.flags.c_contiguous
        assert bits(got) == b"".join(bits(rows[k]) for k in wanted)
    asked = [*wanted, 401 * 41, 7]
    assert made.has(asked).tolist() == made.has(np.array(asked)).tolist() == [k in rows for k in asked]
    for array, before in sources:
        assert bits(array) == before


@given(st.data())
@settings(max_examples=80, deadline=None)
@backends
def test_a_scatter_adds_in_the_order_of_the_numbers_and_nowhere_else(backend, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    dtype = np.dtype(data.draw(st.sampled_from([np.float32, np.float64, np.float16, ml_dtypes.bfloat16])))
    shape = data.draw(row_shapes)
    size = int(np.prod(shape))
    made, targets = table(backend), []
    for k in range(3):  # numbers 0 to 11; each array is the middle of a larger one
        whole = filled(rng, (4 * size + 64,), dtype)
        inside = laid_out(whole[32 : 32 + 4 * size].reshape(4, *shape), data.draw(st.sampled_from(["rows", "strided"])))
        made.add(k, inside, 3)
        targets.append((whole, whole.copy(), inside, inside.copy()))
    numbers = data.draw(st.lists(st.integers(0, 11), max_size=20))
    values = filled(rng, (len(numbers), *shape), dtype)
    given = values.copy()
    made.scatter_add(data.draw(st.sampled_from([list, lambda x: np.array(x, np.int64)]))(numbers), values)
    for k, value in zip(numbers, values, strict=True):
        expected = targets[k % 3][3]
        expected[k // 3] = expected[k // 3] + value
    for whole, before, inside, expected in targets:
        assert bits(inside) == bits(expected)
        assert bits(whole[:32]) == bits(before[:32])
        assert bits(whole[-32:]) == bits(before[-32:])
    assert bits(values) == bits(given)


@needs_native
@pytest.mark.parametrize("row", [1, 3, 4, 5, 8, 12, 31, 100])
def test_a_native_gather_writes_nothing_behind_its_rows(row):
    made, n = table("native"), 7
    array = np.arange(n * row, dtype=np.uint8).reshape(n, row)
    made.add(0, array)
    numbers = list(range(n))[::-1]
    probe = native().memory.empty(np.dtype(np.uint8), (n * row,), 1)  # its block is the next to be taken
    place, size = probe.ctypes.data, max(64, n * row + 1)
    block = (ctypes.c_ubyte * size).from_address(place)
    block[:] = [GUARD] * size
    del probe
    got = made.gather(np.array(numbers), (row,), array.dtype)
    assert got.ctypes.data == place
    assert got.tolist() == array[::-1].tolist()
    if n * row < 64:  # the size of the smallest block
        assert set(block[n * row :]) == {GUARD}


@backends
def test_rows_that_lie_one_after_the_other_are_not_copied(backend):
    made, array = table(backend), np.empty((6, 4), np.float32)
    array[...] = np.arange(24).reshape(6, 4)
    made.add(10, array, 2)
    got = made.gather([14, 16, 18], (2, 2), F32)
    assert np.shares_memory(got, array)
    assert got.tolist() == array[2:5].reshape(3, 2, 2).tolist()
    assert not np.shares_memory(made.gather([16, 14], (4,), F32), array)
    kept = weakref.ref(array)
    del array, made
    gc.collect()
    assert kept() is not None, "the view must keep its array alive"
    assert got[0].tolist() == [[8.0, 9.0], [10.0, 11.0]]


@backends
def test_neighbours_in_memory_that_belong_to_two_arrays_are_copied(backend):
    made, array = table(backend), np.arange(24, dtype=np.float32).reshape(6, 4)
    made.add(0, array[:3])
    made.add(3, array[3:])
    got = made.gather([2, 3], (4,), F32)
    assert not np.shares_memory(got, array)
    assert got.tolist() == array[2:4].tolist()


@backends
def test_a_view_of_rows_that_nobody_may_write_is_read_only(backend):
    made, array = table(backend), np.ones((3, 4), np.float32)
    array.flags.writeable = False
    made.add(0, array)
    assert not made.gather([0, 1], (4,), F32).flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        made.scatter_add([0], np.ones((1, 4), np.float32))


@backends
def test_a_row_for_all_may_be_given_by_broadcasting(backend):
    made = table(backend)
    made.add(0, np.broadcast_to(np.arange(3.0), (5, 3)))
    assert made.gather([0, 1, 4], (3,), np.dtype(np.float64)).tolist() == [[0.0, 1.0, 2.0]] * 3


@backends
def test_a_table_keeps_its_arrays(backend):
    made, array = table(backend), np.arange(3.0)
    kept = weakref.ref(array)
    made.add(0, array)
    del array
    gc.collect()
    assert kept() is not None
    assert made.gather([2, 0], (), np.dtype(np.float64)).tolist() == [2.0, 0.0]


@backends
def test_a_number_given_again_means_the_new_row(backend):
    made = table(backend)
    made.add(0, np.zeros((4, 2), np.float32))
    made.add_at([2, 1], np.array([[5, 5], [6, 6]], np.float32))
    made.add_one(3, np.array([[7], [7]], np.float32).T.reshape(2))
    assert made.gather([0, 1, 2, 3], (2,), F32)[:, 0].tolist() == [0.0, 6.0, 5.0, 7.0]


class _Shortening:
    """Converted to a C int, it empties the list that it stands in."""

    def __init__(self, numbers):
        self.numbers = numbers

    def __index__(self):
        self.numbers.clear()
        return 0


@backends
def test_wrong_arguments_are_errors_and_change_nothing(backend):
    made, array = table(backend), np.arange(8, dtype=np.float32).reshape(4, 2)
    made.add(0, array)
    ones = np.ones((1, 2), np.float32)
    wrong = [
        (DtypeError, lambda: made.gather([0.5], (2,), F32)),
        (DtypeError, lambda: made.gather(np.zeros((1, 1), np.int64), (2,), F32)),
        (DtypeError, lambda: made.gather([0, "a"], (2,), F32)),
        (DtypeError, lambda: made.gather([2**70], (2,), F32)),
        (DtypeError, lambda: made.gather([0], (2,), np.dtype(np.int32))),
        (IndexRangeError, lambda: made.gather([0, -1], (2,), F32)),
        (IndexRangeError, lambda: made.gather([0, 4], (2,), F32)),
        (IndexRangeError, lambda: made.gather([0, 100_000], (2,), F32)),
        (ShapeError, lambda: made.gather([0], (3,), F32)),
        (TypeError, lambda: made.gather([0], 2, F32)),
        (DtypeError, lambda: made.scatter_add([0], ones.astype(np.float64))),
        (ShapeError, lambda: made.scatter_add([0], np.ones((1, 3), np.float32))),
        (ShapeError, lambda: made.scatter_add([0, 1], ones)),
        (IndexRangeError, lambda: made.scatter_add([0, 9], np.ones((2, 2), np.float32))),
        (AttributeError, lambda: made.scatter_add([0], [[1.0, 1.0]])),
        (IndexRangeError, lambda: made.add(-1, array)),
        (IndexRangeError, lambda: made.add(0, array, 0)),
        (TypeError, lambda: made.add(0, np.float32(1))),
        (ShapeError, lambda: made.add_at([0], array)),
        (IndexRangeError, lambda: made.add_at([0, 1, 2, -3], array)),
        (IndexRangeError, lambda: made.has([-1])),
    ]
    for error, call in wrong:
        with pytest.raises(error):
            call()
    assert made.gather([0, 1, 2, 3], (2,), F32).tolist() == np.arange(8.0).reshape(4, 2).tolist()
    made.scatter_add([1], np.ones((2, 1), np.float32).T)  # any layout of values will do
    made.scatter_add([2], np.ones((1, 4), np.float32)[:, ::2])
    assert array.tolist() == [[0.0, 1.0], [3.0, 4.0], [5.0, 6.0], [6.0, 7.0]]


@needs_native
@pytest.mark.parametrize("dtype", [d.numpy for d in DTYPES], ids=str)
@pytest.mark.parametrize("layout", ["rows", "strided", "backwards"])
def test_rows_that_are_runs_of_memory_are_moved_natively(layout, dtype):
    made, array = table("native"), laid_out(np.ones((4, 3), dtype), layout)
    made.add(0, array)
    made.add_at([9, 2], np.ones((2, 3), dtype))
    columns = np.array([[3, 7], [0, 2], [9, 1]])
    for numbers in ([0, 9, 2], [1, 2], np.array([3, 0]), columns[:, 0], columns[1:, 1][::-1]):
        assert made._native.gather(made._places, made._arrays, numbers, (3,), dtype, dtype.itemsize) is not None
        added = made._native.add(made._places, numbers, np.ones((len(numbers), 3), dtype), dtype.itemsize, None, None)
        assert added is (dtype in (np.float32, np.float64))
    assert made._native.has(made._places, [0, 5, 2**62], np.dtype(bool)).tolist() == [True, False, False]


@needs_native
def test_a_list_that_changes_while_it_is_read_does_no_harm():
    made = table("native")
    made.add(0, np.zeros((4, 2), np.float32))
    numbers = [0, 0, 0]
    numbers[1] = _Shortening(numbers)
    assert made.gather(numbers, (2,), F32).tolist() == []


@needs_native
def test_native_calls_leave_no_references_and_no_memory_behind():
    made, array = table("native"), native().memory.empty(F32, (6, 4), 4)
    array[...] = 1.0
    made.add(0, array)
    values, numbers = np.ones((2, 4), np.float32), [300, 2]
    made.add_one(300, np.ones(4, np.float32))
    held, in_use = sys.getrefcount(F32), native().memory.stats()["bytes_in_use"]
    counts = [sys.getrefcount(x) for x in (array, values, numbers, made._arrays, made._places)]
    for _ in range(100):
        made.gather([1, 2], (4,), F32)
        made.gather(numbers, (4,), F32)
        made.scatter_add(numbers, values)
        made.has(numbers)
        for wrong in ([1, 5000], [1, "a"]):
            assert made._native.gather(made._places, made._arrays, wrong, (4,), F32, 4) is None
            assert made._native.add(made._places, wrong, values, 4) is False
    assert sys.getrefcount(F32) == held
    assert native().memory.stats()["bytes_in_use"] == in_use
    assert counts == [sys.getrefcount(x) for x in (array, values, numbers, made._arrays, made._places)]


@backends
def test_a_scatter_marks_the_slots_of_what_it_adds_to(backend):
    made, slots, marks = table(backend), np.full(256, -1, np.int64), np.zeros(3, np.uint8)
    made.add(0, np.zeros((6, 2), np.float32))
    slots[[0, 1, 4]] = 2, 2, 0
    made.scatter_add([1, 3, 1], np.ones((3, 2), np.float32), slots, marks)
    assert marks.tolist() == [0, 0, 1]
    made.scatter_add(np.array([4]), np.ones((1, 2), np.float32), slots, marks)
    assert marks.tolist() == [1, 0, 1]
    np.testing.assert_array_equal(made.gather([0, 1, 3, 4], (2,), np.dtype(np.float32))[:, 0], [0, 2, 1, 1])


@backends
@pytest.mark.parametrize("layout", ["rows", "strided", "columns"])
def test_whole_arrays_are_rows_of_their_numbers(backend, layout):
    made, rng = table(backend), np.random.default_rng(0)
    arrays = [laid_out(filled(rng, (4, 3), F32), layout) for _ in range(3)]
    read_only = filled(rng, (4, 3), F32)
    read_only.flags.writeable = False
    made.add(0, np.zeros((2, 5), np.float32))
    made.add_each([2, 300, 700], [arrays[0], read_only, arrays[1]])
    made.add_each([5], [arrays[2]])
    rows = made.gather([700, 5, 300, 2], (4, 3), F32)
    assert bits(rows) == bits(np.stack([arrays[1], arrays[2], read_only, arrays[0]]))
    assert made.has([2, 3, 5, 300, 301, 700]).tolist() == [True, False, True, True, False, True]
    with pytest.raises(ValueError, match="read-only"):
        made.scatter_add([300], np.ones((1, 4, 3), np.float32))


@backends
def test_some_of_the_numbers_fill_rows_and_are_added_to(backend):
    made, rng = table(backend), np.random.default_rng(0)
    source = filled(rng, (9, 5), F32)
    made.add(0, source)
    numbers = np.array([8, 0, 3, 3, 7, 1], np.int64)
    out = np.full((8, 5), 7, F32)
    made.fill(numbers, out, 2, 5)
    assert bits(out[2:5]) == bits(source[numbers[2:5]])
    assert (out[:2] == 7).all()
    assert (out[5:] == 7).all()
    expected, values = source.copy(), filled(rng, (3, 5), F32)
    np.add.at(expected, numbers[2:5], values)
    slots, marks = np.arange(9), np.zeros(9, np.uint8)
    made.add_from(2, numbers, values, slots, marks)
    assert bits(source) == bits(expected)
    assert marks.tolist() == [0, 0, 0, 1, 0, 0, 0, 1, 0]
    with pytest.raises(IndexRangeError):
        made.fill(np.array([0, 99], np.int64), out, 0, 2)


# ---- parts and pieces


@backends
def test_parts_of_rows_are_gathered_and_added_to(backend):
    rng = np.random.default_rng(0)
    whole = filled(rng, (3, 4, 2), F32)
    made = table(backend)
    made.add_at([5, 2, 9], whole)
    # (number, row, first byte, bytes): rows of a matrix, one that is not there yet, an empty one
    words = np.array([[20, 2, 8, 8], [21, 2, 16, 8], [22, 9, 0, 16], [23, 77, 0, 8], [24, 5, 4, 0]])
    made.add_parts(words)
    assert made.has([20, 21, 22, 23]).tolist() == [True, True, True, False]
    assert bits(made.gather([20, 21], (2,), F32)) == bits(whole[1, 1:3])
    assert bits(made.gather(np.array([21, 20]), (2,), F32)) == bits(whole[1, 2:0:-1].copy())
    assert bits(made.gather([22], (2, 2), F32)) == bits(whole[2, :2])
    expected = whole.copy()
    expected[1, 1] += 1
    expected[1, 1] += 1
    made.scatter_add([20, 20], np.ones((2, 2), np.float32))
    assert bits(whole) == bits(expected)


@backends
def test_parts_of_nothing_are_nothing(backend):
    made = table(backend)
    made.add_one(3, np.empty((0, 4), np.float32))
    made.add_pieces([5], np.array([0]), np.empty((0, 4), np.float32))
    made.add_parts(np.array([[8, 3, 0, 0], [9, 5, 0, 0]]))
    assert made.gather([8, 9], (0, 2), F32).shape == (2, 0, 2)


@needs_native
def test_a_part_that_native_code_declines_to_gather_is_gathered_all_the_same():
    made = RowTable()
    whole = np.arange(8.0, dtype=np.float32).reshape(2, 4)
    made.add_at([0, 1], whole)
    made.add_parts(np.array([[5, 1, 4, 8], [6, 0, 8, 8]]))
    made.add_one(7, np.array([8.0, 9.0], np.float32))
    made._native = None
    assert made.gather([5, 6, 7], (2,), F32).tolist() == [[5.0, 6.0], [2.0, 3.0], [8.0, 9.0]]


@backends
@settings(max_examples=40, deadline=None)
@given(counts=st.lists(st.integers(0, 4), min_size=1, max_size=6), seed=st.integers(0, 99))
def test_pieces_of_different_length_are_gathered_and_added_to(backend, counts, seed):
    rng = np.random.default_rng(seed)
    counts = np.array(counts, np.int64)
    numbers = rng.permutation(20)[: len(counts)]
    rows = filled(rng, (counts.sum(), 3), F32)
    made = table(backend)
    made.add_pieces(numbers, counts, rows)
    order = rng.permutation(len(counts))
    pieces = [rows[end - n : end] for n, end in zip(counts, np.cumsum(counts), strict=True)]
    got = made.gather_pieces(numbers[order], counts[order], (3,), F32)
    assert bits(got) == bits(np.concatenate([pieces[i] for i in order]))
    more = filled(rng, rows.shape, F32)
    expected = rows.copy()
    ends = np.cumsum(counts)
    start = 0
    for i in order:
        expected[ends[i] - counts[i] : ends[i]] += more[start : start + counts[i]]
        start += counts[i]
    slots, marks = np.arange(256), np.zeros(256, np.uint8)
    made.scatter_add_pieces(numbers[order], counts[order], more, slots, marks)
    assert bits(rows) == bits(expected)
    assert set(np.flatnonzero(marks).tolist()) == set(numbers.tolist())


@backends
def test_wrong_pieces_are_refused(backend):
    made = table(backend)
    with pytest.raises(ShapeError, match="pieces"):
        made.add_pieces([1, 2], np.array([1, 1]), np.ones((3, 2), np.float32))
    made.add_pieces([1], np.array([2]), np.ones((2, 2), np.float32))
    with pytest.raises(ShapeError):
        made.gather_pieces([1], np.array([3]), (2,), F32)
    with pytest.raises(IndexRangeError):
        made.gather_pieces([3], np.array([1]), (2,), F32)


@backends
def test_a_number_that_is_forgotten_has_no_row(backend):
    rows = table(backend)
    rows.add(0, np.arange(12, dtype=np.float32).reshape(4, 3))
    rows.forget([1, 3, 10_000])
    assert rows.has([0, 1, 2, 3]).tolist() == [True, False, True, False]
    with pytest.raises(IndexRangeError, match="nothing has the number 3"):
        rows.gather([0, 3], (3,), F32)
    rows.add(3, np.ones((1, 3), np.float32))
    np.testing.assert_array_equal(rows.gather([3, 2], (3,), F32), [[1, 1, 1], [6, 7, 8]])


@backends
def test_the_bytes_of_arrays_that_were_added(backend):
    rows = table(backend)
    rows.add(0, np.zeros((4, 3), np.float32))
    rows.add(4, np.zeros((2, 3), np.float64))
    assert rows.n_arrays == 2
    assert rows.bytes_of(0) == 96
    assert rows.bytes_of(1) == 48
    assert rows.bytes_of(2) == 0
