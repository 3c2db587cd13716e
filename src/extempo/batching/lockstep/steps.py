"""Steps: the nodes of a graph in order, each with the rule that runs it for all samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...core.graph import Graph, Leaf, Node, Pick
from ...core.op import Op
from ...core.types import TensorType
from ...exporting.sizes import SizeExpr, is_symbolic
from ...symbolic.sym_int import kind_of
from .lanes import Lanes
from .values import EACH, SHARED, UNIFORM, form_of

Rule = Callable[["LaneStep", Lanes, list[Any]], Any]


class LaneStep:
    """One node: what it reads, how those values and its results are held, and who runs it."""

    __slots__ = (
        *("attrs", "cache", "drops", "forms", "graphs", "inputs", "op", "out", "out_forms", "reads", "rule", "type"),
        *("types", "where"),
    )

    op: type[Op]
    attrs: dict[str, Any]
    inputs: tuple[Any, ...]  # nodes, numbers and expressions of sizes
    reads: list[int]  # slots of the inputs
    forms: list[str]
    types: list[Any]
    type: Any
    out: int
    out_forms: tuple[str, ...]
    rule: Rule
    where: Any
    drops: list[int]  # slots that nobody reads any more
    cache: Any  # what the rule has found out
    graphs: dict[str, Steps]  # those that the node holds

    @property
    def form(self) -> str:
        """That of the one result."""
        return self.out_forms[0]

    def __repr__(self) -> str:
        rule = getattr(self.rule, "__name__", self.rule)
        return f"{self.op.name}({', '.join(map(str, self.forms))}) -> {', '.join(self.out_forms)}: {rule}"


class Steps:
    """A graph as steps. `shared`: of each input whether all samples share it."""

    def __init__(self, graph: Graph, shared: Sequence[bool], choose: Callable[[LaneStep], Rule]) -> None:
        self.slots: dict[Node, int] = {}
        self.forms: dict[Node, Any] = {}
        self._choose = choose
        self._constants: list[tuple[int, Any]] = []  # slots of numbers and of expressions of sizes
        self._n_slots = 0
        for node, is_shared in zip(graph.inputs, shared, strict=True):
            self._add(node, is_shared)
        self.steps = [self._step(node) for node in graph if node.op is not Leaf]
        self.inputs = [self.slots[node] for node in graph.inputs]
        self.outputs = [self.slots[node] for node in graph.outputs]
        self.output_types = [node.type for node in graph.outputs]
        self.output_forms = [self.forms[node] for node in graph.outputs]
        self._find_drops()

    def _take(self) -> int:
        self._n_slots += 1
        return self._n_slots - 1

    def new_slots(self) -> list[Any]:
        """What a run begins with."""
        slots: list[Any] = [None] * self._n_slots
        for slot, value in self._constants:
            slots[slot] = value
        return slots

    def _add(self, node: Node, is_shared: bool) -> int:
        self.slots[node] = self._take()
        types = node.type if isinstance(node.type, tuple) and not isinstance(node.type, TensorType) else (node.type,)
        forms = tuple([SHARED if is_shared else form_of(t) for t in types])
        self.forms[node] = forms if node.type is types else forms[0]
        return self.slots[node]

    def _step(self, node: Node) -> LaneStep:
        step = LaneStep()
        step.op, step.attrs, step.inputs = node.op, node.attrs, node.inputs
        step.type, step.where = node.type, node.where
        step.reads, step.forms, step.types, step.cache, step.graphs = [], [], [], None, {}
        for x in node.inputs:
            is_node = isinstance(x, Node)
            step.reads.append(self.slots[x] if is_node else self._constant(x))
            step.forms.append(self.forms[x] if is_node else UNIFORM if isinstance(x, SizeExpr) else SHARED)
            step.types.append(x.type if is_node else int if isinstance(x, SizeExpr) else kind_of(x))
        if node.op is Pick:
            step.out = self.slots[node] = self._take()
            self.forms[node] = self.forms[node.inputs[0]][node.attrs["index"]]
            step.out_forms = (self.forms[node],)
            step.rule = _picked
            return step
        is_shared = all(form == SHARED for form in step.forms) and not is_symbolic(node.attrs)
        step.out = self._add(node, is_shared)
        forms = self.forms[node]
        step.out_forms = forms if isinstance(forms, tuple) else (forms,)
        step.rule = self._choose(step)
        return step

    def _constant(self, value: Any) -> int:
        slot = self._take()
        self._constants.append((slot, value))
        return slot

    def _find_drops(self) -> None:
        later = {*self.outputs, *[slot for slot, _ in self._constants]}
        for step in reversed(self.steps):
            used = {*step.reads, step.out}
            step.drops = sorted(used - later)
            later |= used

    def run(self, lanes: Lanes, inputs: Sequence[Any]) -> list[Any]:
        """The values of the outputs for all samples."""
        slots = self.new_slots()
        for slot, value in zip(self.inputs, inputs, strict=True):
            slots[slot] = value
        for step in self.steps:
            slots[step.out] = step.rule(step, lanes, [slots[slot] for slot in step.reads])
            for slot in step.drops:
                slots[slot] = None
        return [slots[slot] for slot in self.outputs]

    def every(self) -> Iterator[LaneStep]:
        """All steps that run an op, those of loops as well."""
        for step in self.steps:
            if step.graphs:
                for steps in step.graphs.values():
                    yield from steps.every()
            elif step.op is not Pick:
                yield step


def _picked(step: LaneStep, lanes: Lanes, inputs: list[Any]) -> Any:
    return inputs[0][step.attrs["index"]]


def is_each(step: LaneStep) -> bool:
    """Whether values are lists."""
    return EACH in step.forms or EACH in step.out_forms
