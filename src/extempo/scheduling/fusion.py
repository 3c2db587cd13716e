"""From nodes to units: elementwise nodes of one shape become clusters.

ScheduleUnits stand in the order in which they will run, and only grow at the end. A node may join a cluster if all that
it reads was made before that cluster or within it; it must have something to do with it: read what it makes or reads.
So the same few clusters come up whatever the number of steps, and few kernels are ever built. At last some units are
joined (`interleaving`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import eq
from typing import Any

from ..backends.llvm.plans.expressions import Expression
from ..core.trace_tree import NUMBER
from .interleaving import Join
from .program import UPDATE, Node, Program

MAX_INPUTS, MAX_OUTPUTS = 20, 20
MAX_COST = 50  # of the nodes of a cluster: a kernel takes LLVM about as many milliseconds at most


class Cluster:
    """Elementwise nodes that run as one kernel."""

    __slots__ = (
        *("cost", "flat", "operands", "position", "refs", "results"),
        *("seen", "shape", "step", "stored", "writes", "zone"),
    )

    def __init__(self, position: int, shape: tuple[int, ...], step: int) -> None:
        self.position = position
        self.shape = shape
        self.step = step
        self.cost = 0.0
        self.zone: Any = None  # to which part of the program its first node belongs
        self.operands: list[int] = []  # codes of what is read from memory
        self.refs: dict[int, int] = {}  # how nodes name a code: as an operand, or as -1 - the node that made it
        self.seen: list[int] = []  # roots that operands are views of
        self.flat: list[Any] = []  # one node after another: an expression, then the refs of its inputs
        self.results: list[int] = []  # of each node
        # Known when all units are:
        self.stored: list[int]  # the nodes whose results are written to memory
        self.writes: list[int]  # these results

    def nodes(self) -> Iterator[tuple[Expression, tuple[int, ...]]]:
        flat, at = self.flat, 0
        while at < len(flat):
            expression = flat[at]
            end = at + 1 + len(expression.inputs)
            yield expression, tuple(flat[at + 1 : end])
            at = end


class ScheduleUnits:
    """The units of a program, and for every root when it is written and read."""

    def __init__(
        self, program: Program, nodes: Sequence[Node], outputs: Sequence[int], zones: Mapping[int, Any] | None = None
    ) -> None:
        """`nodes`: those that are needed. `zones`: to which part of the program each value belongs, if nodes of
        different parts are not to be fused."""
        self.program = program
        self.zones = zones
        self.units: list[Cluster | Node] = []
        n_values = len(program.types)
        self.written = [-1] * n_values  # the last unit that writes it; -1: from outside
        self.first: dict[int, int] = {}  # for buffers: the first one
        self.last = [-1] * n_values  # the last one that reads or writes it
        self.stored = bytearray(n_values)  # whether someone reads it from memory
        self.ends: dict[int, int] = {}  # by position of units that run in turn: that of the last of them
        self.local: set[int] = set()  # values that are only read by units that run in turn with the one that makes them
        for value in outputs:
            self.stored[value] = 1
        self._group(nodes)
        Join(self, {*outputs})
        stored, roots = self.stored, program.roots
        for unit in self.units:
            if type(unit) is Cluster:
                results = unit.results
                unit.stored = [i for i, value in enumerate(results) if stored[roots[value]]]
                unit.writes = [results[i] for i in unit.stored]

    def _group(self, nodes: Sequence[Node]) -> None:
        """Put every node into a unit. (One loop, without calls: it runs for every node of every plan.)"""
        program, units, written, last = self.program, self.units, self.written, self.last
        roots, types, buffers, stored = program.roots, program.types, program.buffers, self.stored
        zones = self.zones
        home = [-1] * len(types)  # by root: the last cluster that makes it, or reads it in its own shape
        simple = bytearray(map(eq, roots, range(len(roots))))  # no view, no buffer: it may stay in registers
        for root in buffers:
            simple[root] = 0
        for node in nodes:
            kind, expression, inputs, results, step, may_fail = node
            if kind > UPDATE:
                position = len(units)
                units.append(node)
                for code in inputs:
                    if 0 <= code < NUMBER:
                        root = roots[code]
                        stored[root] = 1
                        last[root] = position
                for result in results:
                    self._write(result, position)
                continue
            result = results[0]
            shape = types[result].shape
            earliest = 0
            position = -1
            for code in inputs:
                if code < NUMBER:
                    if simple[code]:
                        ready, found = written[code], home[code]
                    else:  # only through memory, so only when it has been written
                        root = roots[code]
                        ready, found = written[root] + 1, home[root]
                    if ready > earliest:
                        earliest = ready
                    if (
                        found > position
                        and units[found].shape == shape  # type: ignore[union-attr] # a cluster
                        and (zones is None or zones.get(result) == units[found].zone)  # type: ignore[union-attr] # so
                    ):
                        position = found
            cluster: Any = units[position] if position >= earliest else None
            if (
                cluster is None
                or cluster.cost + expression.cost > MAX_COST
                or len(cluster.operands) + len(inputs) > MAX_INPUTS
            ):
                position = len(units)
                cluster = Cluster(position, shape, step)
                if zones is not None:
                    cluster.zone = zones.get(result)
                units.append(cluster)
            refs, flat = cluster.refs, cluster.flat
            flat.append(expression)
            for code in inputs:
                ref = refs.get(code)
                if ref is None:
                    ref = refs[code] = len(cluster.operands)
                    cluster.operands.append(code)
                    if code < NUMBER:
                        root = roots[code]
                        stored[root] = 1
                        if last[root] < position:
                            last[root] = position
                        if root != code:
                            cluster.seen.append(root)
                            # Slices of a leaf may be many: who reads them does not belong together for that.
                            if written[root] < 0:
                                flat.append(ref)
                                continue
                        if types[code].shape == shape:
                            home[root] = position
                flat.append(ref)
            refs[result] = -1 - len(cluster.results)
            cluster.results.append(result)
            cluster.cost += expression.cost
            if may_fail:
                cluster.step = step
            if simple[result]:
                home[result] = written[result] = last[result] = position
            else:
                home[roots[result]] = position
                self._write(result, position)

    def _write(self, result: int, position: int) -> None:
        """Note that a unit writes a value that is seen through memory."""
        root = self.program.roots[result]
        self.stored[root] = 1
        if root in self.program.buffers and self.first.get(root, position) >= position:
            self.first[root] = position
        if self.written[root] < position:
            self.written[root] = position
        if self.last[root] < position:
            self.last[root] = position

    def renumber(self, units: list[Cluster | Node]) -> None:
        """The same units in another order. Who runs in turn uses all it uses until the last of them is done."""
        self.units, self.first = units, {}
        self.written, self.last = ([-1] * len(self.program.types) for _ in range(2))
        roots, last = self.program.roots, self.last
        for position, unit in enumerate(units):
            end = self.ends.get(position, position)
            if type(unit) is Cluster:
                unit.position = position
                inputs: Sequence[int] = unit.operands
                results: Sequence[int] = unit.results
            else:
                _, _, inputs, results, _, _ = unit  # type: ignore[misc] # a node
            for code in inputs:
                if 0 <= code < NUMBER:
                    last[roots[code]] = end
            for result in results:
                root = roots[result]
                self.written[root], last[root] = position, end
                if root in self.program.buffers:
                    self.first.setdefault(root, position)
