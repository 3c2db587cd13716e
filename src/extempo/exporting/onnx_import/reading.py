"""Reads an ONNX file that nobody vouches for: parsed, then every tensor checked before memory is taken for it.

A tensor must have exactly the bytes that its shape and type say, so what is read is never larger than the files.
External data stays inside the directory of the model. Nothing of a file is executed.
"""

from __future__ import annotations

import math
import os
from typing import Any

import ml_dtypes
import numpy as np

from ...core.storage import Array
from ...core.types import bfloat16, bool_, dtype, float16, float32, float64, int8, int16, int32, int64, uint8
from ...errors import UnsupportedError
from ...serialization.files import FileFormatError
from .sizes import MAX_NDIM

MAX_FILE = 2**31 - 1  # protobuf reads no more
BUFFERS = "extempo.buffers"  # the property of a model of `program.to_onnx` that names initializers that are not trained

# Element types of the format, by number.
DTYPES: dict[int, dtype] = {
    1: float32, 2: uint8, 3: int8, 5: int16, 6: int32, 7: int64, 9: bool_, 10: float16, 11: float64, 16: bfloat16
}  # fmt: skip
NUMBERS = {d: number for number, d in DTYPES.items()}
_NAMES = """
    UNDEFINED FLOAT UINT8 INT8 UINT16 INT16 INT32 INT64 STRING BOOL FLOAT16 DOUBLE UINT32 UINT64 COMPLEX64 COMPLEX128
    BFLOAT16 FLOAT8E4M3FN FLOAT8E4M3FNUZ FLOAT8E5M2 FLOAT8E5M2FNUZ UINT4 INT4 FLOAT4E2M1 FLOAT8E8M0 UINT2 INT2
"""
# Where values of a type stand if not in raw_data, and what they are there.
_FIELDS = {
    float32: ("float_data", np.float32), float64: ("double_data", np.float64), int64: ("int64_data", np.int64),
    float16: ("int32_data", np.uint16), bfloat16: ("int32_data", np.uint16),
}  # fmt: skip


def element_type(number: int) -> dtype:
    """The dtype of an element type of the format, or an error that names it."""
    found = DTYPES.get(number)
    if found is None:
        name = dict(enumerate(_NAMES.split())).get(number, f"number {number}")
        raise UnsupportedError(
            f"the element type {name} has no tensors here; export the model with float32, float16, bfloat16, float64, "
            "int64, int32, int16, int8, uint8 or bool"
        )
    return found


def read_model(f: Any) -> tuple[Any, str | None]:
    """The parsed model of a path, a binary file or bytes, and the directory for its external data, if there is one."""
    try:
        import onnx
    except ImportError:
        raise UnsupportedError("from_onnx: needs the package onnx: pip install 'extempo[onnx]'") from None
    data, directory = _bytes_of(f)
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except Exception as error:  # protobuf's class of this error depends on its backend
        raise FileFormatError(f"from_onnx: {_named(f)} is no ONNX file, or is cut short ({error})") from None
    if not model.HasField("graph") or not model.opset_import:
        raise FileFormatError(f"from_onnx: {_named(f)} has no graph, or names no operator set; it is no ONNX model")
    return model, directory


def _named(f: Any) -> str:
    return repr(os.fspath(f)) if isinstance(f, str | os.PathLike) else "the file"


def _bytes_of(f: Any) -> tuple[bytes, str | None]:
    if isinstance(f, bytes | bytearray | memoryview):
        return bytes(f), None
    if hasattr(f, "read"):
        data = f.read(MAX_FILE + 1)
        if not isinstance(data, bytes):
            raise FileFormatError("from_onnx: the file must be open in binary mode: open(path, 'rb')")
        directory = None
    else:
        if not isinstance(f, str | os.PathLike):
            raise FileFormatError(f"from_onnx: expected a path, a binary file or bytes, got {type(f).__name__}")
        with open(f, "rb") as file:
            data = file.read(MAX_FILE + 1)
        directory = os.path.dirname(os.path.abspath(f))
    if len(data) > MAX_FILE:
        raise FileFormatError(
            f"from_onnx: {_named(f)} has more than 2 GiB, the most that the format allows; keep weights as external "
            "data, onnx.save(model, path, save_as_external_data=True)"
        )
    return data, directory


