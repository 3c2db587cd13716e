"""Structs that go with a capsule: their own function releases them, once."""

import ctypes
import gc

import pytest

pytest.importorskip("llvmlite")

from extempo.backends.llvm.calls.capsules import released_with_capsule
from extempo.backends.selection import native

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)

RELEASE = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)


class Struct(ctypes.Structure):
    _fields_ = (("number", ctypes.c_int64), ("release", ctypes.c_void_p), ("last", ctypes.c_int32))


def test_a_struct_begins_as_zeros():
    struct, capsule = released_with_capsule(Struct)
    assert (struct.number, struct.release, struct.last) == (0, None, 0)
    assert type(capsule).__name__ == "PyCapsule"


def test_its_function_is_called_with_its_address_when_the_capsule_goes():
    seen = []
    release = RELEASE(lambda address: seen.append((address, Struct.from_address(address).number)) or 0)
    struct, capsule = released_with_capsule(Struct)
    struct.number, struct.release = 42, ctypes.cast(release, ctypes.c_void_p).value
    address = ctypes.addressof(struct)
    del capsule
    gc.collect()
    assert seen == [(address, 42)]


def test_a_struct_without_a_function_is_freed_quietly():
    for _ in range(100):
        _, capsule = released_with_capsule(Struct)
        del capsule
