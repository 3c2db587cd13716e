"""The gradient of an op as lists of forms, from tracing its `vjp` once for these types: the ops that eager runs.

Two kinds. Elementwise ops whose dtypes agree have one expression for each input that needs a gradient
(`DerivedKernel`), as the eager engine has one kernel for them. Everything else is a `VjpTemplate`: nodes to be applied
one after another.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import NoneType
from typing import Any, NamedTuple

from ..autograd.derive import derived_vjp
from ..autograd.unbroadcast import fit
from ..backends.llvm.plans.expressions import Expression, of_derived
from ..backends.numpy.straight_line import numbers_only
from ..core.cache import Cache
from ..core.context import switch
from ..core.graph import Graph, Leaf, Node, Pick
from ..core.op import Refuse
from ..core.tensor import Tensor
from ..core.trace_tree import TraceOp
from ..core.types import TensorType, bool_
from ..dispatch.graph_tracer import GraphTracer
from ..errors import ExtempoError
from .lowering import Form, form_of
from .request import Unplannable


class DerivedKernel(NamedTuple):
    """The gradient of one input: `expression(g, *read values and numbers)`, summed to the input's type."""

    input: int
    expression: Expression
    passed: bool  # the gradient is the incoming one
    reads: tuple[int, ...]  # positions in (y, *inputs)
    fit: TensorType | None  # the type to be summed to, where it was broadcast


class TemplateNode(NamedTuple):
    form: Form | None  # None: a view, or new zeros
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


Gradient = tuple[DerivedKernel, ...] | VjpTemplate
# Of tracked steps by (signature, needs), and where there are several results by those that have received one, too.
GRADIENTS: Cache[Any, Gradient] = Cache("gradients in plans", 8_000)
_REFUSED: Cache[Any, str] = Cache("gradients that no plan has", 1_000)
_VIEWS = frozenset({"permute", "reshape", "expand", "slice", "alias", "detach"})


def gradient_of(step: TraceOp, given: tuple[bool, ...] = ()) -> Gradient:
    """The gradient of a tracked step; of one with several results when those marked in `given` have received one."""
    key = (step.signature, step.needs, *given)
    found = GRADIENTS.get(key)
    if found is None:
        if key not in _REFUSED:
            made = _made(step, given or (True,))
            if not isinstance(made, str):
                return GRADIENTS.put(key, made)
            _REFUSED.put(key, made)
        raise Unplannable(_REFUSED[key])
    return found


def _made(step: TraceOp, given: tuple[bool, ...]) -> Gradient | str:
    """The gradient, or why there is none."""
    try:
        if isinstance(step.op.vjp, Refuse):
            raise Unplannable(f"{step.op.name} has no gradient")
        if step.op.saves is not None:
            return _TemplateTrace(step, given).template
        return _derived(step) if step.op.simple and _of_one_dtype(step) else _replayed(step)
    except Unplannable as error:
        return error.reason
    except (ExtempoError, TypeError, AttributeError, ValueError) as error:
        return f"the gradient of {step.op.name} cannot be traced: {error}"


def _of_one_dtype(step: TraceOp) -> bool:
    """Where the eager engine runs one kernel; elsewhere it rounds after every op."""
    d = step.type.dtype
    tensors = [kind for kind in step.kinds if isinstance(kind, TensorType)]
    return d.itemsize > 2 and all(t.dtype in (d, bool_) for t in tensors)


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
    recorder = GraphTracer()
    results = [step.type, *step.kinds]
    arguments = [recorder.leaf(step.type)]
    arguments += [recorder.leaf(results[p]) for p in derived.reads]
    arguments += [recorder.leaf(step.kinds[i]) for i in derived.numbers]
    with switch(interceptor=recorder, grad=False):
        made = derived.replay(*arguments)
        outputs = [(i, fit(value, step.kinds[i])) for i, value in zip(derived.needed, made, strict=True)]
    builder = _Builder([a._node for a in arguments], recorder, outputs)
    return VjpTemplate((0,), (), derived.reads, derived.numbers, tuple(builder.nodes), tuple(builder.outputs))


