"""DLPack with the dtypes that NumPy's own exchange lacks.

NumPy exchanges every dtype of Extempo but bfloat16. That one travels as int16: the dtype that stands in the capsule's
header is changed before anyone has taken the capsule, on the way out from int16 to bfloat16, on the way in back.
"""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np

from ..errors import DtypeError, UnsupportedError
from .storage import Array

_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_CODE_INT, _CODE_BFLOAT = 0, 4
_CPU_TYPES = (1, 3, 11, 13)  # CPU, and host memory that an accelerator driver pinned or manages


class _DataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
    )


class _VersionedHeader(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
    )


_get_name = ctypes.pythonapi.PyCapsule_GetName
_get_name.restype, _get_name.argtypes = ctypes.c_char_p, (ctypes.py_object,)
_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype, _get_pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)


def _header(capsule: Any) -> _DLTensor:
    """The DLTensor inside a capsule that nobody has taken yet."""
    name = _get_name(capsule)
    if name not in (b"dltensor", b"dltensor_versioned"):
        raise DtypeError("from_dlpack: the capsule was used before; export a new one")
    address = _get_pointer(capsule, name)
    if name == b"dltensor_versioned":
        address += ctypes.sizeof(_VersionedHeader)
    return _DLTensor.from_address(address)


def export(array: Array, **options: Any) -> Any:
    """A DLPack capsule of the array's memory; what cannot be written is copied, as the format has no word for it."""
    if not array.flags.writeable:
        array = array.copy()
    if array.dtype != _BFLOAT16:
        return array.__dlpack__(**options)
    capsule = array.view(np.int16).__dlpack__(**options)
    _header(capsule).dtype.code = _CODE_BFLOAT
    return capsule


class _Taken:
    """What NumPy asks for a capsule."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def take(source: Any, copy: bool | None = None) -> Array:
    """The array on the memory of another library's tensor, or of a capsule."""
    if hasattr(source, "__dlpack_device__"):
        place = source.__dlpack_device__()[0]
        if place not in _CPU_TYPES:
            raise UnsupportedError(f"from_dlpack: the tensor is on device type {int(place)}; move it to the CPU first")
    capsule = _capsule_of(source)
    header = _header(capsule)
    is_bfloat16 = (header.dtype.code, header.dtype.bits) == (_CODE_BFLOAT, 16)
    if is_bfloat16:
        header.dtype.code = _CODE_INT
    try:
        array: Array = np.from_dlpack(_Taken(capsule))
    except (BufferError, TypeError, RuntimeError) as error:
        raise DtypeError(f"from_dlpack: {error}; convert it to a dtype that tensors have") from None
    if is_bfloat16:
        array = array.view(_BFLOAT16)
    return array.copy() if copy else array


def _capsule_of(source: Any) -> Any:
    if type(source).__name__ == "PyCapsule":
        return source
    if not hasattr(source, "__dlpack__"):
        raise DtypeError(f"from_dlpack: expected an object with __dlpack__, got {type(source).__name__}")
    try:
        return source.__dlpack__(max_version=(1, 0))
    except TypeError:  # a library that knows only the first form of the protocol
        return source.__dlpack__()
