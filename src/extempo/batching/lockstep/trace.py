"""A function of one sample as a graph that holds for samples of any size."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from types import MethodType
from typing import Any

import numpy as np

from ...core.context import switch
from ...core.graph import Constant, Graph, Leaf, Node, Where
from ...core.storage import Array
from ...core.tensor import Tensor
from ...core.types import TensorType
from ...exporting.building import freeze_node
from ...exporting.sizes import Guard, SizeExpr, SizeLog, frozen
from ...exporting.source_control import Control, listed
from ...exporting.tracer import ProgramTracer
from ...func.tree import leaves as leaves_of
from ...nn.module import Module
from ...ops.view import Detach
from ...symbolic.sym_int import depends
from ..automatic_cells import Proof
from ..cell_tracer import Declined, decline_modules
from ..kinds import Input
from ..purity_guards import PurityGuards
from ..read_search import attributes_of, searched
from ..signatures import objects, rebuilder, structure_of
from .arguments import SampleArguments, Unread
from .lanes import Lanes
from .loops import least_turns
from .rules import chosen, each
from .steps import Steps


class LockstepTracer(ProgramTracer):
    """Everything that a sample computes is part of the graph, constants as well: they may be written between calls."""

    joins_nothing = False  # as in a plain loop

    def _is_constant(self, op: Any, inputs: Any, attrs: Any) -> bool:
        return False

    def _written_behind(self, root: Tensor) -> Any:
        if super()._written_behind(root) is not None:  # by detach(), of which the graph would know nothing
            raise Declined("it reads memory that it has written to by another tensor")


class Decisions(SizeLog):
    """Sizes whose every decision is a guard, those of shape rules too, which are not asked again for each sample.

    That a size is not 1 is none there: what rules then give, a dimension of that size, is right for 1 as well.
    """

    def decide(self, sign: str, fn: Callable[..., Any], a: Any, b: Any) -> bool:
        answer = super().decide(sign, fn, a, b)
        is_one = any(type(x) is int and x == 1 for x in (a, b))
        if self.in_rule and not (is_one and (sign, answer) in (("!=", True), ("==", False))):
            before, self.in_rule = self.in_rule, 0
            try:
                super().decide(sign, fn, a, b)
            finally:
                self.in_rule = before
        return answer


class SampleSizes:
    """Which sizes of the inputs are each sample's own, and which of them are always equal."""

    def __init__(self, shapes: Sequence[Sequence[tuple[int, ...]]]) -> None:
        """shapes: of each input, those of all samples."""
        self.names: list[tuple[Any, ...]] = []  # of each input, a name or a number for each dimension
        self._first: dict[tuple[int, ...], str] = {}
        for i, column in enumerate(shapes):
            table = np.array(column, np.int64).reshape(len(column), -1)
            names: list[Any] = []
            for d in range(table.shape[1]):
                values = table[:, d]
                if (values == values[0]).all():
                    names.append(int(values[0]))
                else:
                    names.append(self._first.setdefault(tuple(values.tolist()), f"size{i}_{d}"))
            self.names.append(tuple(names))

    def of(self, shapes: Sequence[Sequence[tuple[int, ...]]]) -> dict[str, Array] | None:
        """The sizes of other samples by name; None if they do not fit."""
        found: dict[str, Array] = {}
        for column, names in zip(shapes, self.names, strict=True):
            if not names:
                continue
            table = np.array(column, np.int64)
            for d, name in enumerate(names):
                values = table[:, d]
                if not isinstance(name, str):
                    if (values != name).any():
                        return None
                elif name not in found:
                    found[name] = values
                elif not np.array_equal(found[name], values):
                    return None
        return found


