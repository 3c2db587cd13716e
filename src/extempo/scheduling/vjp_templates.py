"""The gradient of an op as a plan needs it: lists of lowered ops, from the trace of its `vjp` that eager mode has, too.

Two kinds. Elementwise ops whose dtypes agree have one expression for each input that needs a gradient
(`DerivedKernel`), as the eager engine has one kernel for them. Everything else is a `VjpTemplate`: nodes to be applied
one after another, as `autograd.vjp_programs` calls kernels one after another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..autograd.derive import derived_vjp
from ..autograd.unbroadcast import fit
from ..autograd.vjp_trace import VjpTrace, input_kind, keeps_dtype
from ..backends.llvm.plans.expressions import Expression, of_derived
from ..backends.numpy.straight_line import numbers_only
from ..core.cache import Cache
from ..core.context import switch
from ..core.graph import Graph, Leaf, Node, Pick
from ..core.op import Refuse
from ..core.tensor import Tensor
from ..core.trace_tree import TraceOp
from ..core.types import TensorType
from ..dispatch.graph_tracer import GraphTracer
from ..errors import ExtempoError
from .lowering import LoweredOp, lowered_op
from .request import Unplannable


class DerivedKernel(NamedTuple):
    """The gradient of one input: `expression(g, *read values and numbers)`, summed to the input's type."""

    input: int
    expression: Expression
    passed: bool  # the gradient is the incoming one
    reads: tuple[int, ...]  # positions in (y, *inputs)
    fit: TensorType | None  # the type to be summed to, where it was broadcast


class TemplateNode(NamedTuple):
    lowered: LoweredOp | None  # None: a view, or new zeros
    op: str
    attrs: dict[str, Any]
    inputs: tuple[Any, ...]  # places in the template's list of values, or Constants
    type: TensorType  # of the (first) result
    constant: bool  # whether there are Constants among the inputs


class TemplateConstant(NamedTuple):
    value: Any  # a number or None


class VjpTemplate(NamedTuple):
    """Values are, in order: the cotangents that are there, the read values, the numbers, the results of the nodes."""

    cotangents: tuple[int, ...]  # which results' gradients it takes
    zeros: tuple[int, ...]  # results whose gradient it takes as zeros, because none came
    reads: tuple[int, ...]  # positions in (y, *inputs); below 0: -1 - result
    numbers: tuple[int, ...]  # positions in inputs
    nodes: tuple[TemplateNode, ...]
    outputs: tuple[tuple[int, int], ...]  # (input, value)


OpGradient = tuple[DerivedKernel, ...] | VjpTemplate
# Of tracked steps by (signature, needs), and where there are several results by those that have received one, too.
GRADIENTS: Cache[Any, OpGradient] = Cache("gradients in plans", 8_000)
_REFUSED: Cache[Any, str] = Cache("gradients that no plan has", 1_000)
_VIEWS = frozenset({"permute", "reshape", "expand", "slice", "alias", "detach"})


def gradient_of(step: TraceOp, has_cotangent: tuple[bool, ...] = ()) -> OpGradient:
    """The gradient of a tracked step; `has_cotangent`: which of several results have received one."""
    key = (step.signature, step.needs, *has_cotangent)
    found = GRADIENTS.get(key)
    if found is None:
        if key not in _REFUSED:
            made = _made(step, has_cotangent or (True,))
            if not isinstance(made, str):
                return GRADIENTS.put(key, made)
            _REFUSED.put(key, made)
        raise Unplannable(_REFUSED[key])
    return found


def _made(step: TraceOp, has_cotangent: tuple[bool, ...]) -> OpGradient | str:
    """The gradient, or why there is none."""
    try:
        if isinstance(step.op.vjp, Refuse):
            raise Unplannable(f"{step.op.name} has no gradient")
        if step.op.saves is not None:
            return _traced(step, has_cotangent)
        return _derived(step) if step.op.simple and keeps_dtype(step.type, step.kinds) else _replayed(step)
    except Unplannable as error:
        return error.reason
    except (ExtempoError, TypeError, AttributeError, ValueError) as error:
        return f"the gradient of {step.op.name} cannot be traced: {error}"


def _needed(step: TraceOp) -> list[int]:
    return [i for i in range(len(step.kinds)) if step.needs >> i & 1]


def _derived(step: TraceOp) -> tuple[DerivedKernel, ...]:
    made = []
    for i in _needed(step):
        derived = derived_vjp(step.op, 1 << i, step.kinds)
        expression = of_derived(derived, 0)
        if expression is None:
            raise Unplannable(f"the gradient of {step.op.name} has no native code")
        fits = None if step.kinds[i].shape == step.type.shape else step.kinds[i]
        reads = (*derived.reads, *[number + 1 for number in derived.numbers])
        made.append(DerivedKernel(i, expression, expression.passes == 0, reads, fits))
    return tuple(made)


