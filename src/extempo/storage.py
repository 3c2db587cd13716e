"""Storage: the memory behind tensors, and how often it was written.

A storage has two faces. `array` is the NumPy array that owns or wraps the memory, `address` its first byte. Whichever
is missing is made on demand. Memory that Extempo allocates itself comes from a pool of 64-byte aligned blocks, so that
vector loads never straddle a cache line and a training loop reuses the same few blocks.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

import numpy as np

from .types import TensorType, count

Array = np.ndarray[Any, Any]
ALIGNMENT = 64
_LARGEST_POOLED = 1 << 26  # beyond this the allocator's own mapping is as good, and keeping it would hoard memory
_POOL_LIMIT = 1 << 28

# What a raw block's count shows when nobody but the storage and the counting call itself hold it; measured at import,
# because interpreters differ in what they count.
_LONE_COUNT = 0


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


class PooledStorage(Storage):
    """Storage on a block of the pool, given back when the last tensor, view and NumPy array on it are gone."""

    __slots__ = ("_block",)

    def __init__(self, block: Array, array: Array) -> None:
        super().__init__(array)
        self._block = block

    def __del__(self) -> None:
        block = self._block
        self._block = self.array = None  # type: ignore[assignment] # the storage is going away
        # An array handed out by numpy() or DLPack refers to the block through its base: then NumPy owns it from now on.
        if block is not None and sys.getrefcount(block) == _LONE_COUNT:
            POOL.give_back(block)


class Pool:
    """Free blocks by size class (powers of two). Bounded: beyond the limit, blocks go back to the system."""

    def __init__(self) -> None:
        self._free: dict[int, list[Array]] = {}
        self._lock = threading.Lock()
        self.held = 0
        self.reused = 0
        self.allocated = 0

    def allocate(self, type_: TensorType) -> PooledStorage:
        """A storage for a tensor of that type; its values are arbitrary."""
        nbytes = count(type_.shape) * type_.dtype.itemsize
        size = max(ALIGNMENT, 1 << (nbytes - 1).bit_length() if nbytes else 0)
        block = self._take(size) if size <= _LARGEST_POOLED else None
        if block is None:
            block = np.empty((size if size <= _LARGEST_POOLED else nbytes) + ALIGNMENT, np.uint8)
            self.allocated += 1
        offset = -block.ctypes.data % ALIGNMENT
        array = block[offset : offset + nbytes].view(type_.dtype.numpy).reshape(type_.shape)
        return PooledStorage(block, array)

    def _take(self, size: int) -> Array | None:
        with self._lock:
            free = self._free.get(size)
            if not free:
                return None
            self.held -= size
            self.reused += 1
            return free.pop()

    def give_back(self, block: Array) -> None:
        """Keep the block for the next allocation of its size, unless the pool is full."""
        size = block.nbytes - ALIGNMENT
        # A finaliser may run inside `_take` on this very thread: never wait for the lock here.
        if size & (size - 1) or size > _LARGEST_POOLED or not self._lock.acquire(blocking=False):
            return
        try:
            if self.held + size <= _POOL_LIMIT:
                self.held += size
                self._free.setdefault(size, []).append(block)
        finally:
            self._lock.release()

    def clear(self) -> None:
        """Give every free block back to the system."""
        with self._lock:
            self._free.clear()
            self.held = 0

    def stats(self) -> dict[str, int]:
        """Bytes held free, and how many blocks were newly allocated and reused."""
        return {"free_bytes": self.held, "blocks_allocated": self.allocated, "blocks_reused": self.reused}

    def reset_after_fork(self) -> None:
        """A thread of the parent may have held the lock; it does not exist here."""
        self._lock = threading.Lock()


POOL = Pool()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=POOL.reset_after_fork)


def _measure_lone_count() -> int:
    seen: list[int] = []

    class Probe(PooledStorage):
        __slots__ = ()

        def __del__(self) -> None:
            block = self._block
            self._block = self.array = None  # type: ignore[assignment] # as above
            seen.append(sys.getrefcount(block))

    block: Any = np.empty(2 * ALIGNMENT, np.uint8)
    array: Any = block[:8].view(np.float32)
    probe: Any = Probe(block, array)
    del block, array, probe
    return seen[0]


_LONE_COUNT = _measure_lone_count()
