"""Calls of bound routines with every result and the scratch memory inside larger arrays that must stay untouched."""

from __future__ import annotations

import ctypes
import struct

import numpy as np

from extempo.backends.llvm.ir.machine import machine
from extempo.backends.llvm.routines import registry  # noqa: F401 - registers the routines
from extempo.backends.llvm.routines.routine import ROUTINES
from extempo.core.types import TensorType, from_numpy_dtype

GUARD = 64  # elements (or bytes of scratch) on either side
_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)


@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
def _alone(part, context):
    """A stand-in for the call of a part that takes long."""
    _CALLBACK(part)(context, 0)


@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
def _backwards(function, context, n_parts):
    """A stand-in for the threads: parts run from the last to the first."""
    call = _CALLBACK(function)
    for i in reversed(range(n_parts)):
        call(context, i)


class Guarded:
    """A new array of that type with a known pattern before and after it."""

    def __init__(self, shape, dtype, fill=0xAB):
        n = int(np.prod(shape, dtype=np.int64))
        self._all = np.full((n + 2 * GUARD) * np.dtype(dtype).itemsize, fill, np.uint8)
        self._edge = GUARD * np.dtype(dtype).itemsize
        self._fill = fill
        self.array = self._all[self._edge : self._all.size - self._edge].view(dtype).reshape(shape)

    def check(self):
        assert (self._all[: self._edge] == self._fill).all(), "something was written before the operand"
        assert (self._all[self._all.size - self._edge :] == self._fill).all(), "something was written after the operand"


def type_of(x):
    return TensorType(x.shape, from_numpy_dtype(x.dtype)) if isinstance(x, np.ndarray) else type(x)


def bind(name, inputs, attrs):
    """The bound routine for these inputs, or None."""
    if "extempo_parallel" not in machine()._symbols:
        machine().offer("extempo_parallel", ctypes.cast(_backwards, ctypes.c_void_p).value)
    if "extempo_long_part" not in machine()._symbols:
        machine().offer("extempo_long_part", ctypes.cast(_alone, ctypes.c_void_p).value)
    return ROUTINES[name](tuple(map(type_of, inputs)), attrs)


def _run(address, buffers, meta):
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(address)
    return function((ctypes.c_void_p * len(buffers))(*buffers), (ctypes.c_int64 * max(1, len(meta)))(*meta))


def run_address(address, arrays, meta):
    """A routine by its address, on arrays as they are."""
    return _run(address, [a.ctypes.data for a in arrays], meta)


def call(name, *inputs, **attrs):
    """The results of the routine, as a tuple; None if it declines."""
    bound = bind(name, inputs, attrs)
    assert bound is not None, f"{name} has no native code for {[type_of(x) for x in inputs]}, {attrs}"
    reads, meta, guards = [], list(bound.meta), []
    for x, kind in zip(inputs, bound.reads, strict=True):
        if kind in "fi-":
            reads.append(None)
            meta += [] if kind == "-" else struct.unpack("<q", struct.pack("<d" if kind == "f" else "<q", x))
            continue
        if kind == "c":  # a copy between guards: an input must not be changed either
            guarded = Guarded(x.shape, x.dtype, 0xFF)
            guarded.array[...] = x
            guards.append(guarded)
            x = guarded.array
        else:
            meta += [s // x.itemsize for s in x.strides]
        reads.append(x)
    results = [Guarded(t.shape, t.dtype.numpy) for t in bound.writes]
    if bound.zeroed:
        for r in results:
            r.array[...] = 0
    scratch = Guarded((bound.scratch,), np.uint8)
    buffers = [x if x is None else x.ctypes.data for x in [*reads, *(g.array for g in (*results, scratch))]]
    status = _run(bound.address, buffers, meta)
    for guarded in (*results, scratch, *guards):
        guarded.check()
    for x, guarded in zip([x for x, k in zip(inputs, bound.reads, strict=True) if k == "c"], guards, strict=True):
        np.testing.assert_array_equal(guarded.array, x, "an input was changed")
    return tuple(r.array for r in results) if status == 0 else None