def array_of(tensor: Any, directory: str | None) -> Array:
    """The values of a tensor of the file, as an array of its own."""
    name = tensor.name or "a constant"
    try:
        found = element_type(tensor.data_type)
    except UnsupportedError as error:
        raise UnsupportedError(f"from_onnx: the tensor {name!r}: {error}") from None
    shape = tuple(tensor.dims)
    if any(n < 0 for n in shape) or len(shape) > MAX_NDIM:
        raise FileFormatError(f"from_onnx: the tensor {name!r} has the impossible shape {list(shape)[:8]}")
    if tensor.HasField("segment"):
        raise UnsupportedError(f"from_onnx: the tensor {name!r} is stored in segments; save the model again")
    numel = math.prod(shape)
    if tensor.data_location == tensor.EXTERNAL:
        data = _external(tensor, name, numel * found.numpy.itemsize, directory)
    elif tensor.HasField("raw_data"):
        data = tensor.raw_data
    else:
        return _from_field(tensor, name, found, shape, numel)
    if len(data) != numel * found.numpy.itemsize:
        raise _wrong_length(name, shape, found, f"{len(data):,} bytes")
    values = np.frombuffer(data, found.numpy.newbyteorder("<") if found is not bfloat16 else found.numpy)
    if found is bool_:
        values = values.view(np.uint8) != 0  # other bytes than 0 and 1 are no bools
    return values.astype(found.numpy, copy=True).reshape(shape)


def _from_field(tensor: Any, name: str, found: dtype, shape: tuple[int, ...], numel: int) -> Array:
    field, stored = _FIELDS.get(found, ("int32_data", np.int32))
    listed = getattr(tensor, field)
    if len(listed) != numel:
        raise _wrong_length(name, shape, found, f"{len(listed):,} numbers")
    values = np.fromiter(listed, np.int64 if field == "int32_data" else stored, numel)
    if found is float16 or found is bfloat16:
        bits = values.astype(np.uint16)
        values = bits.view(np.float16 if found is float16 else ml_dtypes.bfloat16)
    return values.astype(found.numpy, copy=False).reshape(shape)


def _wrong_length(name: str, shape: tuple[int, ...], found: dtype, held: str) -> FileFormatError:
    return FileFormatError(
        f"from_onnx: the tensor {name!r} has shape {list(shape)} of {found}, but the file holds {held} for it; the "
        "file is damaged or cut short"
    )


def _external(tensor: Any, name: str, n_bytes: int, directory: str | None) -> bytes:
    """The bytes of a tensor that stand in a file beside the model."""
    facts = {entry.key: entry.value for entry in tensor.external_data}
    location = facts.get("location", "")
    if directory is None:
        raise FileFormatError(
            f"from_onnx: the values of {name!r} stand in another file, {location!r}; give the path of the model, not "
            "its bytes"
        )
    base = os.path.realpath(directory)
    path = os.path.realpath(os.path.join(base, location.replace("\0", "")))
    is_inside = location and not os.path.isabs(location) and os.path.commonpath([base, path]) == base
    if "\0" in location or not is_inside:
        raise FileFormatError(
            f"from_onnx: the values of {name!r} are said to stand in {location!r}, which is not inside the directory "
            "of the model; move the file there"
        )
    if not os.path.isfile(path):
        raise FileFormatError(f"from_onnx: the values of {name!r} stand in {location!r}, which is not there")
    try:
        offset = int(facts.get("offset", 0))
        length = int(facts.get("length", n_bytes))
    except ValueError:
        raise FileFormatError(f"from_onnx: offset or length of {name!r} in {location!r} is no number") from None
    if length != n_bytes or offset < 0 or offset + n_bytes > os.path.getsize(path):
        raise FileFormatError(
            f"from_onnx: {location!r} does not hold the {n_bytes:,} bytes of {name!r} from {offset:,} on; it is "
            "damaged, or belongs to another model"
        )
    with open(path, "rb") as file:
        file.seek(offset)
        return file.read(n_bytes)
