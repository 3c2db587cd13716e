"""The header of a file: what it says is checked before it is believed."""

from __future__ import annotations

import io
import struct

import pytest

import extempo as ex
from extempo.errors import UnsupportedError
from extempo.serialization import FileFormatError, load, save
from extempo.serialization.header import MAX_TENSORS

from .raw_files import FLOATS, W, described, raw_file


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


def test_dtypes_and_versions_of_the_future_are_named():
    with pytest.raises(UnsupportedError, match=r"tensor 'w'.*dtype F8_E4M3"):
        load(io.BytesIO(raw_file({"w": {"dtype": "F8_E4M3", "shape": [1], "data_offsets": [0, 1]}}, b"\0")))
    with pytest.raises(UnsupportedError, match=r"version 3 of the format.*update Extempo"):
        load(io.BytesIO(described([1], version=3)))


def test_a_file_has_a_bounded_number_of_tensors():
    row = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    table = {f"t{i}": row for i in range(MAX_TENSORS)}
    load(io.BytesIO(raw_file(table)))
    table["one more"] = row
    with pytest.raises(UnsupportedError, match="may hold 65,536 tensors at most"):
        load(io.BytesIO(raw_file({"__metadata__": {}, **table, "and another": row})))
    with pytest.raises(UnsupportedError, match="may hold 65,536 at most; join them"):
        save([ex.tensor(float(i)) for i in range(MAX_TENSORS + 1)], io.BytesIO())
