"""Damaged and hostile files: a clear error, bounded memory, nothing executed."""

from __future__ import annotations

import contextlib
import io
import json
import pickle
import random
import struct
import tracemalloc
import zlib

import pytest

import extempo as ex
from extempo.errors import ExtempoError, UnsupportedError
from extempo.serialization import FileFormatError, load, save
from extempo.serialization.header import MAX_TENSORS
from extempo.serialization.saving import KEY, KEY_CHECKSUM


def sample() -> bytes:
    base = ex.arange(8.0)
    file = io.BytesIO()
    save({"w": base, "part": base[2:5], "flags": ex.tensor([True, False]), "step": 12, "key": {0: (1.5, "text")}}, file)
    return file.getvalue()


def values_of(obj) -> str:
    return repr(sorted(obj.items()))


def raw_file(table, data: bytes = b"") -> bytes:
    text = table if isinstance(table, bytes) else json.dumps(table).encode()
    return struct.pack("<Q", len(text)) + text + data


def described(structure, objects=(), crc32=None, version=1, arrays=(), data: bytes = b"") -> bytes:
    """A file with this description, its checksum right: what someone who knows the format would write."""
    text = json.dumps({"version": version, "structure": structure, "objects": list(objects), "crc32": crc32 or {}})
    table = {"__metadata__": {KEY: text, KEY_CHECKSUM: str(zlib.crc32(text.encode()))}, **dict(arrays)}
    return raw_file(table, data)


W = {"type": "tensor", "data": "w"}
FLOATS = {"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}


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
    ("data", "message"),
    [
        (struct.pack("<Q", 2**63) + b"{}", "neither a file of ex.save"),
        (struct.pack("<Q", 2**31) + b"{}", "header should be 2147483648 bytes long, in a file of 10"),
        (raw_file(b"{]"), "not JSON"),
        (raw_file(b'{"a":\xff}'), "not JSON"),
        (raw_file(b'{"__metadata__":5}'), "not a table of strings"),
        (raw_file(b'{"a":NaN}'), "the number NaN"),
        (raw_file(b'{"a":1' + b"0" * 5000 + b"}"), "not JSON"),
        (raw_file(b'{"a":' * 1000 + b"1" + b"}" * 1000), "nested more than"),
        (raw_file(b'{"a":' + b"[" * 5_000_000), "nested more than"),
        (raw_file(b'{"a":"]]]]","b":' + b"[" * 300 + b"]" * 300 + b"}"), "nested more than"),
        (raw_file(b'{"a":{},"a":{}}'), "a name twice"),
        (raw_file(b'{"a":"' + b'\\"' * 300_000), "not JSON"),
        (raw_file({"w": 3}), "'w' is not complete"),
        (raw_file({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0]}}), "'w' is not complete"),
        (raw_file({"w": {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]}}, b"\0" * 8), "the wrong kind"),
        (raw_file({"w": {"dtype": "F32", "shape": [2.0], "data_offsets": [0, 8]}}, b"\0" * 8), "the wrong kind"),
        (raw_file({"w": {"dtype": "F32", "shape": [True], "data_offsets": [0, 4]}}, b"\0" * 4), "the wrong kind"),
        (raw_file({"w": {"dtype": "F32", "shape": [2], "data_offsets": [-8, 0]}}, b"\0" * 8), "the wrong kind"),
        (raw_file({"w": {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}}, b"\0" * 8), "does not take -8 bytes"),
        (raw_file({"w": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}, b"\0" * 8), "does not take 8 bytes"),
        (raw_file({"w": {"dtype": "U8", "shape": [2**40], "data_offsets": [0, 2**40]}}), "accounts for"),
        (raw_file({"w": {"dtype": "U8", "shape": [0, 2**61, 2**61], "data_offsets": [0, 0]}}), "has the shape"),
        (raw_file({"w": {"dtype": "U8", "shape": [1] * 70, "data_offsets": [0, 1]}}, b"\0"), "70 dimensions"),
        (raw_file({"w": FLOATS["w"], "v": FLOATS["w"]}, b"\0" * 8), "overlap or leave a gap"),
        (raw_file({"w": {"dtype": "U8", "shape": [4], "data_offsets": [4, 8]}}, b"\0" * 8), "overlap or leave a gap"),
        (raw_file({"w": {"dtype": "BOOL", "shape": [1], "data_offsets": [0, 1]}}, b"\2"), "other bytes than 0 and 1"),
        (described([1], version=None), "no version"),
        (described([1], objects=[W]), "refers to a tensor 'w'"),
        (described({"$": "object", "number": -1}, [W], arrays=FLOATS, data=b"\0" * 8), "structure is not one"),
        (described({"$": "object", "number": 7}), "structure is not one"),
        (described({"$": "os.system", "items": ["true"]}), "structure is not one"),
        (described({"$": ["list"]}), "structure is not one"),
        (described({"$": "set", "items": [[1]]}), "structure is not one"),
        (described({"$": "int", "hex": 3}), "structure is not one"),
        (described({"$": "bytes", "base64": "?"}), "structure is not one"),
        (described({"$": "dict", "items": [[1]]}), "structure is not one"),
        (described({"$": "range", "items": [0, 1, 0]}), "structure is not one"),
        (described(1, [{"type": "module", "data": "w"}], arrays=FLOATS, data=b"\0" * 8), "unknown type 'module'"),
        (described(1, [5]), "refers to a tensor None"),
    ],
    ids=lambda v: "" if isinstance(v, bytes) else v[:30],
)  # fmt: skip
def test_a_crafted_file_is_refused_with_its_fault(data, message):
    with pytest.raises(FileFormatError, match=message):
        load(io.BytesIO(data))


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


def test_dtypes_and_versions_of_the_future_are_named():
    with pytest.raises(UnsupportedError, match=r"tensor 'w'.*dtype F8_E4M3"):
        load(io.BytesIO(raw_file({"w": {"dtype": "F8_E4M3", "shape": [1], "data_offsets": [0, 1]}}, b"\0")))
    with pytest.raises(UnsupportedError, match=r"version 2 of the format.*update Extempo"):
        load(io.BytesIO(described([1], version=2)))


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


def test_a_file_has_a_bounded_number_of_tensors():
    row = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    table = {f"t{i}": row for i in range(MAX_TENSORS)}
    load(io.BytesIO(raw_file(table)))
    table["one more"] = row
    with pytest.raises(UnsupportedError, match="may hold 65,536 tensors at most"):
        load(io.BytesIO(raw_file({"__metadata__": {}, **table, "and another": row})))
    with pytest.raises(UnsupportedError, match="may hold 65,536 at most; join them"):
        save([ex.tensor(float(i)) for i in range(MAX_TENSORS + 1)], io.BytesIO())


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
