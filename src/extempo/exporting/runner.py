"""Runs the graph of a program: by native plans where there can be some, otherwise every node by `apply`.

A graph is put in order once. For the sizes of a call its attributes are numbers; those are kept for the sizes that were
met last. The first run at some sizes goes node by node, and notes types, and the values of what depends on nothing but
sizes and constants (`arange`, masks); from the second one on these are there, and what plans can hold runs as
`stretches`. With a tape, under vmap and inside `ex.compile` every run goes node by node. A sample of `ex.batch` calls a
graph of fixed sizes, such as the body of a loop, as one cell. Nothing of a run is kept, so threads may share a runner.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..core.context import CONTEXT, ExecutionContext
from ..core.graph import Graph, Leaf, Node, Pick
from ..core.op import REGISTRY, Op
from ..core.types import TensorType
from ..dispatch.dispatcher import apply
from ..errors import ArgumentError
from ..ops.control_flow import Cond, ControlOp, Map, Require, Scan, WhileLoop
from ..random import take_draw
from ..symbolic.sym_int import depends
from .control_flow import cond, scan, while_loop
from .planned_loops import planned_scan, planned_while
from .size_families import Known, SizeFamily
from .sizes import SizeExpr, at_sizes, is_symbolic
from .stretches import PlannedStretch, in_stretches
from .view_checks import CHECKED, check_view

Values = tuple[Any, ...]
MAX_BOUND = 256  # sizes of a graph that are kept
MAX_FOLDED = 1 << 20  # bytes of a value that is kept for some sizes


class Step(NamedTuple):
    """Run `op` on the slots in `reads`, put results from slot `first` on, then forget the slots in `drops`."""

    op: type[Op]
    reads: tuple[int, ...]
    attrs: dict[str, Any]
    first: int
    n_results: int  # 0: the one result is no tuple
    drops: tuple[int, ...]
    node: Node
    is_plain: bool  # one result of a kernel that reads nothing but its inputs


class BoundSteps:
    """The steps of a graph for some sizes, and the slots as they are before the first one."""

    __slots__ = ("checked", "constants", "folded", "left", "parts", "slots", "steps", "types")

    def __init__(self, steps: list[Step], slots: list[Any]) -> None:
        self.steps = steps
        self.slots = slots
        self.checked = False  # whether its views were seen to lie inside their tensors
        self.types: dict[int, Any] = {}  # of slots, as the first run has shown
        self.parts: list[Step | PlannedStretch] | None = None  # the steps, with stretches for all that plans can run
        self.constants: list[Any] = []  # leaves that belong to the program, as they were in the first run
        self.folded: dict[int, Any] = {}  # what the first run has computed from them alone, by slot
        self.left: list[Step] = []  # the other steps


class Related(NamedTuple):
    """Plans at all values of one size, and the graph at the sizes that they were found at."""

    family: SizeFamily | None  # None: there are none
    known: BoundSteps


class GraphRunner:
    """Steps over numbered slots. `watch`, if given to `run`, is shown every node with its results."""

    def __init__(self, graph: Graph, constants: Sequence[int] = ()) -> None:
        """`constants`: which leaves belong to the program, and are the same at every run."""
        self._slots: dict[Node, int] = {}
        self._constants: list[tuple[int, Any]] = []  # slots of numbers, and of expressions of sizes
        self._n_slots = 0
        self.inputs = graph.inputs
        for node in graph:
            if node.op is Pick:
                self._slots[node] = self._slots[node.inputs[0]] + int(node.attrs["index"])
            else:
                self._slots[node] = self._take(len(node.type) if type(node.type) is tuple else 1)
        self.leaf_slots = [self._slots[node] for node in self.inputs]
        self.outputs = [self._slots[o] for o in graph.outputs]
        self._frozen_leaves = constants
        self._steps = self._with_drops([self._step(n) for n in graph if n.op not in (Leaf, Pick)])
        self._inner = {id(a): GraphRunner(a) for s in self._steps for a in s.attrs.values() if isinstance(a, Graph)}
        symbolic = [*(s.attrs for s in self._steps), *(v for _, v in self._constants), *(n.type for n in self.inputs)]
        self._names = sorted(set(names_in(symbolic)))
        self._symbolic = [i for i, s in enumerate(self._steps) if is_symbolic(s.attrs)]
        self._fixed = self._fixed_steps()
        self._bound: dict[tuple[int, ...], BoundSteps] = {}
        self._families: dict[tuple[str, tuple[int, ...]], Related] = {}  # by a size, and all others
        self._types: dict[int, Any] = {}  # of slots, with expressions of sizes
        for node, slot in self._slots.items():
            types = node.type if type(node.type) is tuple else (node.type,)
            self._types.update(enumerate(types, slot))
        self._is_fixed = len(self._steps) > 1 and all(map(_is_fixed, graph))
        self._cell: Any = None  # the steps as one, for samples of ex.batch; made by the first

    def _take(self, n: int) -> int:
        self._n_slots += n
        return self._n_slots - n

    def _step(self, node: Node) -> Step:
        reads = tuple(self._slots[i] if isinstance(i, Node) else self._constant(i) for i in node.inputs)
        several = type(node.type) is tuple
        is_plain = not several and node.op.family != "random" and not issubclass(node.op, ControlOp)
        n_results = len(node.type) if several else 0
        return Step(node.op, reads, node.attrs, self._slots[node], n_results, (), node, is_plain)

    def _constant(self, value: Any) -> int:
        slot = self._take(1)
        self._constants.append((slot, value))
        return slot

    def _with_drops(self, steps: list[Step]) -> list[Step]:
        kept = {*self.outputs, *(slot for slot, _ in self._constants)}
        later: set[int] = set()
        for i in reversed(range(len(steps))):
            used = {*steps[i].reads, *range(steps[i].first, steps[i].first + max(1, steps[i].n_results))}
            steps[i] = steps[i]._replace(drops=tuple(used - later - kept))
            later |= used
        return steps

    def _fixed_steps(self) -> list[bool]:
        """For each step whether it depends on sizes and constants only, and nobody outside sees its memory."""
        known = {*(slot for slot, _ in self._constants), *(self.leaf_slots[i] for i in self._frozen_leaves)}
        given = {*self.outputs}
        for step in reversed(self._steps):
            if step.op.aliases_input and given.intersection(_results(step)):
                given.add(step.reads[0])
        fixed = []
        for step in self._steps:
            is_fixed = (
                step.op.family != "random" and not issubclass(step.op, ControlOp) and known.issuperset(step.reads)
            )
            is_fixed = is_fixed and given.isdisjoint(_results(step))
            fixed.append(is_fixed)
            if is_fixed:
                known.update(_results(step))
        return fixed

    def _at(self, sizes: Mapping[str, int]) -> BoundSteps:
        key = tuple(sizes[name] for name in self._names)
        is_traced = depends(key)  # the program is a part of a model that is exported
        found = None if is_traced else self._bound.get(key)
        if found is None:
            steps = self._steps.copy()
            for i in self._symbolic:
                steps[i] = steps[i]._replace(attrs=at_sizes(steps[i].attrs, sizes))
            slots: list[Any] = [None] * self._n_slots
            for slot, value in self._constants:
                slots[slot] = at_sizes(value, sizes)
            found = BoundSteps(steps, slots)
            found.checked = is_traced
            if is_traced:
                return found
            if len(self._bound) >= MAX_BOUND:
                self._bound = dict(list(self._bound.items())[MAX_BOUND // 4 :])
            self._bound[key] = found
        return found

    def run(self, values: Sequence[Any], sizes: Mapping[str, int], watch: Any = None) -> list[Any]:
        """The outputs for these values of the leaves, in order."""
        if self._is_fixed and watch is None and hasattr(CONTEXT.get().interceptor, "call_cell"):
            if self._cell is None:
                from ..batching.cells import cell

                self._cell = cell(lambda *given: tuple(self._run_at(given, {}, None)))
            return list(self._cell(*values))
        return self._run_at(values, sizes, watch)

    def _run_at(self, values: Sequence[Any], sizes: Mapping[str, int], watch: Any) -> list[Any]:
        bound = self._at(sizes)
        slots = list(bound.slots)
        for slot, value in zip(self.leaf_slots, values, strict=True):
            slots[slot] = value
        mode = CONTEXT.get()
        if not bound.checked and watch is None and not mode.grad and may_plan(mode):
            self._resize(bound, slots, sizes)
        if bound.checked and watch is None:
            if not mode.grad and may_plan(mode) and self._has_constants(bound, values):
                self._run_parts(bound, slots, sizes)
            else:
                self._run_steps(bound.steps, slots, sizes)
        else:
            self._run_first(bound, slots, sizes, watch)
        return [slots[o] for o in self.outputs]

    # ---- sizes that are new

    def _resize(self, bound: BoundSteps, slots: Sequence[Any], sizes: Mapping[str, int]) -> None:
        """Give the graph at sizes that it never ran at its plans, where they follow from those of other sizes."""
        key = tuple(sizes[name] for name in self._names)
        for i, name in enumerate(self._names):
            found = self._family(i, name, key)
            if found is None or found.family is None:
                continue
            self._check_views(bound, sizes)
            parts = self._parts_at(bound, found.known.parts or ())
            if found.family.give_plans(key[i], parts):
                bound.folded = self._folded_again(bound, found.known, slots)
                bound.constants, bound.parts, bound.checked = found.known.constants, parts, True
                return

    def _family(self, i: int, name: str, key: tuple[int, ...]) -> Related | None:
        """The graphs that differ in size i only, where one of them has its plans."""
        others = (name, key[:i] + key[i + 1 :])
        if others not in self._families:
            for other, known in list(self._bound.items()):
                parts = known.parts
                if parts and other[:i] + other[i + 1 :] == others[1] and all(map(_has_plan, parts)):
                    sizes = dict(zip(self._names, other, strict=True))
                    family = SizeFamily.of(Known(sizes, parts, self._types), name)
                    if len(self._families) >= MAX_BOUND:
                        self._families = {}
                    self._families[others] = Related(family, known)
                    break
        return self._families.get(others)

    def _parts_at(self, bound: BoundSteps, parts: Sequence[Step | PlannedStretch]) -> list[Step | PlannedStretch]:
        """The parts of a graph at other sizes."""
        steps, constants = {step.first: step for step in bound.steps}, self._constants_of(bound)
        made: list[Step | PlannedStretch] = []
        for part in parts:
            if isinstance(part, PlannedStretch):
                made.append(PlannedStretch([steps[step.first] for step in part.steps], constants, part.writes))
            else:
                made.append(steps[part.first])
        return made

    def _check_views(self, bound: BoundSteps, sizes: Mapping[str, int]) -> None:
        constants = self._constants_of(bound)
        for step in bound.steps:
            if step.op.name in CHECKED:
                first, *others = [constants.get(i, at_sizes(self._types.get(i), sizes)) for i in step.reads]
                check_view(step.op, first, others, step.attrs)

    def _folded_again(self, bound: BoundSteps, known: BoundSteps, slots: Sequence[Any]) -> dict[int, Any]:
        """What depends on sizes only, at these."""
        left, own = {step.first for step in known.left}, list(slots)
        for step in bound.steps:
            if step.first not in left:
                results = apply(step.op, tuple([own[i] for i in step.reads]), step.attrs)
                own[step.first : step.first + max(1, step.n_results)] = results if step.n_results else (results,)
        return {slot: own[slot].contiguous() for slot in known.folded}

    def _constants_of(self, bound: BoundSteps) -> dict[int, Any]:
        return {slot: bound.slots[slot] for slot, _ in self._constants}

    def _run_parts(self, bound: BoundSteps, slots: list[Any], sizes: Mapping[str, int]) -> None:
        """By plans."""
        if bound.parts is None:
            bound.parts = in_stretches(bound.left, self._constants_of(bound), bound.types, self.outputs)
        for slot, value in bound.folded.items():
            slots[slot] = value
        for part in bound.parts:
            if type(part) is not PlannedStretch:
                self._run_part(part, slots, sizes)  # type: ignore[arg-type] # it is a step
            elif not part.run(slots):
                self._run_steps(part.steps, slots, sizes)

    def _run_part(self, step: Step, slots: list[Any], sizes: Mapping[str, int]) -> None:
        """A step that is in no plan; the bodies of a loop may be."""
        results = self._planned_loop(step, [slots[i] for i in step.reads], sizes) if step.n_results else None
        if results is None:
            self._run_steps((step,), slots, sizes)
            return
        slots[step.first : step.first + step.n_results] = results
        for slot in step.drops:
            slots[slot] = None

    def _planned_loop(self, step: Step, inputs: list[Any], sizes: Mapping[str, int]) -> tuple[Any, ...] | None:
        attrs, op = step.attrs, step.op
        if op is WhileLoop:
            n, cond, body = attrs["n_carried"], attrs["cond_graph"], attrs["body_graph"]
            return planned_while(self._inner[id(cond)], self._inner[id(body)], sizes, inputs[:n], inputs[n:])
        if op is Scan or op is Map:
            body, counts = self._inner[id(attrs["body_graph"])], (attrs["n_carried"], attrs["n_xs"])
            return planned_scan(body, sizes, inputs, counts, attrs["reverse"])
        return None

    def only_stretch(
        self, values: Sequence[Any], sizes: Mapping[str, int]
    ) -> tuple[PlannedStretch, dict[int, Any]] | None:
        """The stretch that is all of the graph at sizes that it has run at, and what is folded; None if there is more.

        None also if there is no plan yet, or not for these values of leaves that belong to the program.
        """
        bound = self._at(sizes)
        parts = bound.parts
        if parts is None or len(parts) != 1 or not self._has_constants(bound, values):
            return None
        return (parts[0], bound.folded) if isinstance(parts[0], PlannedStretch) else None

    def _has_constants(self, bound: BoundSteps, values: Sequence[Any]) -> bool:
        """Whether the leaves that belong to the program are those that it was planned with."""
        return all(values[i] is known for i, known in zip(self._frozen_leaves, bound.constants, strict=True))

    def _run_steps(self, steps: Sequence[Step], slots: list[Any], sizes: Mapping[str, int]) -> None:
        """One by one."""
        for op, reads, attrs, first, n_results, drops, _, is_plain in steps:
            inputs = tuple([slots[i] for i in reads])
            if is_plain:
                slots[first] = apply(op, inputs, attrs)
            else:
                results = self._results(op, inputs, attrs, sizes, None)
                slots[first : first + max(1, n_results)] = results if n_results else (results,)
            for slot in drops:
                slots[slot] = None

    def _run_first(self, bound: BoundSteps, slots: list[Any], sizes: Mapping[str, int], watch: Any) -> None:
        """The same, with a look at everything."""
        types = {slot: slots[slot]._type for slot in self.leaf_slots}
        constants, folded = [slots[self.leaf_slots[i]] for i in self._frozen_leaves], {}
        for (op, reads, attrs, first, n_results, drops, node, _), is_fixed in zip(
            bound.steps, self._fixed, strict=True
        ):
            inputs = tuple([slots[i] for i in reads])
            if not bound.checked and op.name in CHECKED:
                check_view(op, inputs[0]._type, inputs[1:], attrs)
            results = self._results(op, inputs, attrs, sizes, watch)
            if watch is not None:
                watch(node, results)
            slots[first : first + max(1, n_results)] = several = results if n_results else (results,)
            types.update({first + i: result._type for i, result in enumerate(several)})
            if is_fixed and all(result.nbytes <= MAX_FOLDED for result in several):
                folded.update({first + i: result for i, result in enumerate(several)})
            for slot in drops:
                slots[slot] = None
        if CONTEXT.get().interceptor is None:  # otherwise they may be symbols
            bound.types = types
            bound.left = [step for step in bound.steps if step.first not in folded]
            read = {slot for step in bound.left for slot in step.reads}
            bound.constants = constants
            bound.folded = {slot: folded[slot].contiguous() for slot in folded.keys() & read}
            bound.checked = True

    def _results(
        self, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any], sizes: Mapping[str, int], watch: Any
    ) -> Any:
        if op.family == "random":
            inputs = with_draw(op, inputs)
        if issubclass(op, ControlOp):
            return self._control(op, inputs, attrs, sizes, watch)
        return apply(op, inputs, attrs)

    # ---- nodes that hold graphs

    def _control(
        self, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any], sizes: Mapping[str, int], watch: Any
    ) -> Any:
        """By the public functions, so that a program can be exported as a part of another, and runs under vmap."""

        def run(key: str, *values: Any) -> Values:
            return tuple(self._inner[id(attrs[key])].run(values, sizes, watch))

        if op is Require:
            return required(inputs, attrs["messages"])
        if op is Cond:
            yes, no = (functools.partial(run, key) for key in ("true_graph", "false_graph"))
            return cond(inputs[0], yes, no, inputs[1:])
        n = attrs["n_carried"]
        if op is WhileLoop:
            carried, operands = inputs[:n], inputs[n:]
            return while_loop(
                lambda *given: run("cond_graph", *given, *operands)[0],
                lambda *given: run("body_graph", *given, *operands),
                carried,
            )
        end = n + attrs["n_xs"]

        def step(given: Values, slices: Values) -> tuple[Values, Values]:
            made = run("body_graph", *given, *slices, *inputs[end:])
            return made[:n], made[n:]

        last, stacked = scan(step, inputs[:n], inputs[n:end], reverse=attrs["reverse"])
        return (*last, *stacked)


def _results(step: Step) -> range:
    return range(step.first, step.first + max(1, step.n_results))


def _has_plan(part: Step | PlannedStretch) -> bool:
    return not isinstance(part, PlannedStretch) or len(part.planned) == 1


def required(inputs: tuple[Any, ...], messages: Sequence[str]) -> Any:
    """The first input, if all others are True."""
    for condition, message in zip(inputs[1:], messages, strict=True):
        tracer: Any = CONTEXT.get().interceptor
        if hasattr(tracer, "require"):
            tracer.require(condition, message)
        elif not bool(condition):
            raise ArgumentError(f"program: {message}")
    return inputs[0]


def may_plan(mode: ExecutionContext) -> bool:
    """Whether ops would simply run here."""
    return mode.interceptor is None and mode.recording is None and not mode.stepped_aside


def _is_fixed(node: Node) -> bool:
    """Whether a node computes nothing but tensors of known sizes from its inputs."""
    if issubclass(node.op, ControlOp) or node.op.family == "random":
        return False
    types = node.type if type(node.type) is tuple else (node.type,)
    return not any(isinstance(t, TensorType) and is_symbolic(t.shape) for t in types)


@functools.cache
def _drawn_at(op_name: str) -> int:
    """Where the seed stands among the inputs of a random op; the number of the draw follows."""
    return list(inspect.signature(REGISTRY[op_name].numpy).parameters).index("seed")


def with_draw(op: type[Op], inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The inputs of a random op with a draw of its own for this run."""
    at = _drawn_at(op.name)
    seed, draw = take_draw()
    return (*inputs[:at], seed - 2**64 if seed >= 2**63 else seed, draw, *inputs[at + 2 :])


def names_in(value: Any) -> list[str]:
    """The named sizes in attributes, inputs, types and graphs."""
    if isinstance(value, SizeExpr):
        return list(value.names())
    if isinstance(value, Graph):
        return [name for node in value for part in (node.attrs, node.inputs) for name in names_in(part)]
    if isinstance(value, tuple | list):
        return [name for v in value for name in names_in(v)]
    return [name for v in value.values() for name in names_in(v)] if isinstance(value, dict) else []
