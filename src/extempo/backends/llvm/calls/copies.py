"""Row-major copies of inputs that a routine cannot read as they lie: by native code that turns squares of elements.

NumPy copies a transposed matrix element by element, each from another cache line. Small arrays, and what has more
dimensions or other strides than the native copy takes, stay NumPy's.
"""

from __future__ import annotations

import ctypes

from ..ir.builder import IRModule, Pointer, i64, ptr, void
from ..ir.machine import machine
from ..routines.layout import BY_SIZE, MAX_NDIM, copy_address
from .cpython import ARRAY_DTYPE, Python

SMALLEST = 1 << 12  # bytes; below that a call of NumPy's takes as long
_TABLE = "extempo_copiers"
_COPIERS = (ctypes.c_int64 * (max(BY_SIZE) + 1))()  # by the size of elements: where the native copy is, 0 before that


def offer_copiers() -> None:
    """Let code that is loaded from now on find the table."""
    machine().offer(_TABLE, ctypes.addressof(_COPIERS))


def prepare_copier(itemsize: int) -> None:
    """From now on elements of that size are copied by native code."""
    if itemsize in BY_SIZE and not _COPIERS[itemsize]:
        _COPIERS[itemsize] = copy_address(BY_SIZE[itemsize])


def write_row_major(module: IRModule) -> None:
    """row_major(array, itemsize): a row-major copy, as a new reference; null at a Python error."""
    with module.function("row_major", ptr, internal=True, array=ptr, itemsize=i64) as b:
        python, array, itemsize = Python(b), b.arg("array"), b.arg("itemsize")
        ndim, shape, strides = python.ndim(array), python.shape(array), python.strides(array)
        module.declare(_TABLE, ptr, [])  # a variable; it is found as functions are
        copier = Pointer(module.address_of(b, _TABLE), ptr)[itemsize]
        fits, nbytes = b.var(i64, 1), b.var(i64, itemsize)
        with b.if_((copier == 0) | (ndim > MAX_NDIM)):
            b.ret(python.contiguous_copy(array))
        of, to = b.array(i64, MAX_NDIM), b.array(i64, MAX_NDIM)
        with b.loop(0, ndim) as i:
            k = ndim - 1 - i
            to[k] = nbytes.value // itemsize
            nbytes.set(nbytes.value * shape[k])
            of[k] = strides[k] // itemsize
            with b.if_(strides[k] % itemsize != 0):
                fits.set(0)
        with b.if_((fits.value == 0) | (nbytes.value < SMALLEST)):
            b.ret(python.contiguous_copy(array))
        made = python.empty(b.field(ptr, array, ARRAY_DTYPE), ndim, shape.address, nbytes.value)
        with b.if_(made != 0):
            target, source = python.data(made), python.data(array)
            b.call_address(copier, void, target, source, ndim, shape.address, to.address, of.address)
        b.ret(made)
