"""The header of a safetensors file: 8 bytes little-endian length, JSON, then the data without gaps.

Reading checks everything before a byte of data is allocated: names, dtypes, shapes, and offsets that tile the rest of
the file exactly, so that none can overlap or point outside. https://github.com/huggingface/safetensors has the format.
"""

from __future__ import annotations

import json
import re
import struct
import sys
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from ..core.storage import Array
from ..core.types import count
from ..errors import UnsupportedError
from .files import FileFormatError, Reader

VERSION = 2  # 1 had no entries
KEY = "extempo"  # of the metadata: the description
KEY_CHECKSUM = "extempo.crc32"  # of the metadata: the checksum of the description
LIMIT = 100_000_000  # bytes of header; the format's own reader has the same limit
ALIGNMENT = 64
MAX_DIMENSIONS = 64  # NumPy's own limit
MAX_TENSORS = 65_536  # of one file: each takes some 30 us to check and make, so a small file never takes long to read
MAX_JSON_DEPTH = (
    220  # more than `save` makes, and far below what would exhaust the stack of the JSON parser, which is C code
)

# The dtypes of NumPy arrays that the format has; tensors have the first ten.
NUMPY_DTYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    "U8": np.dtype(np.uint8),
    "I8": np.dtype(np.int8),
    "I16": np.dtype(np.int16),
    "I32": np.dtype(np.int32),
    "I64": np.dtype(np.int64),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F32": np.dtype(np.float32),
    "F64": np.dtype(np.float64),
    "U16": np.dtype(np.uint16),
    "U32": np.dtype(np.uint32),
    "U64": np.dtype(np.uint64),
}
CODES = {d: code for code, d in NUMPY_DTYPES.items()}


class Entry(NamedTuple):
    """One tensor of the file: its dtype by the format's name, its shape, and where its bytes stand in the file."""

    code: str
    shape: tuple[int, ...]
    start: int
    stop: int


def type_checksum(code: str, shape: tuple[int, ...]) -> int:
    """Where the checksum of a tensor starts: its dtype and shape are part of what must not change."""
    return zlib.crc32(f"{code}{list(shape)}".encode())


def require_little_endian(op: str) -> None:
    """Files hold little-endian numbers, and so must memory: bytes go from one to the other as they are."""
    if sys.byteorder != "little":
        raise UnsupportedError(f"{op}: this machine is big-endian, and files hold little-endian numbers")