class SampleProgram:
    """The graph of a function of one sample, ready to run for many."""

    def __init__(
        self,
        call: Any,
        fn: Any,
        arguments: SampleArguments,
        tracked: tuple[bool, ...],
        sizes: SampleSizes,
        key: Any,
        at: dict[str, int] | None = None,
    ) -> None:
        """call: `fn` with its keyword arguments. tracked: of each input whether it is. key: what it is known by.

        at: sizes to decide by, if not those that are chosen here.
        """
        self.sizes = sizes
        self.key = key
        self.tracked = tracked
        at = {} if at is None else at
        dtypes = [column[0]._type.dtype for column in arguments.columns]
        n_numbers = len(arguments.numbers)
        shapes = [tuple([_value(at, s) if isinstance(s, str) else s for s in names]) for names in sizes.names]
        values = [_value(at, number_name(i)) for i in range(n_numbers)]
        concrete = [TensorType(shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
        inputs = [Input(t, flag) for t, flag in zip(concrete, tracked, strict=True)]
        proven, looked_up = self._prove(call, fn, inputs, lambda symbols: arguments.filled(symbols, values))
        log = Decisions()
        tracer = LockstepTracer(log, {})
        symbols = []
        for names, dtype in zip(sizes.names, dtypes, strict=True):
            shape: list[Any] = [log.symbol(s, at[s]) if isinstance(s, str) else s for s in names]
            symbols.append(tracer.argument(TensorType(tuple(shape), dtype)))
        numbers = [log.symbol(number_name(i), values[i]) for i in range(n_numbers)]
        leaves: list[Node] = [s._history for s in symbols]
        control = Control(tracer)
        try:
            with switch(interceptor=tracer, grad=False):
                result = listed(control.call(call, *arguments.filled(symbols, numbers)))
                self._outline = _outline(result)
                results: list[Tensor] = []
                self.rebuild = rebuilder(_without_sizes(structure_of(result, results)))
                self.returns_tensor = isinstance(result, Tensor)
                outputs = [tracer.node_of(t) for t in results]
        finally:
            control.restore()
        if any(key in self._reads.tensors for key in tracer.written):
            raise Declined("it writes to a tensor from outside")
        if not results:
            raise Declined("it returns no tensor")
        if tracer.required:
            raise Declined("it asserts something of values")
        if self._outline != proven:
            raise Declined("it returns a number that a loop computes")
        self.guards: list[Guard] = list(log.guards.values())
        graph, self.weights = _frozen(tracer, leaves, outputs)
        shared = [False] * len(symbols) + [True] * len(self.weights)
        self.text = str(graph)
        self.steps = Steps(graph, shared, chosen)
        self.has_loops = any(step.graphs for step in self.steps.steps)
        flags = [*tracked, *[t.requires_grad for t in self.weights]]
        known = {slot for slot, flag in zip(self.steps.inputs, flags, strict=True) if flag}
        self._turns = list(_turns(self.steps, known))
        self.types = [node.type for node in graph.inputs[: len(symbols)]]
        self._reads.capture([*self.weights, *looked_up])

    def _prove(
        self, call: Any, fn: Any, inputs: list[Input], filled: Callable[[list[Any]], tuple[Any, ...]]
    ) -> tuple[str, list[Tensor]]:
        """Declined unless a call does nothing but compute; what it reads is watched from then on.

        Returns the outline of its result, and the tensors from outside that it asks for their types.
        """
        own = attributes_of(fn) or {} if isinstance(fn, Module) else {}
        if "forward" in own:
            raise Declined("its forward is another one than that of its class")
        body = MethodType(type(fn).forward, fn) if isinstance(fn, Module) else fn
        kwargs = call.keywords if call is not fn else {}
        proof = Proof(getattr(fn, "__qualname__", type(fn).__name__), inputs, True, is_cell=False)
        result = proof.check(body, filled([proof.tracer.argument(i, None) for i in range(len(inputs))]), kwargs)
        search = searched(fn, *objects(kwargs))
        proof.watch(search)
        self._reads = PurityGuards(search=search)
        decline_modules(self._reads.modules())
        return _outline(result), proof.looked_up()

    def holds(self, lanes: Lanes) -> Array:
        """Of each sample whether it takes the way that was traced."""
        found = np.ones(lanes.n, bool)
        for guard in self.guards:
            found &= guard.holds_for(lanes.numbers(guard.left), lanes.numbers(guard.right))
        for n_turns, least in self._turns:
            found &= lanes.numbers(n_turns) >= least
        return found

    def is_like(self, other: SampleProgram) -> bool:
        """Whether both are the same graph of the same tensors, with results in the same places."""
        same_weights = len(self.weights) == len(other.weights) and all(map(operator.is_, self.weights, other.weights))
        return same_weights and self.text == other.text and self._outline == other._outline

    def join(self, other: SampleProgram) -> None:
        """Hold for the samples of a like one, if one decision is all that tells them apart."""
        texts, other_texts = set(map(str, self.guards)), set(map(str, other.guards))
        own = [guard for guard in self.guards if str(guard) not in other_texts]
        others = [guard for guard in other.guards if str(guard) not in texts]
        if len(own) == len(others) == 1 and own[0].contradicts(others[0]):
            self.guards.remove(own[0])

    def rules(self) -> list[tuple[Where | None, str, bool]]:
        """Of each op its line, its name, and whether it runs for one sample after the other."""
        return [(step.where, step.op.name, step.rule is each) for step in self.steps.every()]

    def same(self) -> bool:
        """Whether everything that the function reads is as it was."""
        return self._reads.same()


def _value(at: dict[str, int], name: str) -> int:
    return at.setdefault(name, 3 + 2 * len(at))


def number_name(i: int) -> str:
    """What an int of each sample's own is called in expressions of sizes."""
    return f"number{i}"


def _without_sizes(structure: Any) -> Any:
    """The structure of a result; Declined if a size or an argument is in it."""
    for leaf in leaves_of(structure):
        if depends(leaf) or isinstance(leaf, Unread):
            raise Declined("it returns a size, or what it was given")
    return structure


def _turns(steps: Steps, tracked: set[int]) -> Iterator[tuple[SizeExpr, int]]:
    """How often loops turn that samples turn differently often, and how often they have to.

    tracked: slots of inputs that are. A loop that only goes on with what is tracked already may have no turn.
    """
    for step in steps.steps:
        if step.graphs:
            n_carried = step.attrs["n_carried"]
            n_turns = step.types[n_carried].shape[0]
            goes_on = len(step.out_forms) == n_carried and tracked.issuperset(step.reads[:n_carried])
            if isinstance(n_turns, SizeExpr) and not goes_on:
                yield n_turns, least_turns(step)
            for inner in step.graphs.values():
                yield from _turns(inner, set())
        is_float = not isinstance(step.type, TensorType) or step.type.dtype.is_floating_point
        if is_float and step.op is not Detach and not tracked.isdisjoint(step.reads):
            tracked.add(step.out)


class _Place:
    """Stands for a tensor in an outline."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __repr__(self) -> str:
        return f"<tensor {self._number}>"


def _outline(result: Any) -> str:
    """A result without the values of its tensors: two that have the same are put together alike."""
    tensors: list[Tensor] = []
    structure = structure_of(result, tensors)
    return repr(rebuilder(structure)([_Place(i) for i in range(len(tensors))]))  # type: ignore[misc] # for its text


def _frozen(tracer: ProgramTracer, arguments: list[Node], outputs: list[Node]) -> tuple[Graph, list[Tensor]]:
    """The graph with expressions in place of symbols, and the tensors from outside that it reads."""
    reached = Graph.reach(outputs)
    made: dict[Node, Node] = {a: Constant(Leaf, (), {}, frozen(a.type, tracer.log), (), None) for a in arguments}
    weights: list[Tensor] = []
    for node in reached:
        if node in tracer.captured and node not in made:
            made[node] = Constant(Leaf, (), {}, node.type, (), None)
            weights.append(tracer.captured[node])
    leaves = list(made.values())
    inner = [freeze_node(n, made, tracer.log) for n in reached if n not in made]
    return Graph([*leaves, *inner], [made[o] for o in outputs]), weights
