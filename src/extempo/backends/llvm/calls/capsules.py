"""Structs of other libraries that are released when nobody needs them any more, by a capsule with native code.

A `__del__` would do it in Python, where Ctrl-C may come in and is lost.
"""

from __future__ import annotations

import ctypes
from typing import Any

from ..ir.builder import IRModule, i64, ptr, void
from ..ir.machine import Library
from .loading import load_calls

# Objects of their own: the types that others set on ctypes.pythonapi's are shared by the process.
_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)
_set_context = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(
    ("PyCapsule_SetContext", ctypes.pythonapi)
)
_zeroed = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)(("PyMem_RawCalloc", ctypes.pythonapi))


def write_release(module: IRModule) -> None:
    """extempo_release(capsule): call the function that its struct has for that, if there is one, and free the struct.

    The context of the capsule says how far into the struct the function stands.
    """
    with module.function("extempo_release", i64, capsule=ptr) as b:
        capsule, nameless = b.arg("capsule"), b.const(ptr, 0)
        struct = b.call(module.declare("PyCapsule_GetPointer", ptr, [ptr, ptr]), capsule, nameless)
        at = b.call(module.declare("PyCapsule_GetContext", i64, [ptr]), capsule)
        release = b.load(ptr, b.byte_offset(struct, at))
        with b.if_(release != 0):
            b.call_address(release, i64, struct)
        b.call(module.declare("PyMem_RawFree", void, [ptr]), struct)
        b.ret(0)


_library: list[Library] = []


def released_with_capsule(kind: type[ctypes.Structure]) -> tuple[Any, Any]:
    """A struct of zeros, and the capsule with which it goes; then its `release` is called with its address."""
    if not _library:
        _library.append(load_calls(write_release, ["extempo_release"]))
    address = _zeroed(1, ctypes.sizeof(kind))
    if not address:
        raise MemoryError
    capsule = _new(address, None, _library[0].address["extempo_release"])
    _set_context(capsule, kind.release.offset)
    return kind.from_address(address), capsule
