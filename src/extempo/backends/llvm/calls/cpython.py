"""What native code must know of Python's and NumPy's objects: the offsets of their fields, and their C functions.

Only what the interpreters' stable interfaces promise or what can be measured here: the fields of an ndarray and of a
tuple (unchanged since NumPy 1 and Python 3.0), and the offsets of `__slots__`, read from their descriptors.
References are counted through the C functions, never in the fields.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ..ir.builder import IRFunction, Pointer, Value, f64, i1, i8, i32, i64, ptr, void

# struct PyObject, PyTupleObject, PyArrayObject_fields, PyArray_Descr
TYPE = 8
TUPLE_ITEMS = 24
FLOAT_VALUE = 16
ARRAY_DATA, ARRAY_NDIM, ARRAY_SHAPE, ARRAY_STRIDES = 16, 24, 32, 40
ARRAY_DTYPE, ARRAY_FLAGS = 56, 64
DTYPE_NUMBER = 28
C_CONTIGUOUS, F_CONTIGUOUS, ALIGNED, WRITEABLE = 0x1, 0x2, 0x100, 0x400
_EQUAL = 2  # Py_EQ
LARGEST = (1 << 63) - 1  # a size in elements or bytes; NumPy refuses larger ones, and says so
# What converting to a number raises where there is none, or none of that size.
NO_NUMBER = ("TypeError", "ValueError", "OverflowError")
# What comparing and hashing raise where objects cannot be.
NOT_COMPARABLE = ("TypeError", "ValueError")
# A block of the pool (memory.py)
BLOCK_DATA, BLOCK_CLASS, BLOCK_NEXT, BLOCK_SIZE = 16, 24, 32, 40

_NUMPY_FUNCTIONS = {"PyArray_NewFromDescr": 94, "PyArray_NewCopy": 85, "PyArray_SetBaseObject": 282}


def numpy_functions() -> dict[str, int]:
    """The addresses of NumPy's C functions, from the table that it publishes."""
    capsule: Any = np._core._multiarray_umath._ARRAY_API  # type: ignore[attr-defined] # C code's entrance
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = (ctypes.c_void_p * 400).from_address(get(capsule, None))
    return {name: int(table[index] or 0) for name, index in _NUMPY_FUNCTIONS.items()}


KNOWN_SLOTS: dict[type, set[str]] = {}  # what native code that was loaded reads or writes of Extempo's own objects


def slot_offset(cls: type, name: str) -> int:
    """The offset of the slot `name` in instances of `cls`."""
    KNOWN_SLOTS.setdefault(cls, set()).add(name)
    descriptor = getattr(cls, name)
    member = ctypes.c_void_p.from_address(id(descriptor) + 40).value  # PyMemberDescrObject.d_member
    assert member is not None
    return ctypes.c_ssize_t.from_address(member + 16).value  # PyMemberDef.offset


