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
from .program import UPDATE, Node, PlanProgram

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
        self,
        program: PlanProgram,
        nodes: Sequence[Node],
        outputs: Sequence[int],
        zones: Mapping[int, Any] | None = None,
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
        self.ends: dict[int, int] = {}  # by position of units that are interleaved: that of the last of them
        self.local: set[int] = (
            set()
        )  # values that are only read by units that are interleaved with the one that makes them
        for value in outputs:
            self.stored[value] = 1
        grouping = _Grouping(self)
        for node in nodes:
            grouping.add(node)
        Join(self, {*outputs})
        stored, roots = self.stored, program.roots
        for unit in self.units:
            if type(unit) is Cluster:
                results = unit.results
                unit.stored = [i for i, value in enumerate(results) if stored[roots[value]]]
                unit.writes = [results[i] for i in unit.stored]

    def renumber(self, units: list[Cluster | Node]) -> None:
        """The same units in another order. Who is interleaved uses all it uses until the last of them is done."""
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


class _Grouping:
    """Puts nodes into units, one after another: elementwise ones into clusters, each of the others by itself.

    It runs for every node of every plan, so what does not depend on the node is kept at hand.
    """

    __slots__ = (
        "_buffers",
        "_home",
        "_last",
        "_roots",
        "_simple",
        "_stored",
        "_types",
        "_units",
        "_written",
        "_zones",
        "out",
    )

    def __init__(self, out: ScheduleUnits) -> None:
        program = out.program
        self.out = out
        self._units, self._written, self._last, self._stored = out.units, out.written, out.last, out.stored
        self._roots, self._types, self._buffers, self._zones = program.roots, program.types, program.buffers, out.zones
        self._home = [-1] * len(program.types)  # by root: the last cluster that makes it, or reads it in its own shape
        # Neither a view nor a buffer: it may stay in registers.
        self._simple = bytearray(map(eq, program.roots, range(len(program.roots))))
        for root in program.buffers:
            self._simple[root] = 0

    def add(self, node: Node) -> None:
        kind, _, inputs, results, _, _ = node
        if kind > UPDATE:
            self._add_alone(node, inputs, results)
            return
        cluster = self._cluster_for(node)
        self._read(cluster, node)
        self._make(cluster, node)

    def _add_alone(self, node: Node, inputs: Sequence[int], results: Sequence[int]) -> None:
        position = len(self._units)
        self._units.append(node)
        for code in inputs:
            if 0 <= code < NUMBER:
                root = self._roots[code]
                self._stored[root] = 1
                self._last[root] = position
        for result in results:
            self._write(result, position)

    def _cluster_for(self, node: Node) -> Cluster:
        """The last cluster of the node's shape that makes or reads one of its inputs, if the node may join it."""
        _, expression, inputs, results, step, _ = node
        shape = self._types[results[0]].shape
        zone = None if self._zones is None else self._zones.get(results[0])
        units, simple, written, home = self._units, self._simple, self._written, self._home
        earliest, position = 0, -1
        for code in inputs:
            if code < NUMBER:
                if simple[code]:
                    ready, found = written[code], home[code]
                else:  # only through memory, so only when it has been written
                    root = self._roots[code]
                    ready, found = written[root] + 1, home[root]
                if ready > earliest:
                    earliest = ready
                if found > position and units[found].shape == shape and units[found].zone == zone:  # type: ignore[union-attr] # a cluster
                    position = found
        if position >= earliest:
            cluster: Any = units[position]
            if cluster.cost + expression.cost <= MAX_COST and len(cluster.operands) + len(inputs) <= MAX_INPUTS:
                return cluster
        cluster = Cluster(len(units), shape, step)
        cluster.zone = zone
        units.append(cluster)
        return cluster

    def _read(self, cluster: Cluster, node: Node) -> None:
        """Have a cluster compute the node, with what that reads as operands or from its own nodes."""
        _, expression, inputs, _, _, _ = node
        refs, flat = cluster.refs, cluster.flat
        flat.append(expression)
        for code in inputs:
            ref = refs.get(code)
            if ref is None:
                ref = refs[code] = len(cluster.operands)
                cluster.operands.append(code)
                if code < NUMBER:
                    self._read_from_memory(cluster, code)
            flat.append(ref)

    def _read_from_memory(self, cluster: Cluster, code: int) -> None:
        root, position = self._roots[code], cluster.position
        self._stored[root] = 1
        if self._last[root] < position:
            self._last[root] = position
        if root != code:
            cluster.seen.append(root)
            if self._written[root] < 0:
                return  # slices of a leaf may be many: who reads them does not belong together for that
        if self._types[code].shape == cluster.shape:
            self._home[root] = position

    def _make(self, cluster: Cluster, node: Node) -> None:
        """Note the result of a node that a cluster computes."""
        _, expression, _, (result,), step, may_fail = node
        cluster.refs[result] = -1 - len(cluster.results)
        cluster.results.append(result)
        cluster.cost += expression.cost
        if may_fail:
            cluster.step = step
        position = cluster.position
        if self._simple[result]:
            self._home[result] = self._written[result] = self._last[result] = position
        else:
            self._home[self._roots[result]] = position
            self._write(result, position)

    def _write(self, result: int, position: int) -> None:
        """Note that a unit writes a value that is seen through memory."""
        root = self._roots[result]
        self._stored[root] = 1
        if root in self._buffers and self.out.first.get(root, position) >= position:
            self.out.first[root] = position
        if self._written[root] < position:
            self._written[root] = position
        if self._last[root] < position:
            self._last[root] = position
