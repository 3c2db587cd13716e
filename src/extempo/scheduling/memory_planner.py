"""Memory of a plan: every intermediate gets a slice of one arena for as long as someone may still read it.

Units run in a known order, so who is live when is known (`ScheduleUnits.last`), and one pass over them places
everything: a unit's results take slices, then what it read for the last time is given back. Three rules beside that:

- A result may take over the memory of an input that dies in the same cluster (`_heirs`), if the cluster reads it
  element by element only: an element is then read before it is overwritten.
- Units that are interleaved run part by part. What one of them reads, and scratch memory, stays until the last is done.
- Small slices are found by size class, a list each, because there are many of them and finding one must cost next to
  nothing; large ones by best fit, because there a wrong gap costs megabytes. They are in two regions, so that small
  ones never cut up what large ones could use.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import Any

from ..core.cache import Cache
from ..core.types import TensorType, count
from .fusion import MAX_OUTPUTS, Cluster, ScheduleUnits
from .program import ROUTINE

ALIGNMENT = 64
LARGE = 1 << 15  # from here on finding the gap that fits best is worth its time

_SIZES: Cache[TensorType, int] = Cache("sizes in arenas", 8_000)


def _rounded(nbytes: int) -> int:
    """Whole cache lines; for small sizes from 512 bytes on in steps of an eighth or less, so that classes are few."""
    step = max(ALIGNMENT, 1 << max(nbytes.bit_length() - 4, 0)) if nbytes < LARGE else ALIGNMENT
    return max(-(-nbytes // step) * step, ALIGNMENT)


def size_of(t: TensorType) -> int:
    found = _SIZES.get(t)
    if found is None:
        found = _SIZES.put(t, _rounded(count(t.shape) * t.dtype.itemsize))
    return found


class _Classes:
    """Small slices, by size class; one that was given back is the next of its class."""

    def __init__(self) -> None:
        self.nbytes = 0
        self._free: dict[int, list[int]] = {}

    def take(self, size: int) -> int:
        free = self._free.get(size)
        if free:
            return free.pop()
        offset = self.nbytes
        self.nbytes += size
        return offset

    def give_back(self, offset: int, size: int) -> None:
        free = self._free.get(size)
        if free is None:
            self._free[size] = [offset]
        else:
            free.append(offset)


class _BestFit:
    """Large slices: the smallest gap that is large enough; gaps side by side become one.

    What was given back waits for someone who wants just that size, and becomes a gap when another size is wanted.
    """

    def __init__(self) -> None:
        self.nbytes = 0
        self._gaps: list[tuple[int, int]] = []  # (size, offset), sorted
        self._starts: dict[int, int] = {}  # sizes of gaps, by where they begin
        self._ends: dict[int, int] = {}  # the same, by where they end
        self._given_back: dict[int, list[int]] = {}  # offsets by size

    def take(self, size: int) -> int:
        waiting = self._given_back.get(size)
        if waiting:
            return waiting.pop()
        for other, offsets in self._given_back.items():
            for offset in offsets:
                self._add_joined(offset, other)
        self._given_back.clear()
        at = bisect_left(self._gaps, (size, 0))
        if at < len(self._gaps):
            found, offset = self._gaps[at]
            self._remove(offset, found)
            if found > size:
                self._add(offset + size, found - size)
            return offset
        last = self._ends.get(self.nbytes, 0)  # a gap at the end is a beginning
        offset = self.nbytes - last
        if last:
            self._remove(offset, last)
        self.nbytes = offset + size
        return offset

    def give_back(self, offset: int, size: int) -> None:
        self._given_back.setdefault(size, []).append(offset)

    def _add_joined(self, offset: int, size: int) -> None:
        after = self._starts.get(offset + size)
        if after is not None:
            self._remove(offset + size, after)
            size += after
        before = self._ends.get(offset)
        if before is not None:
            offset -= before
            self._remove(offset, before)
            size += before
        self._add(offset, size)

    def _add(self, offset: int, size: int) -> None:
        insort(self._gaps, (size, offset))
        self._starts[offset] = self._ends[offset + size] = size

    def _remove(self, offset: int, size: int) -> None:
        del self._gaps[bisect_left(self._gaps, (size, offset))]
        del self._starts[offset], self._ends[offset + size]


class MemoryPlan:
    """Where each root is: an offset in the arena; inputs, outputs and what never reaches memory have none.

    Small slices are behind the large ones, whose total is not known before the end: until then their offsets are below
    0, as -1 - the offset among small ones.
    """

    def __init__(self, units: ScheduleUnits, outside: set[int]) -> None:
        self.offsets: dict[int, int] = {}
        self.scratch: dict[int, int] = {}  # by position of the unit
        self._units = units
        self._small = _Classes()
        self._large = _BestFit()
        self._sizes = dict.fromkeys(outside, 0)  # of roots that have been met
        self._by_type: dict[int, int] = {}  # sizes, by the id of a type
        self._dying: dict[int, list[int]] = {}  # roots, by the position after which they are not needed
        self._returning: dict[int, list[tuple[int, int]]] = {}  # scratch (offset, size), by the same
        for position, unit in enumerate(units.units):
            self._place_results(position, unit)
            if type(unit) is tuple and unit[0] == ROUTINE and unit[1].scratch:
                self._take_scratch(position, unit[1].scratch)
            if position in self._dying or position in self._returning:
                self._give_back_after(position)
        self._put_small_behind_large()
        self.nbytes = self._large.nbytes + self._small.nbytes

    def _take(self, size: int) -> int:
        return -1 - self._small.take(size) if size < LARGE else self._large.take(size)

    def _give_back(self, offset: int, size: int) -> None:
        if offset < 0:
            self._small.give_back(-1 - offset, size)
        else:
            self._large.give_back(offset, size)

    def _place_results(self, position: int, unit: Any) -> None:
        units, dying, sizes, by_type, offsets = self._units, self._dying, self._sizes, self._by_type, self.offsets
        types, roots, buffers = units.program.types, units.program.roots, units.program.buffers
        until = units.ends.get(position, position)
        heirs: Sequence[int] = ()
        if type(unit) is Cluster:
            results: Sequence[int] = unit.writes
            if until in dying:
                heirs = _heirs(unit, dying[until])
        else:
            results = unit[3]
        for result in results:
            root = roots[result]
            if root in sizes:
                continue
            t = types[root]
            size = sizes[root] = by_type.get(id(t)) or by_type.setdefault(id(t), size_of(t))
            inherits = heirs and root not in buffers and root not in units.local
            heir = _heir_of(heirs, t, types) if inherits else None
            if heir is None:
                offsets[root] = self._take(size)
            else:
                heirs = [value for value in heirs if value != heir]
                dying[until].remove(heir)
                offsets[root] = offsets[heir]
            dying.setdefault(units.last[root], []).append(root)

    def _take_scratch(self, position: int, nbytes: int) -> None:
        size = _rounded(nbytes)
        offset = self.scratch[position] = self._take(size)
        self._returning.setdefault(self._units.ends.get(position, position), []).append((offset, size))

    def _give_back_after(self, position: int) -> None:
        """What is not needed any more."""
        for offset, size in self._returning.pop(position, ()):
            self._give_back(offset, size)
        for root in self._dying.pop(position, ()):
            self._give_back(self.offsets[root], self._sizes[root])

    def _put_small_behind_large(self) -> None:
        n_large = self._large.nbytes
        for placed in (self.offsets, self.scratch):
            for key, offset in placed.items():
                if offset < 0:
                    placed[key] = n_large - 1 - offset


def _heirs(cluster: Cluster, dying: list[int]) -> list[int]:
    """Inputs that are read for the last time, and in no other way than element by element, whose memory is then free.

    A cluster of too many results becomes several kernels, each of which reads its inputs.
    """
    if len(cluster.stored) > MAX_OUTPUTS:
        return []
    refs, seen = cluster.refs, cluster.seen
    return [value for value in dying if value in refs and refs[value] >= 0 and value not in seen]


def _heir_of(heirs: Sequence[int], t: TensorType, types: list[TensorType]) -> int | None:
    """The first heir whose elements lie where those of a result of type `t` will."""
    for value in heirs:
        own = types[value]
        if own is t or (own.shape == t.shape and own.dtype.itemsize == t.dtype.itemsize):
            return value
    return None
