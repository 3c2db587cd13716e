"""Storage: the memory behind tensors, and how often it was written.

The native backend allocates from its pool of aligned blocks (`backends.llvm.calls.memory`): there the base of an array
is a block, a Python object whose reference count says when the memory is free. Everything else is NumPy's own memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
ALIGNMENT = 64
BLOCK_TYPES: list[type] = []  # the type of the pool's blocks, once there is a pool


class Storage:
    """Memory shared by a tensor and its views. `version` counts writes; `written_at` is where the last one happened."""

    __slots__ = ("__weakref__", "array", "version", "written_at")

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
