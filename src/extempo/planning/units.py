"""From nodes to units: elementwise nodes of one shape become clusters.

Units stand in the order in which they will run, and only grow at the end. A node may join a cluster if all that it
reads was made before that cluster or within it; it must have something to do with it: read what it makes or reads.
So the same few clusters come up whatever the number of steps, and few kernels are ever built.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..backends.llvm.plans.expressions import Expression
from ..tape import NUMBER
from .needing import needed_nodes
from .program import UPDATE, Node, Program

MAX_NODES, MAX_INPUTS, MAX_OUTPUTS = 50, 20, 20


class Cluster:
    """Elementwise nodes that run as one kernel."""

    __slots__ = ("codes", "local", "nodes", "position", "results", "shape", "step")

    def __init__(self, position: int, shape: tuple[int, ...], step: int) -> None:
        self.position = position
        self.shape = shape
        self.step = step
        self.codes: dict[int, int] = {}  # the operands that are read from memory, in order
        self.local: dict[int, int] = {}  # values made here, by node
        self.nodes: list[tuple[Expression, tuple[int, ...]]] = []  # inputs: operands, or -1 - a node before
        self.results: list[int] = []


class Units:
    """The units of a program, and for every root when it is written and read."""

    def __init__(self, program: Program, outputs: Sequence[int]) -> None:
        self.program = program
        self.units: list[Cluster | Node] = []
        needed = needed_nodes(program, outputs)
        n_values = len(program.types)
        self.written = [-1] * n_values  # the last unit that writes it; -1: from outside
        self.first = [-1] * n_values  # the first one
        self.last = [-1] * n_values  # the last one that reads or writes it
        self.stored = bytearray(n_values)  # whether someone reads it from memory
        self._home: dict[int, Cluster] = {}  # by root: the last cluster that makes it, or reads it in its own shape
        for value in outputs:
            self.stored[value] = 1
        for node in needed:
            if node[0] <= UPDATE:
                self._place(node)
            else:
                self._append(node)

    def _place(self, node: Node) -> None:
        """Put an elementwise node into a cluster."""
        program, written, home = self.program, self.written, self._home
        roots, types, buffers = program.roots, program.types, program.buffers
        _, expression, inputs, (result,), step, may_fail = node
        shape = types[result].shape
        earliest = 0
        cluster: Cluster | None = None
        for code in inputs:
            if code < NUMBER:
                root = roots[code]
                ready = written[root]
                if root != code or root in buffers:  # only through memory, so only when it has been written
                    ready += 1
                if ready > earliest:
                    earliest = ready
                found = home.get(root)
                if (
                    found is not None
                    and (cluster is None or found.position > cluster.position)
                    and found.shape == shape
                ):
                    cluster = found
        if (
            cluster is None
            or cluster.position < earliest
            or len(cluster.results) >= MAX_NODES
            or len(cluster.codes) + len(inputs) > MAX_INPUTS
        ):
            cluster = Cluster(len(self.units), shape, step)
            self.units.append(cluster)
        position, local, codes = cluster.position, cluster.local, cluster.codes
        refs = []
        for code in inputs:
            if code in local:
                refs.append(-1 - local[code])
                continue
            if code not in codes:
                codes[code] = len(codes)
                if code < NUMBER:
                    root = roots[code]
                    self.stored[root] = 1
                    if self.last[root] < position:
                        self.last[root] = position
                    # Slices of a leaf may be many: who reads them does not belong together for that.
                    if (root == code or written[root] >= 0) and types[code].shape == shape:
                        home[root] = cluster
            refs.append(codes[code])
        local[result] = len(cluster.results)
        cluster.results.append(result)
        cluster.nodes.append((expression, tuple(refs)))
        if may_fail:
            cluster.step = step
        root = roots[result]
        home[root] = cluster
        if root == result and root not in buffers:
            written[root] = self.first[root] = self.last[root] = position
        else:
            self._write(result, position)

    def _append(self, node: Node) -> None:
        roots, position = self.program.roots, len(self.units)
        self.units.append(node)
        for code in node[2]:
            if 0 <= code < NUMBER:
                root = roots[code]
                self.stored[root] = 1
                if self.last[root] < position:
                    self.last[root] = position
        for result in node[3]:
            self.stored[result] = 1
            self._write(result, position)

    def _write(self, result: int, position: int) -> None:
        root = self.program.roots[result]
        if root != result:
            self.stored[root] = 1
        if self.written[root] < position:
            self.written[root] = position
        if self.first[root] < 0 or position < self.first[root]:
            self.first[root] = position
        if self.last[root] < position:
            self.last[root] = position

    def stored_results(self, cluster: Cluster) -> list[int]:
        """The nodes of a cluster whose results are written to memory."""
        stored, roots = self.stored, self.program.roots
        return [i for i, value in enumerate(cluster.results) if stored[roots[value]]]
