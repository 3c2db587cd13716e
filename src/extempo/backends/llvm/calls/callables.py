"""Python functions whose code is native: a METH_FASTCALL object on an address costs a tenth of a call by ctypes."""

from __future__ import annotations

import ctypes
from typing import Any

METH_FASTCALL = 0x80
METH_KEYWORDS = 0x02


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("method", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_definitions: dict[tuple[str, int, bool], tuple[int, _MethodDef]] = {}  # Python keeps only their addresses
_new = ctypes.pythonapi.PyCFunction_NewEx
_new.restype = ctypes.py_object
_new.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]


def function(name: str, address: int, self_object: object = None, keywords: bool = False) -> Any:
    """A callable on `ptr f(ptr self, ptr args, i64 nargs)`, with `ptr kwnames` as a fourth argument if `keywords`.

    `self_object` is handed to every call as `self` and lives as long as the callable.
    """
    key = (name, address, keywords)
    found = _definitions.get(key)
    if found is None:
        definition = _MethodDef(name.encode(), address, METH_FASTCALL | (METH_KEYWORDS if keywords else 0), None)
        # The first to be kept is everybody's: another thread may be here, too.
        found = _definitions.setdefault(key, (ctypes.addressof(definition), definition))
    return _new(found[0], self_object, None)
