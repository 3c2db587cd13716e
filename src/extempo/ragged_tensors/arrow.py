"""Lists of Arrow and of awkward-array as ragged tensors, and back, on the same memory.

Any library that speaks Arrow's C interface can hand over an array: pyarrow, nanoarrow, polars, DuckDB. Its C structs
are read here by ctypes, so none of them is needed. A list array is offsets and a child, which is what a ragged tensor
is; only bools (bits in Arrow) and integers of a kind that tensors lack are copied. Memory of Arrow must not be written
to, and the tensor refuses to.
"""

from __future__ import annotations

import ctypes
from importlib import import_module
from typing import Any

import numpy as np

from .. import ops
from ..backends.selection import native
from ..core.storage import Array
from ..core.tensor import Tensor, from_array
from ..core.types import bfloat16
from ..errors import DtypeError, ShapeError, UnsupportedError
from .rows import Rows
from .tensor import TWO_LEVELS, RaggedTensor

_DTYPES = dict(zip("cCsSiIlefg", ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "f2", "f4", "f8"), strict=True))
_WIDER = {"u2": "i4", "u4": "i8"}  # kinds that tensors lack, and the smallest that holds all their values


# An object of its own: the types that others set on ctypes.pythonapi's are shared by the process.
_get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


class _Schema(ctypes.Structure):
    pass


class _Array(ctypes.Structure):
    pass


class _Stream(ctypes.Structure):
    pass


_Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_char_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(_Schema))),
    ("dictionary", ctypes.POINTER(_Schema)),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(_Schema))),
    ("private_data", ctypes.c_void_p),
]
_Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_Array))),
    ("dictionary", ctypes.POINTER(_Array)),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(_Array))),
    ("private_data", ctypes.c_void_p),
]
_Stream._fields_ = [
    ("get_schema", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Stream), ctypes.POINTER(_Schema))),
    ("get_next", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Stream), ctypes.POINTER(_Array))),
    ("get_last_error", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.POINTER(_Stream))),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(_Stream))),
    ("private_data", ctypes.c_void_p),
]


class _Memory:
    """Part of a buffer, as NumPy asks for it; it keeps the owner of the buffer alive."""

    def __init__(self, address: int, kind: str, start: int, size: int, owner: Any) -> None:
        self.owner = owner
        itemsize = np.dtype(kind).itemsize
        self.__array_interface__ = {
            "version": 3,
            "shape": (size,),
            "typestr": np.dtype(kind).str,
            "data": (address + start * itemsize, True),
        }


def is_arrow(given: Any) -> bool:
    """Whether it can hand over an Arrow array, or several in a row."""
    return hasattr(given, "__arrow_c_array__") or hasattr(given, "__arrow_c_stream__")


def is_awkward(given: Any) -> bool:
    return type(given).__module__.startswith("awkward.") and hasattr(given, "layout")


# ---- from Arrow


def from_arrow(given: Any) -> tuple[Tensor, Rows]:
    """The values and rows of a list array, or of an array in several chunks."""
    if hasattr(given, "__arrow_c_array__"):
        schema, array = given.__arrow_c_array__()
        return _list(_pointer(schema, b"arrow_schema", _Schema), _pointer(array, b"arrow_array", _Array), array)
    capsule = given.__arrow_c_stream__()
    return _from_stream(_pointer(capsule, b"arrow_array_stream", _Stream))


def _new_chunk() -> tuple[Any, Any]:
    """An array to be filled, and what owns it; None where it has to be copied."""
    if native() is None:
        return _Array(), None
    from ..backends.llvm.calls.capsules import released_with_capsule  # which needs llvmlite

    return released_with_capsule(_Array)


def _from_stream(stream: Any) -> tuple[Tensor, Rows]:
    """The values and rows of all chunks. Those of a single one are not copied, if native code can release it later."""
    schema, copied = _Schema(), []
    try:
        _checked(stream, stream.get_schema(ctypes.byref(stream), ctypes.byref(schema)))
        pieces = []
        while True:
            chunk, owner = _new_chunk()
            if owner is None:
                copied.append(chunk)
            _checked(stream, stream.get_next(ctypes.byref(stream), ctypes.byref(chunk)))
            if not chunk.release:
                break
            pieces.append(_list(schema, chunk, owner))
        if not pieces:
            return _no_rows(schema)
        if len(pieces) == 1:
            values, rows = pieces[0]
            return values if not copied else values.clone(), rows
        lengths = np.concatenate([rows.lengths for _, rows in pieces])
        return ops.cat([values for values, _ in pieces]), Rows.of_lengths(lengths)
    finally:
        for struct in (schema, *copied):
            if struct.release:
                struct.release(ctypes.byref(struct))