class Python:
    """The C functions of Python and NumPy, and the fields of their objects, for code that is being written."""

    def __init__(self, b: IRFunction) -> None:
        self.b = b
        self.declare = b.module.declare

    def incref(self, o: Value) -> Value:
        self.b.call(self.declare("Py_IncRef", void, [ptr]), o)
        return o

    def decref(self, o: Value) -> None:
        self.b.call(self.declare("Py_DecRef", void, [ptr]), o)

    def new_tuple(self, n: int | Value) -> Value:
        return self.b.call(self.declare("PyTuple_New", ptr, [i64]), n)

    def set_item(self, made: Value, index: int | Value, o: Value) -> None:
        """Put an owned reference into a new tuple."""
        self.b.pointer(self.b.byte_offset(made, TUPLE_ITEMS), ptr)[index] = o

    def item(self, o: Value, index: int | Value) -> Value:
        """An item of a tuple, borrowed."""
        return self.b.pointer(self.b.byte_offset(o, TUPLE_ITEMS), ptr)[index]

    def type_of(self, o: Value) -> Value:
        return self.b.field(ptr, o, TYPE)

    def vectorcall(self, callee: Value, args: Value, n_args: Value, names: Value) -> Value:
        declared = self.declare("PyObject_Vectorcall", ptr, [ptr, ptr, i64, ptr])
        return self.b.call(declared, callee, args, n_args, names)

    def equal(self, first: Value, second: Value) -> Value:
        """Whether Python calls two objects equal; a comparison that cannot be made says no.

        It also says no where an object's own code raised, an interrupt for example; that stays set (`is_raised`).
        """
        compare = self.declare("PyObject_RichCompareBool", i32, [ptr, ptr, i32])
        answer = self.b.call(compare, first, second, _EQUAL)
        with self.b.if_(answer < 0):
            self.forget(*NOT_COMPARABLE, "RecursionError", "MemoryError")
        return answer == 1

    def as_double(self, o: Value) -> Value:
        return self.b.call(self.declare("PyFloat_AsDouble", f64, [ptr]), o)

    def as_int(self, o: Value) -> Value:
        return self.b.call(self.declare("PyLong_AsLongLong", i64, [ptr]), o)

    # ---- exceptions

    def is_raised(self) -> Value:
        return self.b.call(self.declare("PyErr_Occurred", ptr, [])) != 0

    def forget(self, *kinds: str) -> None:
        """Forget the exception that is set if it is one of these, and so an answer: no number, cannot be hashed.

        Any other one stays set, for the caller to return: an interrupt, or whatever somebody's code raised.
        """
        b, one_of = self.b, self.b.var(i32, 0)
        matches = self.declare("PyErr_ExceptionMatches", i32, [ptr])
        for kind in kinds:
            self.declare(f"PyExc_{kind}", ptr, [])  # a variable; it is found as functions are
            expected = b.load(ptr, b.module.address_of(b, f"PyExc_{kind}"))
            one_of.set(one_of.value | b.call(matches, expected))
        with b.if_(one_of.value != 0):
            b.call(self.declare("PyErr_Clear", void, []))

    def unless_raised(self, answer: Value) -> Value:
        """The answer, or null where an exception is set, for the caller to return."""
        return self.b.select(self.is_raised(), self.b.const(ptr, 0), answer)

    def bytes_of(self, o: Value) -> Value:
        """The memory of a bytearray."""
        return self.b.call(self.declare("PyByteArray_AsString", ptr, [ptr]), o)

    # ---- arrays

    def data(self, array: Value) -> Value:
        return self.b.field(ptr, array, ARRAY_DATA)

    def ndim(self, array: Value) -> Value:
        return self.b.cast("sext", self.b.field(i32, array, ARRAY_NDIM), i64)

    def shape(self, array: Value) -> Pointer:
        return Pointer(self.b.field(ptr, array, ARRAY_SHAPE), i64)

    def strides(self, array: Value) -> Pointer:
        return Pointer(self.b.field(ptr, array, ARRAY_STRIDES), i64)

    def flags(self, array: Value) -> Value:
        return self.b.field(i32, array, ARRAY_FLAGS)

    def dtype_number(self, array: Value) -> Value:
        return self.b.cast("sext", self.b.field(i32, self.b.field(ptr, array, ARRAY_DTYPE), DTYPE_NUMBER), i64)

    def contiguous_copy(self, array: Value) -> Value:
        return self._copy(array, 0)  # NPY_CORDER

    def aligned_copy(self, array: Value) -> Value:
        """Aligned, with the dimensions in the same order in memory."""
        return self._copy(array, 2)  # NPY_KEEPORDER

    def _copy(self, array: Value, order: int) -> Value:
        return self.b.call(self.declare("extempo_copy", ptr, [ptr, i32]), array, order)

    def empty(self, dtype: Value, ndim: Value, shape: Value, nbytes: Value, strides: Value | None = None) -> Value:
        """A new array on memory of the pool; its values are arbitrary. Without strides, or null, it is row-major."""
        made = self.declare("extempo_empty", ptr, [ptr, i64, ptr, i64, ptr])
        return self.b.call(made, dtype, ndim, shape, nbytes, self.b.const(ptr, 0) if strides is None else strides)

    def take(self, nbytes: Value) -> Value:
        """A block of the pool as a Python object; its memory is at BLOCK_DATA."""
        return self.b.call(self.declare("extempo_take", ptr, [i64]), nbytes)

    def zero(self, address: Value, nbytes: Value) -> None:
        declared = self.declare("llvm.memset.p0.i64", void, [ptr, i8, i64, i1])
        self.b.call(declared, address, 0, nbytes, 0)
