"""Storage: the memory behind tensors, and how often it was written.

The native backend allocates from its pool of aligned blocks (`backends.llvm.calls.memory`): there the base of an array
is a block, a Python object whose reference count says when the memory is free. Everything else is NumPy's own memory.
"""

from __future__ import annotations

import bisect
import ctypes
import operator
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
ALIGNMENT = 64


class Storage:
    """Memory shared by a tensor and its views. `version` counts writes; `written_at` is where the last one happened.

    `filled_by`, where it is set, is the mark of the sample of a batch that made this memory, and may write to it.
    """

    __slots__ = ("__weakref__", "array", "filled_by", "version", "written_at")

    filled_by: Any

    def __init__(self, array: Array) -> None:
        self.array = array
        self.version = 0
        self.written_at: Any = None

    @property
    def address(self) -> int:
        """The address of the first byte."""
        return int(self.array.ctypes.data)

    @property
    def nbytes(self) -> int:
        return int(self.array.nbytes)


def deep_copy(array: Array, storage: Storage, memo: dict[Any, Any]) -> tuple[Array, Storage]:
    """The array, and its storage, on a copy of all the storage's memory.

    `memo` is that of `copy.deepcopy`: what shares memory with something that was copied before shares that copy.
    """
    if not array.size:
        copied = array.copy()
        return copied, Storage(copied)
    low, high = np.lib.array_utils.byte_bounds(storage.array)
    copies = memo.setdefault("copies of memory", [])  # (low, high, the bytes, what they are of), by address
    place = bisect.bisect_right(copies, low, key=operator.itemgetter(0)) - 1
    if place < 0 or copies[place][1] < high:
        place += 1
        memory = np.frombuffer(memoryview((ctypes.c_char * (high - low)).from_address(low)), np.uint8).copy()
        copies.insert(place, (low, high, memory, storage))
    start, _, memory, _ = copies[place]
    if id(storage) not in memo:
        memo[id(storage)] = Storage(_moved(storage.array, start, memory))
    return _moved(array, start, memory), memo[id(storage)]


def _moved(array: Array, start: int, memory: Array) -> Array:
    """The array in a copy of the memory that begins at address `start`."""
    offset = array.__array_interface__["data"][0] - start
    moved: Array = np.ndarray(array.shape, array.dtype, memory, offset, array.strides)
    # Only elements that share memory stay as they were: a copy of read-only memory can be written.
    moved.flags.writeable = array.flags.writeable or 0 not in array.strides
    return moved
