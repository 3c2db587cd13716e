"""Memory of a plan: every intermediate gets a slice of one arena for as long as someone may still read it."""

from __future__ import annotations

from bisect import bisect_left, insort

from ..kernel import Cache
from ..tape import NUMBER
from ..types import TensorType, count
from .program import ROUTINE, Program
from .units import MAX_OUTPUTS, Cluster, Units

ALIGNMENT = 64
LARGE = 1 << 15  # from here on finding the gap that fits best is worth its time

_SIZES: Cache[TensorType, int] = Cache("sizes in arenas", 8_000)


def _rounded(nbytes: int) -> int:
    """Whole cache lines; for small sizes from 512 bytes on in steps of an eighth or less, so that classes are few."""
    step = max(ALIGNMENT, 1 << max(nbytes.bit_length() - 4, 0)) if nbytes < LARGE else ALIGNMENT
    return max(-(-nbytes // step) * step, ALIGNMENT)


def _size_of(t: TensorType) -> int:
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
    """Large slices: the smallest gap that is large enough; gaps side by side become one."""

    def __init__(self) -> None:
        self.nbytes = 0
        self._gaps: list[tuple[int, int]] = []  # (size, offset), sorted
        self._starts: dict[int, int] = {}  # sizes of gaps, by where they begin
        self._ends: dict[int, int] = {}  # the same, by where they end

    def take(self, size: int) -> int:
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


class Places:
    """Where each root lies: an offset in the arena; inputs, outputs and what never reaches memory have none."""

    def __init__(self, units: Units, outside: set[int]) -> None:
        self.offsets: dict[int, int] = {}
        self.scratch: dict[int, int] = {}  # by position of the unit
        self._units = units
        self._small = _Classes()
        self._large = _BestFit()
        self._assign(units.program, outside)
        self.nbytes = self._large.nbytes + self._small.nbytes

    def _take(self, size: int) -> int:
        """An offset; below 0: -1 - the offset among small ones, which lie behind the large ones."""
        return -1 - self._small.take(size) if size < LARGE else self._large.take(size)

    def _give_back(self, offset: int, size: int) -> None:
        if offset < 0:
            self._small.give_back(-1 - offset, size)
        else:
            self._large.give_back(offset, size)

    def _assign(self, program: Program, outside: set[int]) -> None:
        units, types, offsets = self._units, program.types, self.offsets
        first, last, stored = units.first, units.last, units.stored
        dying: list[list[int]] = [[] for _ in units.units]
        sizes: dict[int, int] = {}
        for position, unit in enumerate(units.units):
            fused = type(unit) is Cluster
            taken_over: list[int] = []
            for result in unit.results if fused else unit[3]:  # type: ignore[union-attr, index] # as seen
                root = program.roots[result]
                if not stored[root] or first[root] != position or root in offsets or root in outside:
                    continue
                dying[last[root]].append(root)
                size = sizes[root] = _size_of(types[root])
                heir = None
                if fused and dying[position]:
                    heir = _heir_of(program, root, unit, dying[position], offsets, taken_over)  # type: ignore[arg-type]
                if heir is None:
                    offsets[root] = self._take(size)
                else:
                    taken_over.append(heir)
                    offsets[root] = offsets[heir]
            if not fused and unit[0] == ROUTINE and unit[1].scratch:  # type: ignore[index] # not a cluster
                size = _rounded(unit[1].scratch)  # type: ignore[index]
                self.scratch[position] = self._take(size)
                self._give_back(self.scratch[position], size)
            for root in dying[position]:
                if root not in taken_over:
                    self._give_back(offsets[root], sizes[root])
        n_large = self._large.nbytes
        for placed in (offsets, self.scratch):
            for key, offset in placed.items():
                if offset < 0:
                    placed[key] = n_large - 1 - offset


def _heir_of(
    program: Program, root: int, cluster: Cluster, dying: list[int], offsets: dict[int, int], taken_over: list[int]
) -> int | None:
    """An input that is read for the last time, element by element where `root` is written: its memory is free.

    Only if it is read in no other way there, and its elements have the same size.
    """
    if root in program.buffers or len(cluster.results) > MAX_OUTPUTS:
        return None
    t = program.types[root]
    for value in dying:
        if value not in cluster.codes or value in taken_over or value == root or value not in offsets:
            continue
        own = program.types[value]
        if own is not t and (own.shape != t.shape or own.dtype.itemsize != t.dtype.itemsize):
            continue
        if sum([code < NUMBER and program.roots[code] == value for code in cluster.codes]) == 1:
            return value
    return None
