"""OnnxWalker: the graph of a program, node by node, into a builder; each op by its own `onnx` aspect.

Elementwise ops get their inputs in the dtype that they compute in, as kernels do; other ops get them as they are. A
result that comes out in another dtype than the program says is converted. `Decomposed` ops are traced in other ops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.context import switch
from ...core.graph import Constant, Graph, Leaf, Node, Pick
from ...core.op import Decomposed, Elementwise, Refuse
from ...core.types import TensorType, as_dtype
from ...errors import ExportError, UnsupportedError
from .. import control_flow
from ..building import freeze_node
from ..sizes import Guard, SizeExpr, SizeLog, at_sizes, frozen, parse_size
from ..tracer import ProgramTracer
from .builder import Builder, NoForm, OnnxValue
from .rules import RULES

Values = dict[Node, Any]


class OnnxWalker:
    """Converts graphs of one program; `dims` are the names of its sizes."""

    def __init__(self, b: Builder, dims: Sequence[str]) -> None:
        self.b = b
        self._dims = dims

    def walk(self, graph: Graph, values: Values) -> list[OnnxValue]:
        """Convert all nodes, given the values of the leaves; the values of the outputs."""
        for node in graph:
            if node not in values:
                values[node] = self._converted(node, [values[i] if isinstance(i, Node) else i for i in node.inputs])
        return [values[o] for o in graph.outputs]

    def _converted(self, node: Node, inputs: list[Any]) -> Any:
        if node.op is Pick:
            picked = inputs[0][node.attrs["index"]]
            if picked is None:
                raise self.error(node.inputs[0], "this result is what its gradient reads, which no ONNX operator gives")
            return picked
        if isinstance(node.op.onnx, Refuse):
            raise self.error(node, node.op.onnx.why)
        try:
            return self._typed(node, self._applied(node, inputs))
        except (NoForm, UnsupportedError) as error:
            raise self.error(node, str(error)) from None

    def error(self, node: Node, why: str) -> ExportError:
        """An op without an ONNX form, with the line of the model that called it."""
        line = f"{node.line}: " if node.where else ""
        name = node.op.public_name if node.op.public_name == node.op.name else f"{node.op.public_name} ({node.op.name})"
        return ExportError(f"{line}to_onnx: the op {name} has no ONNX form here: {why}")

    def _applied(self, node: Node, inputs: list[Any]) -> Any:
        aspect = node.op.onnx
        if isinstance(aspect, Decomposed):
            return self._decomposed(aspect, node, inputs)
        if issubclass(node.op, Elementwise):
            inputs = self._computable(node, inputs)
        if isinstance(aspect, str):
            return RULES[aspect](self, node, inputs)
        return aspect(self.b, *inputs, **node.attrs)

    def _computable(self, node: Node, inputs: list[Any]) -> list[Any]:
        """The inputs in the dtype that an elementwise op computes in."""
        types = tuple(map(_kind, node.inputs))
        wanted = node.op.signature(types, node.attrs).compute
        tensors = [x for x in inputs if isinstance(x, OnnxValue)]
        if wanted is None and tensors:
            # `where` has a condition beside its operands, whose dtype is no other's.
            floating = [x.dtype for x in tensors if x.dtype.category == max(t.dtype.category for t in tensors)]
            d = floating[0]
            return [self.b.value(x, d) if _is_number(x) else x for x in inputs]
        d = as_dtype(wanted) if wanted is not None else as_dtype(float)
        keeps = node.op.name == "where"
        return [
            x if x is None else self.b.cast(self.b.value(x, d), d) if not (keeps and i == 0) else x
            for i, x in enumerate(inputs)
        ]

    def _typed(self, node: Node, result: Any) -> Any:
        if not isinstance(node.type, TensorType):
            return tuple(v if v is None else self._with_type(v, t) for v, t in zip(result, node.type, strict=True))
        return self._with_type(result, node.type)

    def _with_type(self, value: OnnxValue, type_: TensorType) -> OnnxValue:
        made = self.b.cast(value, type_.dtype)
        return OnnxValue(made.name, type_.dtype, type_.shape, made.array)

    # ---- ops that are made of others

    def _decomposed(self, aspect: Decomposed, node: Node, inputs: list[Any]) -> Any:
        log = SizeLog()
        sizes: dict[str, Any] = {name: log.symbol(name, 1009 + 2 * i) for i, name in enumerate(self._dims)}
        tracer = ProgramTracer(log, {})
        types = [i.type if isinstance(i, Node) else None for i in node.inputs]
        given = [
            tracer.argument(TensorType(at_sizes(t.shape, sizes), t.dtype)) if t is not None else at_sizes(x, sizes)
            for t, x in zip(types, inputs, strict=True)
        ]
        arguments = [g._history for g, t in zip(given, types, strict=True) if t is not None]
        with switch(interceptor=tracer, grad=False):
            flow = (control_flow,) if aspect.has_loops else ()
            made = aspect.function(*flow, *given, **at_sizes(node.attrs, sizes))
            several = isinstance(made, tuple)
            outputs = [None if t is None else tracer.node_of(t) for t in (made if several else (made,))]
        for guard in log.guards.values():
            if not _is_harmless(guard):
                raise NoForm(f"what it does depends on whether {guard}; take those sizes out of dynamic=")
        reached = Graph.reach([o for o in outputs if o is not None])
        copies: dict[Node, Node] = {}
        values: Values = {}
        for old, value in zip(arguments, [x for x in inputs if isinstance(x, OnnxValue)], strict=True):
            copies[old] = Constant(Leaf, (), {}, frozen(old.type, log), (), None)
            values[copies[old]] = value
        for old in reached:
            if old in copies:
                continue
            if old in tracer.captured:
                copies[old] = Constant(Leaf, (), {}, frozen(old.type, log), (), None)
                array = tracer.captured[old].detach().numpy()
                values[copies[old]] = self.b.constant(array, old.type.dtype)
            else:
                copies[old] = freeze_node(old, copies, log)
                copies[old].where = node.where
        graph = Graph([copies[n] for n in reached], [copies[o] for o in outputs if o is not None])
        found = iter(self.walk(graph, values))
        results = tuple(None if o is None else next(found) for o in outputs)
        return results if several else results[0]


def _is_harmless(guard: Guard) -> bool:
    """Whether the form is right also where a decision that was made for it does not hold.

    That sizes differ was decided for the general way, which needs nothing of the kind. That a size is 0 or more, or
    equal to another up to what is cut off at 0, holds wherever the op itself is defined.
    """
    if guard.sign == "!=" or (guard.sign == ">=" and guard.right.constant == 0):
        return True
    left, right = (parse_size(str(side).replace("max(0, ", "(")) for side in (guard.left, guard.right))
    return guard.sign == "==" and left == right


def _kind(x: Any) -> Any:
    """The type of an input with sizes that do not matter, or the class of a number."""
    if isinstance(x, Node):
        return TensorType((1,) * len(x.type.shape), x.type.dtype)
    if isinstance(x, SizeExpr):
        return int if x.is_whole and "/" not in str(x).replace("//", "") else float
    return type(x)


def _is_number(x: Any) -> bool:
    return x is not None and not isinstance(x, OnnxValue)
