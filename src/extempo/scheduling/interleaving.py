"""Which units are interleaved: run part by part, as one instruction, so that values are used while in the cache.

- a cluster, then sums of what it computes (a loss, the gradient of a bias). What only these sums read is never written
  as a whole;
- a matrix product, then a cluster that reads it (a bias, an activation).

They are moved next to each other: a sum can run as soon as its cluster has, a product can wait until it is read. All
that one of them reads or writes stays where it is until the last of them is done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..backends.llvm.plans.sums import MAX_SUMS
from ..backends.llvm.routines.products import Product
from ..backends.llvm.routines.reductions import Summed
from ..core.trace_tree import NUMBER
from ..core.types import count
from .program import ROUTINE, Node

if TYPE_CHECKING:
    from .fusion import Cluster, ScheduleUnits

# Elements from which on it pays: what is smaller stays in a near cache anyhow.
LEAST_SUMMED = 1 << 13
LEAST_MADE = 1 << 16  # by a product, which takes much longer than what follows


class Join:
    """Finds which units can be interleaved, and moves them next to each other."""

    def __init__(self, units: ScheduleUnits, outputs: set[int]) -> None:
        self._units = units
        self._outputs = outputs
        self._before: dict[int, int] = {}  # products, by the cluster
        self._after: dict[int, list[int]] = {}  # sums, by the cluster
        wanted = self._candidates()
        if not wanted:
            return
        self._readers = self._find_readers(wanted.values())
        sums: dict[int, dict[Any, list[int]]] = {}  # by cluster and by how they go through what it makes
        for position, value in wanted.items():
            if type(self._node(position)[1].parts) is Summed:
                self._try_sum(position, value, sums)
        for at, ways in sums.items():
            self._after[at] = max(ways.values(), key=len)  # one pass has one way
        for position, value in wanted.items():
            if type(self._node(position)[1].parts) is Product:
                self._try_product(position, value)
        if self._before or self._after:
            self._move()

    def _node(self, position: int) -> Any:
        return self._units.units[position]

    def _candidates(self) -> dict[int, int]:
        """By position: the value that would not have to go through memory."""
        program, found = self._units.program, {}
        types, roots, buffers = program.types, program.roots, program.buffers
        for position, unit in enumerate(self._units.units):
            if type(unit) is tuple and unit[0] == ROUTINE and unit[1].parts is not None:
                is_sum = type(unit[1].parts) is Summed
                value, least = (unit[2][0], LEAST_SUMMED) if is_sum else (unit[3][0], LEAST_MADE)
                if count(types[value].shape) >= least and roots[value] == value and value not in buffers:
                    found[position] = value
        return found

    def _find_readers(self, values: Any) -> dict[int, list[int]]:
        """The units that read each value in some way, in order."""
        readers: dict[int, list[int]] = {value: [] for value in values}
        roots = self._units.program.roots
        for position, unit in enumerate(self._units.units):
            for code in inputs_of(unit):
                if 0 <= code < NUMBER and roots[code] in readers:
                    readers[roots[code]].append(position)
        return readers

    def _same_zone(self, cluster: Cluster, node: Node) -> bool:
        zones = self._units.zones
        return zones is None or zones.get(node[3][0]) == cluster.zone

    def _try_sum(self, position: int, value: int, found: dict[int, dict[Any, list[int]]]) -> None:
        node: Any = self._node(position)
        at = self._units.written[value]
        cluster: Any = self._node(at) if at >= 0 else None
        if type(cluster) is tuple or cluster is None or cluster.refs.get(value, 0) >= 0:
            return
        if not self._same_zone(cluster, node):
            return
        sums = found.setdefault(at, {}).setdefault(node[1].parts[:-1], [])
        # Copies of a window have one scratch memory.
        alone = self._units.zones is not None and node[1].scratch and sums
        if len(sums) < MAX_SUMS and not alone:
            sums.append(position)

    def _try_product(self, position: int, value: int) -> None:
        units, node = self._units, self._node(position)
        readers = self._readers[value]
        if not readers:
            return
        at, roots, types = readers[0], units.program.roots, units.program.types
        cluster: Any = self._node(at)
        if type(cluster) is tuple or at in self._before or at in self._after or value not in cluster.refs:
            return
        if types[value].shape != cluster.shape or not self._same_zone(cluster, node):
            return
        if any(0 <= code < NUMBER and units.written[roots[code]] > position for code in node[2]):
            return
        others = node[3][1:]
        if others and any(roots[code] in others for i in range(position + 1, at + 1) for code in self._codes(i)):
            return
        self._before[at] = position

    def _codes(self, position: int) -> list[int]:
        return [code for code in inputs_of(self._node(position)) if 0 <= code < NUMBER]

    def _move(self) -> None:
        units, before, after = self._units, self._before, self._after
        moved = {*before.values(), *(position for sums in after.values() for position in sums)}
        order: list[int] = []
        for position in range(len(units.units)):
            if position in moved:
                continue
            first = len(order)
            if position in before:
                order.append(before[position])
                roots = units.program.roots
                # The product reads these as a whole: no result may be written over one of them.
                self._node(position).seen.extend(roots[code] for code in self._codes(before[position]))
            order.append(position)
            if position in after:
                order += after[position]
                self._find_local(position)
            if len(order) > first + 1:
                units.ends.update(dict.fromkeys(range(first, len(order)), len(order) - 1))
        units.renumber([units.units[position] for position in order])

    def _find_local(self, at: int) -> None:
        """What only the sums of this cluster read."""
        sums = self._after[at]
        for value in {self._node(position)[2][0] for position in sums}:
            if value not in self._outputs and set(self._readers[value]) <= set(sums):
                self._units.local.add(value)


def inputs_of(unit: Any) -> Any:
    """The codes that a unit reads."""
    return unit[2] if type(unit) is tuple else unit.operands
