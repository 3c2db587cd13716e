"""Runs graphs in which values decide sizes (`nonzero`, `x[mask]`, `unique`): a stretch of nodes up to each such size.

A `GraphRunner` knows all sizes before it starts. So a graph is cut behind each node that decides one (`SizedOp`); every
piece is a graph with a runner, and plans, of its own, and the sizes found so far are known to those that follow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from .. import ops
from ..core.graph import Constant, Graph, Leaf, Node, Pick
from ..core.tensor import Tensor
from ..errors import ShapeError
from ..ops.control_flow import Places, SizedOp
from ..ops.found_sizes import tracer_of
from .runner import GraphRunner, names_in
from .sizes import Guard, SizeExpr


def found_sizes(graph: Graph) -> set[str]:
    """The names of the sizes that values decide."""
    return {_name(node) for node in graph if issubclass(node.op, SizedOp)}


def _name(node: Node) -> str:
    size: Any = node.attrs.get("size")
    return str(size) if isinstance(size, SizeExpr) else ""


def is_in_order(graph: Graph) -> bool:
    """Whether each size that values decide has one name, and is used behind the node that decides it only."""
    left = [_name(node) for node in graph if issubclass(node.op, SizedOp)]
    unknown = set(left)
    if len(unknown) != len(left) or not all(name.isidentifier() for name in left):
        return False
    for node in graph:
        if issubclass(node.op, SizedOp):
            unknown.discard(_name(node))
            if len(node.inputs) != 1 or not isinstance(node.inputs[0], Node):
                return False
        graphs = [a for a in node.attrs.values() if isinstance(a, Graph)]
        if any(issubclass(inner.op, SizedOp) for inside in graphs for inner in inside):
            return False
        if not unknown.isdisjoint(names_in([node.attrs, node.inputs])):
            return False
    return True


def check_guard(guard: Guard, sizes: Mapping[str, int]) -> None:
    """ShapeError if a decision that the code made by sizes would be another one for these."""
    if not guard.holds(sizes):
        told = ", ".join(f"{name} = {size}" for name, size in sizes.items())
        raise ShapeError(
            f"program: it holds for sizes with {guard}, which the code decided at {guard.line}; got {told}"
            ". Export another program from an example of such sizes"
        )


def runner_of(graph: Graph, constants: Sequence[int]) -> GraphRunner | SizedRunner:
    """What runs a graph."""
    return SizedRunner(graph, constants) if found_sizes(graph) else GraphRunner(graph, constants)


class Piece(NamedTuple):
    """Part of a graph, the nodes that it reads and gives, and the node behind it that decides a size."""

    runner: GraphRunner
    reads: list[Node]
    gives: list[Node]
    sized: Node | None


class SizedRunner:
    """As a `GraphRunner`; `run` puts the sizes that it finds into the mapping that it is given."""

    def __init__(self, graph: Graph, constants: Sequence[int]) -> None:
        self.inputs = graph.inputs
        self._outputs = graph.outputs
        frozen = {self.inputs[i] for i in constants}
        self._pieces = [self._piece(nodes, sized, graph, frozen) for nodes, sized in _pieces(graph)]
        found = found_sizes(graph)
        self._names = sorted({n for p in self._pieces for n in p.runner._names if n not in found})

    def _piece(self, nodes: list[Node], sized: Node | None, graph: Graph, frozen: set[Node]) -> Piece:
        inside = set(nodes)
        reads = list(dict.fromkeys(_read(nodes, inside)))
        needed = {i for n in graph if n not in inside for i in n.inputs if isinstance(i, Node)} | {*graph.outputs}
        gives = [n for n in nodes if n in needed and isinstance(n.type, type(graph.inputs[0].type))]
        leaves = {n: Constant(Leaf, (), {}, n.type, (), None) for n in reads}
        copies: dict[Node, Node] = dict(leaves)
        for node in nodes:
            inputs = tuple([copies[i] if isinstance(i, Node) else i for i in node.inputs])
            copies[node] = Constant(node.op, inputs, node.attrs, node.type, (), node.where)
        made = Graph([*leaves.values(), *(copies[n] for n in nodes)], [copies[n] for n in gives])
        return Piece(GraphRunner(made, [i for i, n in enumerate(reads) if n in frozen]), reads, gives, sized)

    def run(
        self, values: Sequence[Any], sizes: dict[str, int], watch: Any = None, guards: Sequence[Guard] = ()
    ) -> list[Any]:
        """The outputs for these values of the leaves, in order. guards: conditions of sizes that values decide."""
        known: dict[Node, Any] = dict(zip(self.inputs, values, strict=True))
        checked: set[int] = set()  # guards
        for runner, reads, gives, sized in self._pieces:
            known.update(zip(gives, runner.run([known[n] for n in reads], sizes, watch), strict=True))
            if sized is None:
                continue
            known[sized] = found = _found(sized, known[sized.inputs[0]])
            sizes[_name(sized)] = found._type.shape[0]
            if watch is not None:
                watch(sized, found)
            for i, guard in enumerate(guards):
                if i not in checked and guard.names() <= sizes.keys():
                    checked.add(i)
                    check_guard(guard, sizes)
        return [known[o] for o in self._outputs]


def _pieces(graph: Graph) -> Iterable[tuple[list[Node], Node | None]]:
    """The nodes between those that decide sizes; what is picked of a node stays with it."""
    pieces: list[tuple[list[Node], Node | None]] = []
    where: dict[Node, list[Node]] = {}
    nodes: list[Node] = []
    for node in graph:
        if node.op is Leaf:
            continue
        if issubclass(node.op, SizedOp):
            pieces.append((nodes, node))
            nodes = []
        else:
            where[node] = where[node.inputs[0]] if node.op is Pick else nodes
            where[node].append(node)
    return [*pieces, (nodes, None)]


def _read(nodes: list[Node], inside: set[Node]) -> Iterable[Node]:
    for node in nodes:
        for i in node.inputs:
            if isinstance(i, Node) and i not in inside:
                yield i


def _found(node: Node, value: Tensor) -> Tensor:
    """By the public functions, so that a program can be exported as a part of another."""
    if node.op is Places:
        return ops.nonzero(value)
    tracer = tracer_of(value)
    if tracer is not None:
        made: Tensor = tracer.counted_by(value)
        return made
    n = int(value)
    if n < 0:
        raise ShapeError(f"program: a size that values decide is {n} at {node.line}; it must not be negative")
    return ops.arange(n)
