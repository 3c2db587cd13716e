"""Expressions: elementwise functions as values, the nodes of fused kernels.

An op, or one gradient of an op, for given dtypes; shapes play no part. Equal expressions are the same object, so a
cluster's key is compared by identity. What native code an expression has is that of the eager kernels
(elementwise/kernels.py), so its bits are theirs.
"""

from __future__ import annotations

from typing import Any, Protocol

from ....core.cache import Cache
from ....core.graph import Graph, Leaf, Node
from ....core.op import Op
from ....core.types import InputType, TensorType, dtype, get_default_dtype
from ..elementwise import kernels
from ..elementwise.kernels import ElementwiseKernel
from ..ir.builder import Value
from ..lanes.emitter import Emitter
from .costs import cost_of
from .stamp import identity_of, text_is_value

_UNSEEN: Any = object()


class Derived(Protocol):
    """What is asked of a gradient that was traced (autograd's DerivedVjp)."""

    graph: Graph
    arguments: list[Node]
    weak: set[Node]


class Expression:
    """One elementwise function of some inputs, for given dtypes. Made by `of_op` and `of_derived` only."""

    __slots__ = ("_kernel", "cost", "identity", "inputs", "passes", "reads", "result")

    def __init__(
        self,
        kernel: ElementwiseKernel,
        reads: tuple[bool, ...],
        cost: float,
        identity: str | None,
        passes: int | None = None,
    ) -> None:
        self._kernel = kernel
        self.cost = cost  # what it adds to the time of compiling
        self.identity = identity  # all that its code depends on, as text; None where that cannot be written down
        self.inputs: tuple[dtype, ...] = kernel.inputs
        self.result: dtype = kernel.results[0]
        self.reads = reads  # which inputs the result depends on
        self.passes = passes  # the input that is the result, where nothing is computed

    def __repr__(self) -> str:
        return f"<Expression {self._kernel.name}({', '.join(map(repr, self.inputs))}) -> {self.result!r}>"

    def emit(self, e: Emitter, values: list[Value]) -> Value:
        """The lanes of the result: bit for bit what the ops one after another give."""
        made: Value = self._kernel.body(e, values)[0]
        return made


_OF_OPS: Cache[Any, Expression | None] = Cache("ops as expressions", 8_000)  # by all arguments: a shape rule takes long
# By the kernel that holds the code: kernels of ops are interned already.
_OF_KERNELS: Cache[ElementwiseKernel, Expression] = Cache("expressions of ops", 4_000)
_OF_GRAPHS: Cache[Any, Expression | None] = Cache("expressions of gradients", 4_000)
_OF_DERIVED: Cache[tuple[Derived, int], Expression | None] = Cache("gradients as expressions", 4_000)


def of_op(op: type[Op], kinds: tuple[InputType, ...], attrs: dict[str, Any]) -> Expression | None:
    """An elementwise op on inputs of these types; None where there is no native code."""
    key = (op, kinds, tuple(attrs.items()), get_default_dtype())  # the default has a say in promotion
    found = _OF_OPS.get(key, _UNSEEN)
    if found is _UNSEEN:
        found = _OF_OPS.put(key, _of_kernel(kernels.of_op(op, kinds, attrs), op, kinds, attrs))
    return found


def _of_kernel(
    kernel: ElementwiseKernel | None, op: type[Op], kinds: tuple[InputType, ...], attrs: dict[str, Any]
) -> Expression | None:
    if kernel is None:
        return None
    found = _OF_KERNELS.get(kernel)
    if found is None:
        reads = tuple(kind is not type(None) for kind in kinds)
        # What distinguishes kernels: see kernels.of_op.
        numbers = tuple("tensor" if isinstance(kind, TensorType) else kind.__name__ for kind in kinds)
        compute = op.signature(kinds, attrs).compute
        identity = _text("op", _with_op(op, attrs), numbers, kernel.inputs, kernel.results, str(compute))
        found = _OF_KERNELS.put(kernel, Expression(kernel, reads, cost_of(op), identity))
    return found


def of_derived(derived: Derived, j: int) -> Expression | None:
    """Gradient `j` of an elementwise op as a function of `derived.arguments`; None where there is no native code."""
    found = _OF_DERIVED.get((derived, j), _UNSEEN)
    if found is _UNSEEN:
        found = _OF_DERIVED.put((derived, j), _of_output(derived, derived.graph.outputs[j]))
    return found


def _of_output(derived: Derived, output: Node) -> Expression | None:
    graph, arguments = Graph.reach([output]), derived.arguments
    key = _structure(graph, arguments, derived.weak)
    found = _OF_GRAPHS.get(key, _UNSEEN)
    if found is _UNSEEN:
        kernel = kernels.of_graph("gradient", graph, arguments, derived.weak)
        used = set(graph.nodes)
        reads = tuple(a in used for a in arguments)
        passes = arguments.index(output) if output in arguments else None
        cost = sum(cost_of(node.op) for node in graph if node.op is not Leaf)
        identity = _text(
            "graph", key[0], tuple((_with_op(op, dict(attrs)), *rest) for op, attrs, *rest in key[1]), key[2]
        )
        found = _OF_GRAPHS.put(key, None if kernel is None else Expression(kernel, reads, cost, identity, passes))
    return found


def _structure(graph: Graph, arguments: list[Node], weak: set[Node]) -> tuple[Any, ...]:
    """All that the code of a graph depends on."""
    places: dict[Node, int] = {a: i for i, a in enumerate(arguments)}
    nodes = []
    for node in graph:
        if node.op is Leaf:
            continue
        # Python's 1, 1.0 and True are equal, as are 0.0 and -0.0: their text is not.
        refs = tuple(places[i] if isinstance(i, Node) else repr(i) for i in node.inputs)
        nodes.append((node.op, tuple(sorted(node.attrs.items())), refs, _dtype(node), node in weak))
        places[node] = len(places)
    return (tuple(_dtype(a) for a in arguments), tuple(nodes), tuple(places[o] for o in graph.outputs))


def _with_op(op: type[Op], attrs: dict[str, Any]) -> Any:
    """An op as values whose text identifies them; `...` where there is no such text."""
    identity = identity_of(op)
    known = tuple(sorted(attrs.items()))
    return (identity, known) if identity is not None and text_is_value(known) else ...


def _text(*values: Any) -> str | None:
    """The text of values, unless something in it does not identify its value."""
    text = repr(values)
    return None if "Ellipsis" in text else text


def _dtype(node: Node) -> Any:
    return node.type.dtype if isinstance(node.type, TensorType) else node.type
