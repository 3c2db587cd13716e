"""Whose memory can be moved: parameters that nobody but themselves can see.

With `flat_buffers`, the only part of `optim` that knows a tensor's layout in memory. A NumPy array, a view, `detach()`,
another parameter on the same memory, a recorded graph: each holds a reference that a count of references shows.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ..backends.selection import is_block
from ..core.storage import ALIGNMENT, Array
from ..core.tensor import Tensor
from ..core.weak import WeakMembers

# The memory that parameters were moved to: there, neighbours on the same base do not overlap.
BUFFERS: WeakMembers[Array] = WeakMembers()


def _references(held: list[Any], position: int) -> int:
    return sys.getrefcount(held[position])


_ONLY_HELD = _references([object()], 0)  # the count of an object that only the list refers to; interpreters differ


def _other_references(held: list[Any]) -> list[int]:
    """For each object in the list, how many references to it there are apart from the list's own."""
    return [_references(held, i) - _ONLY_HELD for i in range(len(held))]


def _plain(p: Tensor) -> bool:
    """Whether the memory has a form that can be moved at all, whoever else may see it."""
    array, storage = p._array, p._storage
    if array is None or p._alias is not None or storage.array is not array:
        return False
    base = array.base
    owned = base is None or is_block(base) or (isinstance(base, np.ndarray) and base.base is None)
    return owned and array.flags.c_contiguous and array.flags.writeable and array.size > 0


def unseen(parameters: list[Tensor]) -> list[Tensor]:
    """Those whose memory nobody but themselves can see, so that it can be moved."""
    plain = [p for p in parameters if _plain(p)]
    arrays = _other_references([p._array for p in plain])  # held by the tensor and by its storage
    storages = _other_references([p._storage for p in plain])  # held by the tensor
    bases = _other_references([p._array.base for p in plain])
    on_base: dict[int, int] = {}
    for p in plain:
        on_base[id(p._array.base)] = on_base.get(id(p._array.base), 0) + 1
    found = []
    for i, p in enumerate(plain):
        base = p._array.base
        alone = arrays[i] == 2 and storages[i] == 1
        if alone and base is not None:
            key = id(base)
            ours = base in BUFFERS
            # The list of bases refers to a shared one several times.
            neighbours = 2 * on_base[key] - 1 if ours else 1
            alone = bases[i] == neighbours and (ours or on_base[key] == 1)
        if alone:
            found.append(p)
    return found


def buffer(n_elements: int, d: np.dtype[Any]) -> Array:
    """A flat array of zeros whose first element is aligned like every storage."""
    raw = np.empty(n_elements * d.itemsize + ALIGNMENT, np.uint8)
    offset = -raw.ctypes.data % ALIGNMENT
    flat: Array = raw[offset : offset + n_elements * d.itemsize].view(d)
    flat.fill(0)
    return flat
