"""Graph tracer: calls a function on symbolic tensors, keeps what it did as a Graph, and computes nothing.

Arguments have a type and no values. Tensors from outside become leaves, whose values the tracer remembers. The traced
gradients of ops are made by this; `ex.compile` has a tracer of its own, which runs later what it traces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from ..core.context import switch
from ..core.graph import Graph, Node, Pick, leaf
from ..core.op import Op
from ..core.source_location import user_line
from ..core.tensor import Tensor, symbol
from ..core.types import TensorType
from ..errors import GraphError
from ..symbolic.sym_int import kind_of
from .dispatcher import as_input


class GraphTracer:
    """An interceptor that links a node for every op and never runs a kernel."""

    def __init__(self) -> None:
        self.captured: dict[Node, Tensor] = {}
        self._leaves: dict[int, Node] = {}

    def leaf(self, type_: Any) -> Tensor:
        """A symbolic argument: a tensor of that type, or a weak number for `float`, `int`, `bool`."""
        return symbol(type_, leaf(type_), self)

    def apply(self, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        inputs = tuple(map(as_input, inputs))
        types = tuple(x._type if isinstance(x, Tensor) else kind_of(x) for x in inputs)
        type_ = op.signature(types, attrs).type
        node = Node(op, tuple(self._node_of(x) for x in inputs), attrs, type_, (), user_line())
        if isinstance(type_, TensorType):
            return symbol(type_, node, self)
        return tuple(symbol(t, Node(Pick, (node,), {"index": i}, t, (), node.where), self) for i, t in enumerate(type_))

    def _node_of(self, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        if value._array is None:
            return value._node
        node = self._leaves.get(id(value))
        if node is None:
            node = self._leaves[id(value)] = leaf(value._type)
            self.captured[node] = value  # also keeps the tensor, and so its id, alive
        return node

    def write(self, target: Tensor, value: Tensor, op_name: str, made_from: tuple[Tensor, ...] = ()) -> Tensor:
        raise GraphError(f"{op_name}: in-place writes cannot be recorded here; use the out-of-place form")

    def read(self, value: Tensor) -> NoReturn:
        raise GraphError(
            "record: a value was read while only the structure is recorded; keep item(), bool() and numpy() outside"
        )


def trace_graph(fn: Callable[..., Any], types: Sequence[Any]) -> tuple[Graph, GraphTracer, Any]:
    """Call `fn` on symbols of these types. Returns the graph of what came back, the tracer, and the raw result."""
    tracer = GraphTracer()
    arguments = [tracer.leaf(t) for t in types]
    with switch(interceptor=tracer, grad=False):
        result = fn(*arguments)
    outputs = [r for r in (result if isinstance(result, tuple | list) else (result,)) if isinstance(r, Tensor)]
    graph = Graph.reach([tracer._node_of(o) for o in outputs])
    known = set(graph.nodes)
    unused = [a._node for a in arguments if a._node not in known]
    graph.nodes = sorted([*graph.nodes, *unused], key=lambda n: n.number)
    return graph, tracer, result
