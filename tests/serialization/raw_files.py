"""Files written by hand, byte by byte."""

from __future__ import annotations

import io
import json
import struct
import zlib

import extempo as ex
from extempo.serialization import save
from extempo.serialization.header import KEY, KEY_CHECKSUM

FLOATS = {"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}


W = {"type": "tensor", "data": "w"}


def described(structure, objects=(), crc32=None, version=1, arrays=(), data: bytes = b"") -> bytes:
    """A file with this description, its checksum right: what someone who knows the format would write."""
    description = {"version": version, "structure": structure, "objects": list(objects), "crc32": crc32 or {}}
    return raw_description(description, arrays, data)


def raw_description(description, arrays=(), data: bytes = b"") -> bytes:
    """A file with just this as its description, its checksum right."""
    text = json.dumps(description)
    table = {"__metadata__": {KEY: text, KEY_CHECKSUM: str(zlib.crc32(text.encode()))}, **dict(arrays)}
    return raw_file(table, data)


def raw_file(table, data: bytes = b"") -> bytes:
    text = table if isinstance(table, bytes) else json.dumps(table).encode()
    return struct.pack("<Q", len(text)) + text + data


def sample() -> bytes:
    base = ex.arange(8.0)
    file = io.BytesIO()
    save({"w": base, "part": base[2:5], "flags": ex.tensor([True, False]), "step": 12, "key": {0: (1.5, "text")}}, file)
    return file.getvalue()
