"""Python functions whose code is native: a METH_FASTCALL object on an address costs a tenth of a call by ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
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


Key = tuple[str, int, bool]  # name, address of the native code, whether it takes keywords
_definitions: dict[Key, tuple[int, _MethodDef]] = {}  # Python keeps only their addresses
_instead: Callable[[Key], int | None] | None = None  # see `replace_code`
_variants: dict[int, int] = {}  # see `use_variants`
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
        _choose_code(key, definition)
    return _new(found[0], self_object, None)


def replace_code(instead: Callable[[Key], int | None] | None) -> None:
    """Exchange the code of all functions, those that are made later included; None: each has its own again.

    `instead` says at which address the code stands that runs from now on, and None where that stays as it is. CPython
    reads the address of a function's code at every call, so that an exchange costs nothing where there is none.
    """
    global _instead
    _instead = instead
    _choose_all()


def use_variants(variants: dict[int, int]) -> None:
    """Have other code run in the place of that at some addresses, as code that checks its results for a guard.

    An empty dict puts things back. Code that `replace_code` has put before a function runs the variant, too.
    """
    global _variants
    _variants = variants
    _choose_all()


def variant_of(address: int) -> int:
    """The code that runs in the place of that at an address."""
    return _variants.get(address, address)


def _choose_all() -> None:
    for key, (_, definition) in list(_definitions.items()):
        _choose_code(key, definition)


def _choose_code(key: Key, definition: _MethodDef) -> None:
    address = None if _instead is None else _instead(key)
    definition.method = variant_of(key[1]) if address is None else address
