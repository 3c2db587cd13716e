"""Damaged and hostile files: a clear error, bounded memory, nothing executed."""

from __future__ import annotations

import contextlib
import io
import pickle
import random
import struct
import tracemalloc

import pytest

import extempo as ex
from extempo.errors import ExtempoError
from extempo.serialization import FileFormatError, load, save

from .raw_files import FLOATS, W, described, raw_file, sample


def values_of(obj) -> str:
    return repr(sorted(obj.items()))


# ---- accidents


def test_every_truncation_is_an_error_that_names_the_cause():
    data = sample()
    for length in range(len(data)):
        with pytest.raises(FileFormatError, match=r"damaged or cut short|neither a file|nothing to read"):
            load(io.BytesIO(data[:length]))
    with pytest.raises(FileFormatError, match="accounts for"):
        load(io.BytesIO(data + b"\0"))


def test_a_flipped_bit_is_an_error_or_changes_nothing():
    data = sample()
    whole = values_of(load(io.BytesIO(data)))
    rng = random.Random(0)
    silent = 0
    for _ in range(1500):
        bit = rng.randrange(len(data) * 8)
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            back = load(io.BytesIO(bytes(damaged)))
        except ExtempoError:
            continue
        # Without the key of the description it is a file of another program: the tensors alone.
        if back.keys() == {"w", "flags"}:
            assert back["w"].tolist() == list(range(8))
            continue
        silent += 1
        assert values_of(back) == whole
    assert silent < 30


def test_flipped_values_are_found_by_their_checksum():
    data = bytearray(sample())
    data[-9] ^= 4
    with pytest.raises(FileFormatError, match="values of tensor 'w' are not those that were saved"):
        load(io.BytesIO(bytes(data)))


# ---- intent


@pytest.mark.parametrize(
    "window",
    [
        {"offset": 4, "shape": [2], "strides": [4]},
        {"offset": -4, "shape": [1], "strides": [4]},
        {"offset": 0, "shape": [2], "strides": [-4]},
        {"offset": 0, "shape": [2], "strides": [2]},
        {"offset": 0, "shape": [2**40], "strides": [4]},
        {"offset": 0, "shape": [2**40, 2**40], "strides": [0, 0]},
        {"offset": 0, "shape": [2], "strides": []},
        {"offset": 0.5, "shape": [1], "strides": [4]},
        {"offset": 0, "shape": "ab", "strides": "ab"},
        {"offset": 0},
        [],
        3,
    ],
    ids=str,
)
def test_a_window_outside_of_its_memory_is_refused(window):
    row = {"type": "tensor", "data": "w", "dtype": "F32", "window": window}
    with pytest.raises(FileFormatError, match="a part of 'w' does not fit"):
        load(io.BytesIO(described(1, [row], arrays=FLOATS, data=b"\0" * 8)))


def test_a_window_of_an_unknown_dtype_is_refused():
    window = {"offset": 0, "shape": [1], "strides": [4]}
    row = {"type": "tensor", "data": "w", "dtype": "object", "window": window}
    with pytest.raises(FileFormatError, match="does not fit"):
        load(io.BytesIO(described(1, [row], arrays=FLOATS, data=b"\0" * 8)))


def test_memory_stays_in_proportion_to_the_file():
    rows = [{"type": "array", "data": "w"}] * 10_000
    arrays = {"w": {"dtype": "U8", "shape": [100_000], "data_offsets": [0, 100_000]}}
    files = [
        raw_file({"w": {"dtype": "U8", "shape": [2**40], "data_offsets": [0, 2**40]}}),
        described([1], rows, arrays=arrays, data=b"\0" * 100_000),
        struct.pack("<Q", 99_999_999) + b"{}",
    ]
    tracemalloc.start()
    try:
        for data in files:
            with contextlib.suppress(ExtempoError):
                load(io.BytesIO(data))
        assert tracemalloc.get_traced_memory()[1] < 60 * max(map(len, files))
    finally:
        tracemalloc.stop()


def test_a_window_on_other_bytes_than_0_and_1_is_not_boolean():
    bytes_ = {"w": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]}}
    for offset in (0, 2):
        window = {"offset": offset, "shape": [1], "strides": [1]}
        file = io.BytesIO(described({"$": "object", "number": 0}, [{**W, "dtype": "BOOL", "window": window}],
                                    arrays=bytes_, data=b"\2\0\1"))  # fmt: skip
        if offset:
            assert load(file).tolist() == [True]
        else:
            with pytest.raises(FileFormatError, match="does not fit"):
                load(file)


def test_an_expanded_tensor_is_loaded_and_saved_expanded_whatever_its_size():
    expanded = ex.tensor([True]).expand(2**45)
    file = io.BytesIO()
    save({"flags": expanded, "rows": ex.arange(3.0).expand(2**40, 3)}, file)
    assert len(file.getvalue()) < 2000
    back = load(io.BytesIO(file.getvalue()))
    assert (back["flags"].shape, back["flags"].stride()) == ((2**45,), (0,))
    assert (back["rows"].shape, back["rows"].stride()) == ((2**40, 3), (0, 1))
    assert back["flags"][2**44].item() is True
    assert back["rows"][-1].tolist() == [0.0, 1.0, 2.0]


# ---- files of other kinds


class Attack:
    def __reduce__(self):
        return (exec, ("import builtins; builtins.extempo_was_here = True",))


@pytest.mark.parametrize("protocol", range(6))
def test_a_bare_pickle_is_refused_and_not_run(protocol):
    import builtins

    with pytest.raises(ExtempoError, match=r"bare pickle|neither a file"):
        load(io.BytesIO(pickle.dumps(Attack(), protocol)))
    assert not hasattr(builtins, "extempo_was_here")


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.", r"before version 1\.6; open it with PyTorch"),
        (b"\x93NUMPY\x01\x00v\x00{'descr'", r"a NumPy array; use ex\.from_numpy"),
        (b"\x89HDF\r\n\x1a\n" + b"\0" * 20, "HDF5"),
        (b"\x1f\x8b\x08\x00" + b"a" * 20, "gzip"),
        (b"storages".ljust(257, b"a") + b"ustar\x0000", "tar archive, PyTorch's first format"),
        (b"<!DOCTYPE html><html>", "neither a file of ex.save, nor a safetensors file"),
    ],
    ids=["torch before 1.6", "npy", "hdf5", "gzip", "tar", "html"],
)
def test_files_of_other_kinds_are_named(start, message):
    with pytest.raises(ExtempoError, match=message):
        load(io.BytesIO(start))