class _TemplateTrace:
    """One run of a vjp on symbols, as `autograd.vjp_programs` does it, for any number of results."""

    def __init__(self, step: TraceOp, given: tuple[bool, ...]) -> None:
        op, recorder = step.op, GraphTracer()
        positions = step.read_positions
        several = type(step.type) is tuple
        types: tuple[TensorType, ...] = step.type if several else (step.type,)
        zeros = [
            i for i, t in enumerate(types) if not given[i] and several and op.materialize and t.dtype.is_floating_point
        ]
        cotangents: list[Any] = [recorder.leaf(t) if given[i] or i in zeros else None for i, t in enumerate(types)]
        results: list[Any] = [
            recorder.leaf(t) if 0 in positions or -1 - i in positions else t for i, t in enumerate(types)
        ]
        inputs: list[Any] = []
        for i, kind in enumerate(step.kinds):
            if isinstance(kind, TensorType):
                inputs.append(recorder.leaf(kind) if i + 1 in positions else kind)
            else:
                inputs.append(None if kind is NoneType else recorder.leaf(kind))
        numbers = [i for i, k in enumerate(step.kinds) if not isinstance(k, TensorType) and k is not NoneType]
        outputs = []
        with switch(interceptor=recorder, grad=False):
            g, y = (tuple(cotangents), tuple(results)) if several else (cotangents[0], results[0])
            contributions = op.vjp(g, y, *inputs, **step.attrs)
            for i in _needed(step):
                value = contributions[i]
                if value is not None and not isinstance(value, Tensor):
                    value = value()
                if value is not None:
                    outputs.append((i, fit(value, step.kinds[i])))
        read: list[int] = []
        for p in positions:
            read += [p] if p or not several else [-1 - i for i in range(len(types))]
        there = [i for i in range(len(types)) if given[i]]
        symbols = [cotangents[i] for i in (*there, *zeros)]
        symbols += [results[-1 - p] if p < 0 else inputs[p - 1] if p else results[0] for p in read]
        symbols += [inputs[i] for i in numbers]
        builder = _Builder([s._node for s in symbols], recorder, outputs)
        self.template = VjpTemplate(
            tuple(there), tuple(zeros), tuple(read), tuple(numbers), tuple(builder.nodes), tuple(builder.outputs)
        )


class _Builder:
    """From a traced graph to a template's nodes."""

    def __init__(self, arguments: list[Node], recorder: GraphTracer, outputs: Sequence[tuple[int, Tensor]]) -> None:
        self.nodes: list[TemplateNode] = []
        self._places: dict[Node, int] = {a: i for i, a in enumerate(arguments)}
        self._n_values = len(arguments)
        for node, value in recorder.captured.items():
            self._capture(node, value)
        self._folded: dict[Node, Any] = {}
        ends = [recorder._node_of(value) for _, value in outputs]
        graph = Graph.reach(ends)
        weak = numbers_only(graph)
        for node in graph:
            if node.op is not Leaf:
                self._add(node, weak)
        self.outputs = [(i, self._places[end]) for (i, _), end in zip(outputs, ends, strict=True)]

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
        kinds = tuple(self._kind(i, weak) for i in node.inputs)
        type_ = node.type
        self._places[node] = self._n_values
        self._n_values += len(type_) if type(type_) is tuple else 1
        name = node.op.name
        form = None if name in _VIEWS else form_of(node.op, kinds, node.attrs)
        if form is None and not all(isinstance(i, TemplateConstant) for i in inputs[1:]):
            raise Unplannable(f"a gradient with a {name} that begins where a number says")
        constant = any(isinstance(i, TemplateConstant) for i in inputs)
        first = type_[0] if type(type_) is tuple else type_
        self.nodes.append(TemplateNode(form, name, node.attrs, inputs, first, constant))

    def _input(self, source: Any) -> Any:
        if not isinstance(source, Node):
            return TemplateConstant(source)
        return TemplateConstant(self._folded[source]) if source in self._folded else self._places[source]

    def _kind(self, source: Any, weak: set[Node]) -> Any:
        if not isinstance(source, Node):
            return type(source)
        return float if source in weak and isinstance(source.type, TensorType) else source.type

    def _fold(self, node: Node) -> None:
        """A number made of numbers; of ones that are known now, it is known now."""
        inputs = [self._folded.get(i) if isinstance(i, Node) else i for i in node.inputs]
        if any(isinstance(i, Node) and i not in self._folded for i in node.inputs):
            raise Unplannable(f"a gradient that computes {node.op.name} of numbers")
        self._folded[node] = node.op.numpy(*inputs, **node.attrs).item()