def _replayed(step: TraceOp) -> VjpTemplate:
    """The traced gradient op by op, on the types that the step has."""
    derived = derived_vjp(step.op, step.needs, step.kinds)
    tracer = GraphTracer()
    results = [step.type, *step.kinds]
    arguments = [tracer.leaf(step.type)]
    arguments += [tracer.leaf(results[p]) for p in derived.reads]
    arguments += [tracer.leaf(step.kinds[i]) for i in derived.numbers]
    with switch(interceptor=tracer, grad=False):
        made = zip(derived.needed, derived.replay(*arguments), strict=True)
        graph = Graph.reach([fit(value, step.kinds[i])._node for i, value in made])
    builder = _Builder(graph, [a._node for a in arguments], tracer.captured)
    nodes, outputs = tuple(builder.nodes), builder.outputs(derived.needed)
    return VjpTemplate((0,), (), derived.reads, derived.numbers, nodes, outputs)


def _traced(step: TraceOp, has_cotangent: tuple[bool, ...]) -> VjpTemplate:
    """What the vjp does, for any number of results."""
    trace = VjpTrace(step.op, step.kinds, step.attrs, step.type, step.read_positions, _needed(step), has_cotangent)
    builder = _Builder(trace.graph, trace.arguments(trace.reads), trace.captured)
    nodes, outputs = tuple(builder.nodes), builder.outputs([i for i, _ in trace.gradients])
    return VjpTemplate(trace.cotangents, trace.zeros, tuple(trace.reads), trace.numbers, nodes, outputs)


class _Builder:
    """From a traced graph to a template's nodes."""

    def __init__(self, graph: Graph, arguments: list[Node], captured: dict[Node, Tensor]) -> None:
        self.nodes: list[TemplateNode] = []
        self._graph = graph
        self._places: dict[Node, int] = {a: i for i, a in enumerate(arguments)}
        self._n_values = len(arguments)
        for node, value in captured.items():
            self._capture(node, value)
        self._folded: dict[Node, Any] = {}
        weak = numbers_only(graph)
        for node in graph:
            if node.op is not Leaf:
                self._add(node, weak)

    def outputs(self, needed: Sequence[int]) -> tuple[tuple[int, int], ...]:
        """For each of these inputs, where its gradient is."""
        return tuple([(i, self._places[end]) for i, end in zip(needed, self._graph.outputs, strict=True)])

    def _capture(self, node: Node, value: Tensor) -> None:
        """A tensor that the vjp made: zeros are made in the plan, too."""
        if value._values().any():
            raise Unplannable("a gradient that makes tensors of its own")
        self._places[node] = self._n_values
        self._n_values += 1
        self.nodes.append(TemplateNode(None, "zeros", {}, (), node.type, False))

    def _add(self, node: Node, weak: set[Node]) -> None:
        if node.op is Pick:
            self._places[node] = self._places[node.inputs[0]] + node.attrs["index"]
            return
        if node in weak:
            self._fold(node)
            return
        inputs = tuple(self._input(i) for i in node.inputs)
        kinds = tuple(input_kind(i, weak) for i in node.inputs)
        type_ = node.type
        self._places[node] = self._n_values
        self._n_values += len(type_) if type(type_) is tuple else 1
        name = node.op.name
        lowered = None if name in _VIEWS else lowered_op(node.op, kinds, node.attrs)
        if lowered is None and not all(isinstance(i, TemplateConstant) for i in inputs[1:]):
            raise Unplannable(f"a gradient with a {name} that begins where a number says")
        constant = any(isinstance(i, TemplateConstant) for i in inputs)
        first = type_[0] if type(type_) is tuple else type_
        self.nodes.append(TemplateNode(lowered, name, node.attrs, inputs, first, constant))

    def _input(self, source: Any) -> Any:
        if not isinstance(source, Node):
            return TemplateConstant(source)
        return TemplateConstant(self._folded[source]) if source in self._folded else self._places[source]

    def _fold(self, node: Node) -> None:
        """A number made of numbers; of ones that are known now, it is known now."""
        inputs = [self._folded.get(i) if isinstance(i, Node) else i for i in node.inputs]
        if any(isinstance(i, Node) and i not in self._folded for i in node.inputs):
            raise Unplannable(f"a gradient that computes {node.op.name} of numbers")
        self._folded[node] = node.op.numpy(*inputs, **node.attrs).item()
