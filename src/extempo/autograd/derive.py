"""From an elementwise op's `vjp`, by tracing it once: what it reads, and one kernel that computes it.

The kernel computes what the vjp's ops would compute, in the same order: the same bits, in one pass.
"""

from __future__ import annotations

from typing import Any

from ..backends.numpy.straight_line import numbers_only, straight_line
from ..backends.selection import native
from ..core.cache import Cache
from ..core.graph import Graph, Leaf, Node
from ..core.graph_interpreter import Kernel
from ..core.op import Op
from ..core.tensor import Tensor
from ..core.types import InputType, TensorType
from ..dispatch.dispatcher import apply
from ..errors import GraphError
from .vjp_trace import VjpTrace

PASSED = -1  # the source of a gradient that is the incoming one


class Gradient:
    """What computes the gradients of a node from arrays; `native` is what the native engine runs by itself."""

    __slots__ = ("native",)


class DerivedVjp(Gradient):
    """`reads`: positions in (y, *inputs). `kernel(g, *read values, *numbers)`: one gradient per needed input.

    `kernel` is None where an op of the graph has no native code: then the gradient is computed op by op.
    """

    __slots__ = ("_compute", "_sources", "arguments", "fresh", "graph", "kernel", "needed", "numbers", "reads", "weak")

    def __init__(
        self,
        reads: tuple[int, ...],
        numbers: tuple[int, ...],
        needed: tuple[int, ...],
        graph: Graph,
        arguments: list[Node],
    ) -> None:
        self.reads = reads
        self.numbers = numbers  # positions in inputs
        self.needed = needed
        self.arguments = arguments  # the leaves of the graph, in the order of the kernel's arguments
        self.graph = graph
        self.weak = numbers_only(graph)
        outputs = graph.outputs
        self.fresh = tuple(o.op is not Leaf and outputs.count(o) == 1 for o in outputs)  # memory that nobody else sees
        self.native: Any = None
        self.kernel: Kernel | None = None
        backend = native()
        if backend is None:
            self.kernel = straight_line(graph, arguments)
        else:
            self._build(backend)

    def _build(self, backend: Any) -> None:
        """One native kernel for the gradients that are not simply the incoming one."""
        incoming = self.arguments[0]
        computed = [o for o in self.graph.outputs if o is not incoming]
        places = {o: i for i, o in enumerate(computed)}
        self._sources = tuple(places.get(o, PASSED) for o in self.graph.outputs)
        kernel = None
        self._compute: Any = None
        if computed:
            graph = Graph.reach(computed)
            kernel = backend.graph_kernel("gradient", graph, self.arguments, self.weak)
            if kernel is None:
                return
            self._compute = kernel.callable(straight_line(graph, self.arguments), as_tuple=True)
        self.kernel = self._run
        outputs = list(zip(self.needed, self._sources, self.fresh, strict=True))
        self.native = backend.gradient(kernel, len(self.reads), self.numbers, outputs)

    def _run(self, *arguments: Any) -> tuple[Any, ...]:
        results = self._compute(*arguments) if self._compute is not None else ()
        return tuple([arguments[0] if source == PASSED else results[source] for source in self._sources])

    def replay(self, *values: Any) -> list[Tensor]:
        """The same gradients op by op on Tensors: recorded when asked for, converted and rounded after every op."""
        known: dict[Node, Any] = dict(zip(self.arguments, values, strict=True))
        for node in self.graph:
            if node.op is not Leaf:
                inputs = tuple(known[i] if isinstance(i, Node) else i for i in node.inputs)
                if node in self.weak:
                    known[node] = node.op.numpy(*inputs, **node.attrs).item()
                else:
                    known[node] = apply(node.op, inputs, node.attrs)
        return [known[o] for o in self.graph.outputs]


_derived: Cache[Any, DerivedVjp] = Cache("derived gradients", 4_000)


def derived_vjp(op: type[Op], needs: int, types: tuple[InputType, ...]) -> DerivedVjp:
    """The derived gradient for the inputs in the bit mask `needs`. Shapes do not matter, so few keys ever exist."""
    key = (op, needs, tuple(t.dtype if isinstance(t, TensorType) else t for t in types))
    found = _derived.get(key)
    if found is None:
        found = _derived.put(key, _trace(op, needs, types))
    return found


def _trace(op: type[Op], needs: int, types: tuple[InputType, ...]) -> DerivedVjp:
    """From a vjp that may look at everything: what it makes use of is what has to be saved."""
    flat: tuple[InputType, ...] = tuple(TensorType((1,), t.dtype) if isinstance(t, TensorType) else t for t in types)
    tensors = (0, *[i + 1 for i, t in enumerate(flat) if isinstance(t, TensorType)])
    trace = VjpTrace(op, flat, {}, op.signature(flat, {}).type, tensors)
    needed = tuple(i for i in range(len(types)) if needs >> i & 1)
    outputs = []
    for i in needed:
        gradient = trace.contributions[i]
        if not isinstance(gradient, Tensor):
            raise GraphError(f"{op.name}: the gradient of input {i} is {gradient!r}, expected a tensor")
        outputs.append(gradient._node)
    graph = Graph.reach(outputs)
    used = set(graph.nodes)
    may_read = trace.arguments(tensors)[1 : 1 + len(tensors)]
    reads = tuple([p for p, node in zip(tensors, may_read, strict=True) if node in used])
    return DerivedVjp(reads, trace.numbers, needed, graph, trace.arguments(reads))