def _pointer(capsule: Any, name: bytes, kind: Any) -> Any:
    return ctypes.cast(_get_pointer(capsule, name), ctypes.POINTER(kind)).contents


def _checked(stream: Any, status: int) -> None:
    if status:
        message = stream.get_last_error(ctypes.byref(stream)) or b"no reason given"
        raise DtypeError(f"ragged: the Arrow stream failed: {message.decode(errors='replace')}")


def _list(schema: Any, array: Any, owner: Any) -> tuple[Tensor, Rows]:
    kind = schema.format.decode()
    first, n_rows = array.offset, array.length
    _check_complete(array, first, n_rows, "row")
    if kind.startswith("+w:"):
        size = int(kind[3:])
        offsets = size * np.arange(first, first + n_rows + 1)
    elif kind in ("+l", "+L"):
        address = array.buffers[1]
        width = "i4" if kind == "+l" else "i8"
        offsets = _numbers(address, width, first, n_rows + 1, owner) if address else np.zeros(n_rows + 1, np.int64)
    else:
        raise DtypeError(_refused(kind))
    begin, end = int(offsets[0]), int(offsets[-1])
    values = _values(schema.children[0].contents, array.children[0].contents, begin, end - begin, owner)
    return from_array(values), Rows(offsets.astype(np.int64) - begin)


