"""Lists of Arrow and awkward-array as ragged tensors, on the same memory."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import extempo as ex
from extempo.errors import DtypeError, ShapeError, UnsupportedError

WHY = "needs the libraries that hand the lists over: pip install -e '.[test]'"


@pytest.fixture
def pa():
    return pytest.importorskip("pyarrow", reason=WHY)


@pytest.fixture
def ak():
    return pytest.importorskip("awkward", reason=WHY)


def address(x: ex.RaggedTensor) -> int:
    return x.values().data_ptr()


class OnlyCapsules:
    """What a library without NumPy shows: nothing but the interface."""

    def __init__(self, array):
        self._array = array

    def __arrow_c_array__(self, requested_schema=None):
        return self._array.__arrow_c_array__(requested_schema)


LISTS = [[1, 2, 3], [], [4], [5, 6]]


@pytest.mark.parametrize("kind", ["list_", "large_list"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64"])
def test_lists_are_taken_over_without_a_copy(pa, kind, dtype):
    array = pa.array([np.array(row, dtype) for row in LISTS], getattr(pa, kind)(getattr(pa, dtype)()))
    x = ex.ragged(array)
    assert x.tolist() == LISTS
    assert x.dtype is getattr(ex, dtype)
    assert address(x) == array.values.buffers()[1].address


def test_a_library_needs_to_offer_nothing_but_the_capsules(pa):
    array = pa.array(LISTS)
    x = ex.ragged(OnlyCapsules(array))
    assert x.tolist() == LISTS
    assert address(x) == array.values.buffers()[1].address


def test_the_memory_lives_as_long_as_the_tensor(pa):
    before = pa.total_allocated_bytes()
    array = pa.array([[1.0] * 1000, [2.0] * 1000])
    x = ex.ragged(array)
    del array
    assert pa.total_allocated_bytes() >= before + 16000
    assert x.values().numpy().sum() == 3000
    del x
    assert pa.total_allocated_bytes() < before + 16000


@pytest.mark.parametrize(("start", "stop"), [(0, 4), (1, 4), (1, 3), (2, 3), (3, 4), (1, 2), (2, 2)])
def test_slices_of_arrays(pa, start, stop):
    for kind in (
        pa.list_(pa.int64()),
        pa.large_list(pa.int64()),
        pa.list_(pa.bool_()),
        pa.list_(pa.list_(pa.int8(), 2)),
    ):
        rows = LISTS if kind.value_type == pa.int64() else [[v % 2 == 0 for v in row] for row in LISTS]
        if pa.types.is_fixed_size_list(kind.value_type):
            rows = [[[v, -v] for v in row] for row in LISTS]
        array = pa.array(rows, kind)
        assert ex.ragged(array[start:stop]).tolist() == rows[start:stop]


def test_a_slice_of_an_array_shares_its_memory(pa):
    array = pa.array(LISTS)
    assert address(ex.ragged(array[2:])) == array.values.buffers()[1].address + 3 * 8


def test_fixed_size_lists_are_regular_dimensions(pa):
    kind = pa.list_(pa.list_(pa.list_(pa.float32(), 2), 3))
    rows = [np.arange(6 * n, dtype=np.float32).reshape(n, 3, 2).tolist() for n in (2, 0, 3)]
    x = ex.ragged(pa.array(rows, kind))
    assert tuple(x.values().shape) == (5, 3, 2)
    assert x.tolist() == rows
    for start in (0, 1, 2):
        assert ex.ragged(pa.array(rows, kind)[start:]).tolist() == rows[start:]


def test_an_array_of_fixed_size_lists_has_rows_of_one_length(pa):
    array = pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.int64(), 2))
    assert ex.ragged(array[1:]).tolist() == [[3, 4], [5, 6]]
    assert address(ex.ragged(array)) == array.values.buffers()[1].address


@pytest.mark.parametrize(("given", "dtype"), [("uint16", "int32"), ("uint32", "int64"), ("bool_", "bool")])
def test_kinds_that_tensors_lack_are_copied_into_wider_ones(pa, given, dtype):
    rows = [[1, 0], [], [1]] if given != "bool_" else [[True, False] * 7, [], [True]]
    x = ex.ragged(pa.array(rows, pa.list_(getattr(pa, given)())))
    assert x.tolist() == rows
    assert x.dtype is getattr(ex, dtype)


def test_chunks_are_joined_and_a_single_one_is_not_copied(pa):
    one = pa.chunked_array([LISTS])
    if ex.backends.stats()["backend"] != "numpy":  # native code releases it when the tensor goes
        assert address(ex.ragged(one)) == one.chunk(0).values.buffers()[1].address
    assert ex.ragged(one).tolist() == LISTS
    several = pa.chunked_array([LISTS, [], LISTS[:2]], pa.list_(pa.int64()))
    assert ex.ragged(several).tolist() == LISTS + LISTS[:2]
    none = pa.chunked_array([], pa.list_(pa.list_(pa.float32(), 2)))
    assert (len(ex.ragged(none)), tuple(ex.ragged(none).values().shape)) == (0, (0, 2))


def test_a_chunk_of_a_stream_is_released_with_its_tensor_and_no_python_runs(pa):
    """An interrupt that came in there would be lost."""
    before, called = pa.total_allocated_bytes(), []
    stream = pa.chunked_array([[[float(i)] * 1000 for i in range(100)]])
    x = ex.ragged(stream)
    del stream
    tracing = sys.gettrace()
    sys.settrace(lambda frame, event, arg: called.append(frame.f_code.co_name))
    try:
        del x
    finally:
        sys.settrace(tracing)
    assert called == []
    assert pa.total_allocated_bytes() == before


def test_a_column_of_a_table(pa):
    table = pa.table({"ids": LISTS, "n": [1, 2, 3, 4]})
    assert ex.ragged(table["ids"]).tolist() == LISTS
    with pytest.raises(DtypeError, match="pass one of its columns"):
        ex.ragged(table)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[1], None, [2]], "1 rows are null, the first is row 1"),
        ([[1, None], [None]], "2 elements are null, the first is element 1"),
        ([["a"], ["b"]], "no kind of number"),
        ([1, 2], "expected an Arrow array of lists"),
        (["ab", "c"], "expected an Arrow array of lists"),
    ],
)
def test_what_cannot_be_a_tensor_says_why(pa, rows, message):
    with pytest.raises(DtypeError, match=message):
        ex.ragged(pa.array(rows))


def test_nulls_outside_of_a_slice_do_not_matter(pa):
    array = pa.array([[None], [1, 2], None, [3]])
    assert ex.ragged(array[1:2]).tolist() == [[1, 2]]
    assert ex.ragged(array[3:]).tolist() == [[3]]


def test_two_ragged_levels_say_how_to_go_on(pa):
    with pytest.raises(ShapeError, match="one ragged dimension; keep the inner rows"):
        ex.ragged(pa.array([[[1], [2, 3]], [[4]]]))
    with pytest.raises(DtypeError, match="decode them first"):
        ex.ragged(pa.ListArray.from_arrays([0, 1, 2], pa.array(["a", "b"]).dictionary_encode()))


def test_memory_of_arrow_is_not_written_to(pa):
    array = pa.array([[1.0, 2.0], [3.0]])
    x = ex.ragged(array)
    with pytest.raises(ShapeError, match="read-only"):
        x += 1
    assert array.to_pylist() == [[1.0, 2.0], [3.0]]
    y = ex.ragged(array, requires_grad=True, dtype=ex.float32)  # a copy, and a leaf
    assert y.requires_grad
    assert y.dtype is ex.float32


def test_the_way_back_shares_memory_too(pa):
    x = ex.ragged([ex.randn(2, 3), ex.randn(0, 3), ex.randn(1, 3)])
    array = x.to_arrow()
    assert array.to_pylist() == x.tolist()
    assert array.values.values.buffers()[1].address == address(x)
    assert pa.array(x).to_pylist() == x.tolist()  # by the capsules
    assert ex.ragged(array).tolist() == x.tolist()
    assert address(ex.ragged(array)) == address(x)
    with pytest.raises(UnsupportedError, match="transpose it"):
        x.transpose(1, 2).to_arrow()
    with pytest.raises(DtypeError, match=r"use x\.float\(\)"):
        x.bfloat16().to_arrow()
    with pytest.raises(ShapeError, match="lists of size 0"):
        x[..., :0].to_arrow()


@given(st.data())
def test_any_slice_of_any_lists_is_what_arrow_says_it_is(data):
    pa = pytest.importorskip("pyarrow", reason=WHY)
    inner = data.draw(st.sampled_from(["int8", "float32", "bool_", "uint16", "pair"]))
    element = st.booleans() if inner == "bool_" else st.integers(0, 9)
    kind = pa.list_(pa.float64(), 2) if inner == "pair" else getattr(pa, inner)()
    element = st.tuples(element, element).map(list) if inner == "pair" else element
    rows = data.draw(st.lists(st.lists(element, max_size=4), max_size=8))
    outer = data.draw(st.sampled_from([pa.list_, pa.large_list]))
    array = pa.array(rows, outer(kind))
    start, stop = sorted(data.draw(st.tuples(st.integers(0, 8), st.integers(0, 8))))
    for part in (array[start:stop], pa.chunked_array([array[:start], array[start:stop]], array.type)):
        assert ex.ragged(part).tolist() == part.to_pylist()
        assert ex.ragged(ex.ragged(part).to_arrow()).tolist() == part.to_pylist()


def test_lists_of_nanoarrow(pa):
    na = pytest.importorskip("nanoarrow", reason=WHY)
    array = na.c_array(pa.array(LISTS))
    assert ex.ragged(array).tolist() == LISTS


# ---- awkward


def test_awkward_arrays_are_taken_over_without_a_copy(ak):
    array = ak.Array([[1.5, 2.5], [], [3.5]])
    x = ex.ragged(array)
    assert x.tolist() == [[1.5, 2.5], [], [3.5]]
    assert address(x) == array.layout.content.data.ctypes.data
    part = ex.ragged(array[2:])
    assert part.tolist() == [[3.5]]


def test_awkward_lists_of_every_make(ak):
    array = ak.Array([[1, 2, 3], [], [4], [5, 6]])
    assert ex.ragged(array[[3, 0]]).tolist() == [[5, 6], [1, 2, 3]]
    assert ex.ragged(array[array > 2]).tolist() == [[3], [], [4], [5, 6]]
    assert ex.ragged(array[:0]).tolist() == []
    assert ex.ragged(ak.Array([[], []])).tolist() == [[], []]
    assert ex.ragged(ak.to_regular(ak.Array([[1, 2], [3, 4]]))).tolist() == [[1, 2], [3, 4]]
    pairs = ak.to_regular(ak.Array([[[1, 2]], [[3, 4], [5, 6]]]), axis=2)
    assert ex.ragged(pairs).tolist() == [[[1, 2]], [[3, 4], [5, 6]]]
    assert ex.ragged(pairs[1:]).tolist() == [[[3, 4], [5, 6]]]
    assert ex.ragged(ak.Array(np.ones((2, 3)))).tolist() == [[1.0] * 3] * 2
    assert ex.ragged(ak.values_astype(array, "uint16")).dtype is ex.int32


def test_awkward_arrays_that_cannot_be_a_tensor_say_why(ak):
    with pytest.raises(DtypeError, match="1 values of the awkward array are missing"):
        ex.ragged(ak.Array([[1, None], [2]]))
    with pytest.raises(DtypeError, match="1 values of the awkward array are missing"):
        ex.ragged(ak.Array([[1], None]))
    with pytest.raises(ShapeError, match="one ragged dimension"):
        ex.ragged(ak.Array([[[1], [2, 3]], [[4]]]))
    with pytest.raises(DtypeError, match="expected an awkward array of lists"):
        ex.ragged(ak.Array([1, 2]))
    with pytest.raises(DtypeError, match="pass one field"):
        ex.ragged(ak.Array([[{"a": 1}], []]))


def test_the_way_back_to_awkward_shares_memory(ak):
    x = ex.ragged([ex.randn(2, 3), ex.randn(0, 3)])
    array = x.to_awkward()
    assert array.to_list() == x.tolist()
    assert address(ex.ragged(array)) == address(x)