def header_bytes(arrays: Mapping[str, Array], metadata: dict[str, str]) -> tuple[bytes, list[str]]:
    """The header for these arrays, and the order in which their bytes follow.

    The widest elements come first and the data starts at a multiple of 64 bytes: every tensor lies aligned in a map of
    the file, without the gaps that the format forbids.
    """
    if len(arrays) > MAX_TENSORS:
        raise UnsupportedError(
            f"save: {len(arrays):,} tensors, and a file may hold {MAX_TENSORS:,} at most; join them by ex.cat"
        )
    order = sorted(arrays, key=lambda name: -arrays[name].itemsize)
    table: dict[str, Any] = {"__metadata__": metadata}
    position = 0
    for name in order:
        array = arrays[name]
        table[name] = {
            "dtype": CODES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [position, position + array.nbytes],
        }
        position += array.nbytes
    text = json.dumps(table, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    if len(text) > LIMIT:
        raise UnsupportedError(
            f"save: names and numbers take {len(text)} bytes of text, the limit is {LIMIT}; put long lists into tensors"
        )
    return struct.pack("<Q", len(text)) + text, order


def read_header(reader: Reader) -> tuple[dict[str, Entry], dict[str, str]]:
    """(name -> entry in the order of the file, metadata), all checked."""
    if reader.size < 8:
        raise reader.damaged(f"it has {reader.size} bytes")
    (length,) = struct.unpack("<Q", reader.bytes(0, 8))
    if length > min(LIMIT, reader.size - 8):
        raise reader.damaged(f"its header should be {length} bytes long, in a file of {reader.size}")
    table = parse_json(reader.bytes(8, length), reader, MAX_TENSORS + 2)  # the table itself, and the metadata
    if type(table) is not dict:
        raise reader.damaged("its header is not a JSON object")
    metadata = table.pop("__metadata__", {})
    if type(metadata) is not dict or any(type(v) is not str for v in metadata.values()):
        raise reader.damaged("its metadata is not a table of strings")
    entries = {name: _entry(name, row, 8 + length, reader) for name, row in table.items()}
    ordered = dict(sorted(entries.items(), key=lambda item: item[1].start))
    _require_tiling(ordered.values(), 8 + length, reader)
    return ordered, metadata


def _entry(name: str, row: Any, base: int, reader: Reader) -> Entry:
    """One row of the table, checked on its own."""
    try:
        code, shape, (start, stop) = row["dtype"], row["shape"], row["data_offsets"]
    except (TypeError, KeyError, ValueError):
        raise reader.damaged(f"the entry of tensor {name!r} is not complete") from None
    if type(code) is not str or type(shape) is not list or not all(map(_is_size, (*shape, start, stop))):
        raise reader.damaged(f"the entry of tensor {name!r} has values of the wrong kind")
    if len(shape) > MAX_DIMENSIONS:
        raise reader.damaged(f"tensor {name!r} has {len(shape)} dimensions")
    d = NUMPY_DTYPES.get(code)
    if d is None:
        raise UnsupportedError(
            f"load: tensor {name!r} in {reader.name} has dtype {code}, which Extempo does not have; "
            "convert it to float32 where the file was written"
        )
    if stop - start != count(shape) * d.itemsize:
        raise reader.damaged(f"tensor {name!r}: {code} of shape {shape} does not take {stop - start} bytes")
    return Entry(code, tuple(shape), base + start, base + stop)


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 62


def _require_tiling(entries: Iterable[Entry], position: int, reader: Reader) -> None:
    """Each tensor starts where the last one ended, and the last ends with the file."""
    for entry in sorted(entries, key=lambda e: (e.start, e.stop)):
        if entry.start != position:
            raise reader.damaged(f"its tensors overlap or leave a gap at byte {min(position, entry.start)}")
        position = entry.stop
    if position != reader.size:
        raise reader.damaged(f"it has {reader.size} bytes, its header accounts for {position}")


# ---- JSON that may be hostile

# Never goes back and never fails, also on a string without an end: linear time, no stack.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_BRACKETS = bytes.maketrans(b"[]{}", b"+-+-")
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def parse_json(text: bytes, reader: Reader, most_objects: int | None = None) -> Any:
    """The value of a JSON text without repeated keys, bounded in depth and in the number of objects."""
    bare = _STRING.sub(b"", text)
    n_objects = bare.count(b"{")
    if most_objects is not None and n_objects > most_objects:
        raise UnsupportedError(
            f"load: {reader.name} has {n_objects:,} entries, and a file may hold {MAX_TENSORS:,} tensors at most; "
            "split it up, or join tensors, where it was written"
        )
    steps = np.frombuffer(bare.translate(_BRACKETS, _NOT_BRACKETS), np.uint8)
    # b"+" is 43 and b"-" is 45.
    if len(steps) and np.cumsum(44 - steps.astype(np.int64)).max() > MAX_JSON_DEPTH:
        raise reader.damaged(f"its header is nested more than {MAX_JSON_DEPTH} levels deep")
    try:
        return json.loads(text.decode(), object_pairs_hook=_unique, parse_constant=_no_constant)
    except FileFormatError as error:
        raise reader.damaged(str(error)) from None
    except ValueError:  # no JSON, no UTF-8, or a number with too many digits
        raise reader.damaged("its header is not JSON") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise FileFormatError("its header has a name twice")
    return table


def _no_constant(name: str) -> Any:
    raise FileFormatError(f"its header has the number {name}")
