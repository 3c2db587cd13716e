"""Which tensors share memory, and tensors on shared memory.

Tensors whose memory ranges overlap are stored once: the one that covers the others where there is one, else the range
that they span. Everything else is stored by value, row-major, so a small view of a large tensor takes a small file, and
disjoint parts of one buffer come back as tensors of their own. A tensor with negative strides (from NumPy) counts as
disjoint, and so does every NumPy array.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..core.storage import Array
from ..core.tensor import Tensor
from ..core.types import bool_, count, dtype, uint8
from ..ops import empty


class Window(NamedTuple):
    """Where a tensor lies in a stored array, in bytes. None in its place means all of the array, as it is."""

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class Place(NamedTuple):
    """The stored array that holds a tensor, and where in it."""

    name: str
    window: Window | None


class _Range(NamedTuple):
    position: int  # which of the arrays
    low: int
    high: int


SPAN = ".storage"  # ends the name of a range that no single tensor covers


def store(names: list[str], arrays: list[Array], can_share: list[bool]) -> tuple[dict[str, Array], list[Place]]:
    """(what to write: name -> row-major array, where each of the arrays is found in that). Names are unique."""
    groups, ranges = [], []
    for index, array in enumerate(arrays):
        strides = _strides(array)
        if can_share[index] and array.size and all(s >= 0 and s % array.itemsize == 0 for s in strides):
            ranges.append(_Range(index, *np.lib.array_utils.byte_bounds(array)))
        else:
            groups.append([_Range(index, 0, array.nbytes)])
    groups += _overlapping(ranges)
    stored: dict[str, Array] = {}
    places: dict[int, Place] = {}
    taken = set(names)
    for group in sorted(groups):  # not by address: the same objects make the same file
        _store_group(group, names, arrays, taken, stored, places)
    return stored, [places[index] for index in range(len(arrays))]


def _strides(array: Array) -> tuple[int, ...]:
    """NumPy's strides of dimensions of size 1 are arbitrary."""
    return tuple(s if n > 1 else array.itemsize for n, s in zip(array.shape, array.strides, strict=True))


def _overlapping(ranges: list[_Range]) -> Iterator[list[_Range]]:
    """Groups of ranges that hang together by sharing bytes, each in the order of saving."""
    group: list[_Range] = []
    end = 0
    for found in sorted(ranges, key=lambda r: r.low):
        if group and found.low >= end:
            yield sorted(group)
            group = []
        end = found.high if not group else max(end, found.high)
        group.append(found)
    if group:
        yield sorted(group)


def _store_group(
    group: list[_Range],
    names: list[str],
    arrays: list[Array],
    taken: set[str],
    stored: dict[str, Array],
    places: dict[int, Place],
) -> None:
    """Store one group of arrays that share memory; most have one member."""
    low, high = min(r.low for r in group), max(r.high for r in group)
    alone = len(group) == 1 and arrays[group[0].position].nbytes <= high - low
    covering = [r for r in group if (r.low, r.high) == (low, high) and arrays[r.position].flags.c_contiguous]
    if alone or covering:
        owner = group[0].position if alone else covering[0].position
        name, memory = names[owner], _row_major(arrays[owner])
    else:
        name, memory = unique(names[group[0].position] + SPAN, taken), _spanned(group, arrays, low, high)
    stored[name] = memory
    for r in group:
        array = arrays[r.position]
        whole = alone or (array.flags.c_contiguous and (array.shape, array.dtype) == (memory.shape, memory.dtype))
        places[r.position] = Place(name, None if whole else Window(r.low - low, array.shape, _strides(array)))


def unique(name: str, taken: set[str]) -> str:
    """The name, or the name with the first number that makes it one of its own; it is taken from then on."""
    number, made = 1, name
    while made in taken:
        number += 1
        made = f"{name}~{number}"
    taken.add(made)
    return made


def _spanned(group: list[_Range], arrays: list[Array], low: int, high: int) -> Array:
    """The bytes from low to high; where none of the arrays has an element there are zeros, never foreign memory."""
    span = np.zeros(high - low, np.uint8)
    for r in group:
        array = _unexpanded(arrays[r.position])
        np.ndarray(array.shape, array.dtype, span, r.low - low, _strides(array))[...] = array
    d = arrays[group[0].position].dtype
    same = all(arrays[r.position].dtype == d and (r.low - low) % d.itemsize == 0 for r in group)
    return span.view(d) if same and len(span) % d.itemsize == 0 else span


def _unexpanded(array: Array) -> Array:
    """Each element once where dimensions were expanded: there can be any number of them on a single one."""
    return array[tuple([slice(1) if stride == 0 else slice(None) for stride in array.strides])]


def _row_major(array: Array) -> Array:
    """The array, copied where its elements do not lie in order."""
    # Not ascontiguousarray, which would give a 0-dim array a dimension.
    return np.asarray(array, array.dtype.newbyteorder("="), order="C")


def fits(window: Window, itemsize: int, nbytes: int) -> bool:
    """Whether the window lies inside of a memory of that many bytes and has whole elements for strides."""
    offset, shape, strides = window
    if len(shape) != len(strides) or any(v < 0 for v in (offset, *shape, *strides)):
        return False
    if any(s % itemsize for s in strides) or count(shape) >= 1 << 62:
        return False
    return offset + _extent(window, itemsize) <= nbytes


def _extent(window: Window, itemsize: int) -> int:
    """Bytes from the first element to the end of the last one."""
    if not count(window.shape):
        return 0
    return sum((n - 1) * s for n, s in zip(window.shape, window.strides, strict=True)) + itemsize


def tensor_at(memory: Tensor, d: dtype, window: Window) -> Tensor:
    """A tensor on a part of `memory` (any dtype and shape, row-major); writes to either are noticed in both."""
    if not count(window.shape):
        return empty(window.shape, dtype=d)
    whole = memory.reshape(-1).view(uint8)
    part = whole.narrow(0, window.offset, _extent(window, d.itemsize)).view(d)
    strides = [s // d.itemsize for s in window.strides]
    return part.as_strided(window.shape, strides).detach()


class Booleans:
    """Whether boolean tensors of a file hold zeros and ones alone, found out in time that goes by the file's size.

    An expanded tensor can have any number of elements on one byte, so it is the memory that is looked at, and that
    once. Only where it has other bytes, which a part of it need not have, are the elements of the tensor.
    """

    def __init__(self) -> None:
        self._left: dict[int, int | None] = {}  # by memory: elements that may yet be looked at; None: no need to

    def has(self, tensor: Tensor, memory: Tensor) -> bool:
        """Whether all of a boolean tensor on `memory` are 0 or 1."""
        if id(memory) not in self._left:
            is_boolean = memory.dtype is bool_ or _most(memory) <= 1
            self._left[id(memory)] = None if is_boolean else 4 * memory.numel() * memory.dtype.itemsize
        left = self._left[id(memory)]
        if left is None:
            return True
        self._left[id(memory)] = left - tensor.numel()
        return tensor.numel() <= left and _most(tensor) <= 1


def _most(tensor: Tensor) -> int:
    """The largest of its bytes."""
    return int(tensor.reshape(-1).view(uint8).max().item()) if tensor.numel() else 0