def _values(schema: Any, array: Any, start: int, size: int, owner: Any) -> Array:
    """The elements [start, start + size) of a child, with a dimension for each fixed-size list."""
    kind = schema.format.decode()
    start += array.offset
    if kind.startswith("+w:"):
        _check_complete(array, start, size, "element")
        width = int(kind[3:])
        parts = _values(schema.children[0].contents, array.children[0].contents, start * width, size * width, owner)
        return parts.reshape(size, width, *parts.shape[1:])
    if schema.dictionary:
        raise DtypeError("ragged: the values of the Arrow array are dictionary-encoded; decode them first")
    if kind.startswith("+"):
        raise ShapeError(f"ragged: {_refused(kind, inner=True)}")
    if kind == "n" and not size:
        return np.empty(0, ops.empty(0).dtype.numpy)
    _check_complete(array, start, size, "element")
    if kind == "b":
        whole = _numbers(array.buffers[1], "u1", start // 8, -(-(start % 8 + size) // 8), owner)
        return np.unpackbits(whole, bitorder="little")[start % 8 :][:size].astype(bool)
    if kind not in _DTYPES:
        raise DtypeError(f"ragged: {_refused(kind, inner=True)}")
    dtype = _DTYPES[kind]
    found = _numbers(array.buffers[1], dtype, start, size, owner)
    return found.astype(_WIDER[dtype]) if dtype in _WIDER else found


def _numbers(address: int | None, kind: str, start: int, size: int, owner: Any) -> Array:
    if not size:
        return np.empty(0, kind)
    return np.asarray(_Memory(address or 0, kind, start, size, owner))


def _check_complete(array: Any, start: int, size: int, what: str) -> None:
    """A tensor has no missing values."""
    if not array.null_count or not array.n_buffers or not array.buffers[0] or not size:
        return
    bits = _numbers(array.buffers[0], "u1", start // 8, -(-(start % 8 + size) // 8), None)
    present = np.unpackbits(bits, bitorder="little")[start % 8 :][:size]
    if not present.all():
        raise DtypeError(
            f"ragged: {int((present == 0).sum())} {what}s are null, the first is {what} {int(present.argmin())}, and a "
            "tensor has no missing values; fill or drop them first"
        )


def _no_rows(schema: Any) -> tuple[Tensor, Rows]:
    """No chunk, and so no row; the schema alone says the type."""
    kind = schema.format.decode()
    if kind not in ("+l", "+L") and not kind.startswith("+w:"):
        raise DtypeError(_refused(kind))
    shape, child = [0], schema.children[0].contents
    while child.format.startswith(b"+w:"):
        shape.append(int(child.format[3:]))
        child = child.children[0].contents
    inner = child.format.decode()
    if inner not in _DTYPES and inner not in ("b", "n"):
        raise DtypeError(f"ragged: {_refused(inner, inner=True)}")
    dtype = _DTYPES.get(inner, "?" if inner == "b" else ops.empty(0).dtype.numpy)
    return from_array(np.empty(shape, _WIDER.get(str(dtype), dtype))), Rows.of_lengths([])


def _refused(kind: str, inner: bool = False) -> str:
    if inner and kind in ("+l", "+L"):
        return f"the values of the Arrow array are lists themselves; {TWO_LEVELS}"
    if inner:
        return f"the values of the Arrow array have the format {kind!r}, which is no kind of number that tensors have"
    if kind == "+s":
        return "ragged: this is an Arrow table or struct; pass one of its columns"
    return f"ragged: expected an Arrow array of lists, got the format {kind!r}"


# ---- from awkward


def from_awkward(given: Any) -> tuple[Tensor, Rows]:
    """The values and rows of an awkward array of lists of numbers."""
    layout = _plain(given.layout)
    if layout.is_numpy and layout.purelist_depth > 1:
        layout = layout.to_RegularArray()
    if not getattr(layout, "is_list", False):
        raise DtypeError(f"ragged: expected an awkward array of lists, got the type {given.type}")
    if layout.is_regular:
        offsets = layout.size * np.arange(layout.length + 1)
        content = layout.content
    else:
        layout = layout.to_ListOffsetArray64(True)  # lists in order, from 0 on; no copy where they are that already
        offsets = np.array(layout.offsets.data, np.int64)
        content = layout.content
    values = _awkward_values(_plain(content[: int(offsets[-1])]))
    if values.dtype.str[1:] in _WIDER:
        values = values.astype(_WIDER[values.dtype.str[1:]])
    return from_array(values), Rows(offsets)


def _plain(layout: Any) -> Any:
    """Without the wrappers that say nothing about values."""
    while layout.is_indexed or layout.is_option:
        if layout.is_option:
            n_missing = int(np.asarray(layout.mask_as_bool(valid_when=False)).sum())
            if n_missing:
                raise DtypeError(
                    f"ragged: {n_missing} values of the awkward array are missing, and a tensor has no missing values; "
                    "use ak.fill_none or ak.drop_none first"
                )
        layout = layout.project()
    return layout


def _awkward_values(layout: Any) -> Array:
    if layout.is_unknown:
        return np.empty(0, ops.empty(0).dtype.numpy)
    if layout.is_numpy:
        return np.asarray(layout.data)
    if layout.is_list and layout.is_regular:
        inner = _awkward_values(_plain(layout.content[: layout.length * layout.size]))
        return inner.reshape(layout.length, layout.size, *inner.shape[1:])
    if layout.is_list:
        raise ShapeError(f"ragged: the rows of the awkward array hold lists of different lengths; {TWO_LEVELS}")
    raise DtypeError(
        f"ragged: the rows of the awkward array hold {type(layout).__name__}, not numbers; pass one field of it"
    )


# ---- back


def to_arrow(x: RaggedTensor) -> Any:
    """A pyarrow.LargeListArray on the memory of x."""
    pa = _library("pyarrow", "to_arrow")
    values = _exported(x, "to_arrow")
    if 0 in values.shape[1:]:
        raise ShapeError(
            f"to_arrow: lists of size 0 do not say how many they are, {tuple(x.shape)}; send x.lengths() instead"
        )
    array = pa.array(values.reshape(-1))  # of NumPy's memory
    for size in reversed(values.shape[1:]):
        array = pa.FixedSizeListArray.from_arrays(array, size)
    return pa.LargeListArray.from_arrays(pa.array(x._rows.offsets), array)


def to_awkward(x: RaggedTensor) -> Any:
    """An ak.Array on the memory of x."""
    ak = _library("awkward", "to_awkward")
    values = ak.contents.NumpyArray(_exported(x, "to_awkward"))
    return ak.Array(ak.contents.ListOffsetArray(ak.index.Index64(x._rows.offsets), values))


def _library(name: str, what: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(f"{what}: this needs {name}; pip install {name}") from error


def _exported(x: RaggedTensor, name: str) -> Array:
    """The values as an array that others read."""
    if x._dim != 1:
        raise UnsupportedError(
            f"{name}: lists are ragged in dimension 1, the tensor of shape {tuple(x.shape)} in {x._dim}; transpose it"
        )
    if x.dtype is bfloat16:
        raise DtypeError(f"{name}: bfloat16 is no kind of number there; use x.float()")
    return np.ascontiguousarray(x._flat.detach().numpy())
