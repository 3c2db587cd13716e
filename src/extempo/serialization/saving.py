"""save: structure, memory, header, file. Everything is checked before the first byte is written."""

from __future__ import annotations

import json
import zlib
from typing import Any

import numpy as np

from ..core.storage import Array
from ..core.tensor import Tensor
from ..errors import ExtempoError
from ..nn.parameter import Buffer, Parameter, UninitializedParameter
from .files import checksum, writing
from .header import CODES, KEY, KEY_CHECKSUM, VERSION, header_bytes, require_little_endian, type_checksum
from .memory import Place, store, unique
from .structure import Encoder, encoded, tensor_name

DEFAULT_PROTOCOL = 2  # the `pickle_protocol` that PyTorch takes; it changes nothing here
_CHUNK = 1 << 22  # bytes written at a time


def save(
    obj: Any,
    f: Any,
    pickle_module: Any = None,
    pickle_protocol: int | None = None,
    _use_new_zipfile_serialization: bool = True,
) -> None:
    """Write tensors, modules and other objects, and containers and numbers around them, to a path or a binary file.

    `obj` is made of tensors, ragged tensors, parameters, NumPy arrays and scalars, dicts, lists, tuples, sets, numbers,
    strings, bytes, dates, paths, dtypes, devices, sizes, modules, data sets, optimizers, schedules, generators,
    dataclasses, namedtuples and members of enums. Functions and classes are saved by name; a lambda, a hook or anything
    else that is code is an error that says where it stands. Objects of other classes are saved as pickle would, and
    `load` wants them vouched for (`serialization.safe_globals`). What is shared stays shared, tensors that share memory
    are stored once, and circles come back as circles. Gradients and graphs are not saved.

    A path is replaced in one step at the end: a crash while saving leaves the old file. The file is a safetensors file
    with the structure in its metadata, never a pickle, whatever the last three arguments (PyTorch's) say.

    >>> import io
    >>> file = io.BytesIO()
    >>> ex.save({"step": 3, "weight": ex.ones(2)}, file)
    >>> position = file.seek(0)
    >>> ex.load(file)
    {'step': 3, 'weight': tensor([1., 1.])}

    >>> ex.save(nn.Linear(2, 3), io.BytesIO())
    >>> model = nn.Linear(2, 3)
    >>> model.activation = lambda x: x
    >>> ex.save(model, io.BytesIO())
    Traceback (most recent call last):
    ...
    extempo.errors.UnsupportedError: save: model.activation is a lambda, ...
    """
    require_little_endian("save")
    tree, encoder = encoded(obj)
    names = _names(encoder.paths)
    arrays = [_memory(encoder, value, path) for value, path in zip(encoder.objects, encoder.paths, strict=True)]
    stored, places = store(names, arrays, [isinstance(value, Tensor) for value in encoder.objects])
    checksums = {name: checksum(_as_bytes(array), _start(array)) for name, array in stored.items()}
    description = {
        "version": VERSION,
        "structure": tree,
        "entries": encoder.entries,
        "objects": [_row(value, where) for value, where in zip(encoder.objects, places, strict=True)],
        "crc32": checksums,
    }
    text = json.dumps(description, separators=(",", ":"), allow_nan=False)
    header, order = header_bytes(stored, {KEY: text, KEY_CHECKSUM: str(zlib.crc32(text.encode()))})
    with writing(f) as file:
        file.write(header)
        for name in order:
            _write(file, name, stored[name], checksums[name])


def _names(paths: list[tuple[Any, ...]]) -> list[str]:
    taken: set[str] = set()
    return [unique(tensor_name(path), taken) for path in paths]


def _memory(encoder: Encoder, value: Any, path: tuple[Any, ...]) -> Array:
    """The values of a tensor or array, where they lie."""
    if isinstance(value, Tensor):
        if type(value) not in (Tensor, Parameter, Buffer, UninitializedParameter):
            raise encoder.refuse(value, path)
        return value.detach().numpy()
    if type(value) not in (np.ndarray, np.memmap) or value.dtype.newbyteorder("=") not in CODES:
        raise encoder.refuse(value, path)
    return np.asarray(value, value.dtype.newbyteorder("="))


def _row(value: Any, where: Place) -> dict[str, Any]:
    """What the file says of one tensor or array."""
    row: dict[str, Any] = {"type": "array", "data": where.name}
    if isinstance(value, Tensor):
        row["type"] = "parameter" if isinstance(value, Parameter) else "tensor"
        if value.requires_grad:
            row["requires_grad"] = True
        if where.window is not None:
            row["dtype"] = CODES[value.dtype.numpy]
            row["window"] = where.window._asdict()
    return row


def _as_bytes(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)


def _start(array: Array) -> int:
    return type_checksum(CODES[array.dtype], array.shape)


def _write(file: Any, name: str, array: Array, expected: int) -> None:
    """Write one array, and make sure that what is written is what was promised in the header."""
    data = _as_bytes(array)
    written = _start(array)
    for start in range(0, len(data), _CHUNK):
        chunk = data[start : start + _CHUNK].tobytes()
        written = zlib.crc32(chunk, written)
        file.write(chunk)
    if written != expected:
        raise ExtempoError(
            f"save: tensor {name!r} was changed by another thread while it was saved; save a copy, x.detach().clone()"
        )
