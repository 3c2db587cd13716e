"""Pickles and archives written by hand, opcode by opcode."""

from __future__ import annotations

import io
import struct
import zipfile

import numpy as np

from extempo.serialization import load

FALSE, TRUE, NONE = b"\x89", b"\x88", b"N"


def call(what: bytes, *args: bytes) -> bytes:
    return what + several(*args) + b"R"


def dict_of(**values: bytes) -> bytes:
    return b"}(" + b"".join(text(key) + value for key, value in values.items()) + b"u"


def name(module: str, attribute: str) -> bytes:
    return f"c{module}\n{attribute}\n".encode()


def number(value: int) -> bytes:
    raw = value.to_bytes(16, "little", signed=True)
    return b"\x8a" + bytes([len(raw)]) + raw


def read(code: bytes, records: dict[str, bytes] | None = None, **options):
    return load(io.BytesIO(archive(code, SIX if records is None else records)), **options)


def several(*parts: bytes) -> bytes:
    return b"(" + b"".join(parts) + b"t"


def storage(key: str, kind: str = "FloatStorage", count: int = 6, place: str = "cuda:0") -> bytes:
    return several(text("storage"), name("torch", kind), text(key), text(place), number(count)) + b"Q"


def tensor(memory: bytes, shape=(2, 3), stride=(3, 1), offset=0, requires_grad=FALSE, *rest: bytes) -> bytes:
    sizes = several(*map(number, shape)), several(*map(number, stride))
    rebuild = name("torch._utils", "_rebuild_tensor_v2")
    return call(rebuild, memory, number(offset), *sizes, requires_grad, NO_HOOKS, *rest)


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value.encode())) + value.encode()


NO_HOOKS = call(name("collections", "OrderedDict"))


SIX = {"data/0": np.arange(6, dtype=np.float32).tobytes()}


def archive(code: bytes, records: dict[str, bytes] | None = None, top: str = "archive/", **options) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", **options) as made:
        made.writestr(f"{top}data.pkl", b"\x80\x02" + code + b".")
        for key, value in {"byteorder": b"little", "version": b"3\n", **(records or {})}.items():
            made.writestr(f"{top}{key}", value)
    return file.getvalue()
