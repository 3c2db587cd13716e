"""Tensors from data and from nothing: values, dtypes, memory, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.errors import DtypeError, ShapeError, UnsupportedError

# ---- from data


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (1, ex.int64),
        (1.0, ex.float32),
        (True, ex.bool),
        ([], ex.float32),
        ([[], []], ex.float32),
        ([True, 2], ex.int64),
        ([True, 2.5], ex.float32),
        ([1, 2.5], ex.float32),
        (range(3), ex.int64),
        (np.float64(3), ex.float64),
        ([np.float64(3)], ex.float64),
        ([np.float32(3), 1.0], ex.float32),
        ([np.int32(3), np.int8(1)], ex.int32),
        ([np.array([1.0, 2.0])], ex.float64),
        (np.arange(3, dtype=np.int16), ex.int16),
    ],
    ids=str,
)
def test_the_dtype_of_a_tensor_follows_its_data(data, dtype):
    assert ex.tensor(data).dtype is dtype


def test_tensors_inside_lists_keep_their_dtype():
    assert ex.tensor([ex.tensor(3.0, dtype=ex.float64)]).dtype is ex.float64
    mixed = ex.tensor([ex.tensor(3, dtype=ex.int32), 2.5])
    assert mixed.dtype is ex.float32
    assert mixed.tolist() == [3.0, 2.5]


def test_the_default_dtype_is_that_of_python_floats():
    ex.set_default_dtype(ex.float64)
    try:
        assert ex.tensor(1.5).dtype is ex.float64
        assert ex.zeros(2).dtype is ex.float64
        assert ex.arange(1.5).dtype is ex.float64
        assert ex.tensor(1).dtype is ex.int64
    finally:
        ex.set_default_dtype(ex.float32)


def test_tensor_always_copies_and_as_tensor_shares_where_it_can():
    array = np.zeros(2, np.float32)
    copied, shared = ex.tensor(array), ex.as_tensor(array)
    array[0] = 1
    assert copied.tolist() == [0, 0]
    assert shared.tolist() == [1, 0]
    x = ex.ones(2)
    assert ex.as_tensor(x) is x
    assert ex.as_tensor(x, dtype=ex.float64).dtype is ex.float64
    assert ex.tensor(x).data_ptr() != x.data_ptr()


def test_a_copy_of_a_tensor_is_outside_its_graph():
    x = ex.ones(2, requires_grad=True)
    assert not ex.tensor(x * 2).requires_grad


@pytest.mark.parametrize("data", [[[1], [2, 3]], (1, (2,)), ((1,), 2)])
def test_ragged_lists_are_refused_with_the_next_step(data):
    with pytest.raises(ShapeError, match="pad them"):
        ex.tensor(data)


@pytest.mark.parametrize("data", ["a", b"ab", None, ["a"], [None], {1, 2}])
def test_what_holds_no_numbers_is_refused(data):
    with pytest.raises(DtypeError, match="expected numbers"):
        ex.tensor(data)


@pytest.mark.parametrize("data", [1 + 2j, [1 + 2j]])
def test_complex_numbers_are_refused_by_name(data):
    with pytest.raises(UnsupportedError, match="real and imaginary parts"):
        ex.tensor(data)


@pytest.mark.parametrize("data", [2**63, [2**63], 2**70])
def test_integers_beyond_int64_are_refused(data):
    with pytest.raises(DtypeError, match="int64"):
        ex.tensor(data)


def test_numbers_that_do_not_fit_the_dtype_are_refused_and_negative_ones_wrap():
    with pytest.raises(DtypeError, match=r"300 does not fit into extempo\.uint8"):
        ex.tensor([300], dtype=ex.uint8)
    with pytest.raises(DtypeError, match="nan does not fit"):
        ex.tensor([float("nan")], dtype=ex.int64)
    assert ex.tensor([-1], dtype=ex.uint8).item() == 255
    assert ex.tensor(1.7, dtype=ex.int32).item() == 1
    assert ex.tensor([1e300]).item() == float("inf")
    assert ex.tensor(np.array([2**31]), dtype=ex.int32).item() == -(2**31)  # arrays wrap around


def test_only_floating_tensors_can_require_grad():
    assert ex.tensor([1.0], requires_grad=True).requires_grad
    with pytest.raises(DtypeError, match="only floating"):
        ex.zeros(2, dtype=ex.int32, requires_grad=True)


def test_asarray_copies_when_told_to_and_never_when_told_not_to():
    array = np.arange(3.0)
    assert ex.asarray(array).data_ptr() == array.ctypes.data
    assert ex.asarray(array, copy=True).data_ptr() != array.ctypes.data
    assert ex.asarray(array, copy=False).data_ptr() == array.ctypes.data
    with pytest.raises(ShapeError, match="without a copy"):
        ex.asarray([1.0], copy=False)
    with pytest.raises(ShapeError, match="without a copy"):
        ex.asarray(array, dtype=ex.float32, copy=False)
    assert ex.asarray([1.0, 2.0], requires_grad=True).requires_grad


def test_from_numpy_shares_memory_both_ways():
    array = np.arange(6.0).reshape(2, 3).T
    x = ex.from_numpy(array)
    assert x.stride() == (1, 3)
    x[0, 0] = 7
    assert array[0, 0] == 7
    array[2, 1] = 8
    assert x[2, 1].item() == 8
    with pytest.raises(DtypeError, match="from_numpy: expected a NumPy array"):
        ex.from_numpy([1])
    with pytest.raises(DtypeError, match="foreign order"):
        ex.from_numpy(np.arange(3, dtype=np.dtype(np.int32).newbyteorder()))
    assert ex.tensor(np.arange(3, dtype=np.dtype(np.int32).newbyteorder())).tolist() == [0, 1, 2]
    with pytest.raises(DtypeError, match="complex"):
        ex.from_numpy(np.zeros(2, np.complex64))


def test_a_read_only_array_can_be_read_but_not_written():
    array = np.arange(3.0)
    array.flags.writeable = False
    x = ex.from_numpy(array)
    assert (x + 1).tolist() == [1, 2, 3]
    with pytest.raises(ShapeError, match="read-only"):
        x.add_(1)
    assert array.tolist() == [0, 1, 2]


def test_frombuffer_looks_into_the_bytes():
    raw = bytearray(np.array([1, 2, 3], np.int32).tobytes())
    x = ex.frombuffer(raw, dtype=ex.int32)
    x[0] = 9
    assert np.frombuffer(raw, np.int32)[0] == 9
    assert ex.frombuffer(raw, dtype=ex.int32, count=1, offset=8).tolist() == [3]
    for options, text in [
        ({"offset": 99}, "outside of the buffer"),
        ({"offset": 1}, "no whole number"),
        ({"count": 0}, "must be positive"),
        ({"count": 9}, "exceed"),
    ]:
        with pytest.raises(ShapeError, match=text):
            ex.frombuffer(raw, dtype=ex.int32, **options)
    with pytest.raises(ShapeError, match="read-only"):
        ex.frombuffer(b"1234", dtype=ex.uint8).zero_()


# ---- of one value


# ---- number sequences


# ---- other devices


def test_only_the_cpu_holds_tensors():
    assert ex.zeros(2, device="cpu").device == ex.device("cpu")
    assert ex.zeros(2, device=ex.device("cpu", 0)).device == ex.device("cpu")
    with pytest.raises(UnsupportedError, match=r"zeros: Extempo runs on the CPU, there is no device 'cuda:1'"):
        ex.zeros(2, device="cuda:1")
    with pytest.raises(UnsupportedError, match="without memory"):
        ex.zeros(2, device="meta")
    with pytest.raises(UnsupportedError, match="strided"):
        ex.zeros(2, layout="sparse_coo")


def test_asarray_keeps_the_history_of_a_tensor_unless_told_not_to() -> None:
    x = ex.ones(2, requires_grad=True) * 2
    assert ex.asarray(x) is x
    assert ex.asarray(x, copy=True).grad_fn.name() == "CloneBackward"
    assert not ex.asarray(x, requires_grad=False).requires_grad
    constant = ex.ones(2)
    assert ex.asarray(constant, requires_grad=True).is_leaf
    assert not constant.requires_grad


def test_nested_lists_of_different_lengths_point_to_ragged():
    with pytest.raises(
        ShapeError, match=r"different lengths; ex\.ragged\(\.\.\.\) takes them as they are, or pad them"
    ):
        ex.tensor([[1, 2], [3]])
