"""Loops over the rows of each sample, turn by turn for all samples that have not come to their end.

Samples are put in order, the longest first, so that those which go on are always the first ones. The rows that a loop
goes through are packed: all first rows, then all second ones. What a turn computes from its row alone is computed for
all turns before the loop, as one call. Turns whose values have one shape in all samples run by native plans
(`level_loops`), others op by op.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ... import ops
from ...core.graph import Leaf, Node
from ...core.storage import Array
from ...core.tensor import Tensor, from_array
from ...core.types import TensorType
from ...exporting.sizes import SizeExpr, is_symbolic
from ...ragged_tensors.indexing import select_rows
from ...ragged_tensors.rows import Rows
from ...ragged_tensors.tensor import RaggedTensor
from .lanes import Lanes
from .level_loops import LevelLoop, TurnKinds, turn_kinds
from .own_rules import places_in
from .rules import NoRule
from .steps import LaneStep, Rule, Steps
from .values import EACH, PAIRS, RAGGED, SHARED, UNIFORM, form_of, open_dims, with_pairs, with_rows

Choose = Callable[[LaneStep], Rule]


class LoopBody:
    """The steps of a loop: those that can be done before it, and those of each turn."""

    def __init__(self, step: LaneStep, steps: Steps) -> None:
        n_carried, n_xs = step.attrs["n_carried"], step.attrs["n_xs"]
        self.steps = steps
        self.carried = steps.inputs[:n_carried]
        self.xs = steps.inputs[n_carried : n_carried + n_xs]
        self.operands = steps.inputs[n_carried + n_xs :]
        before = set(self.xs)  # slots whose values follow from the row
        self.before: list[LaneStep] = []
        self.turn: list[LaneStep] = []
        for one in steps.steps:
            if self._is_before(one, before):
                self.before.append(one)
                before.add(one.out)
            else:
                self.turn.append(one)
        read = {slot for one in self.turn for slot in one.reads}
        self.handed = sorted(before & (read | set(steps.outputs)))  # what turns read of what was done before
        self.read = read  # slots that turns read
        self.needed = read | {slot for one in self.before for slot in one.reads}
        self.levels = _levels(step, self)

    def _is_before(self, step: LaneStep, before: set[int]) -> bool:
        """Whether a step follows from the row of its turn, and from what all samples share."""
        own = [slot for slot, form in zip(step.reads, step.forms, strict=True) if form != SHARED]
        if not own or step.out_forms != (UNIFORM,) or any(isinstance(x, SizeExpr) for x in step.inputs):
            return False
        if _is_pick(step):
            return step.reads[0] in self.operands and step.reads[1] in before
        plain = {*step.forms} <= {SHARED, UNIFORM} and not step.graphs and not is_symbolic(step.attrs)
        return plain and all(slot in before for slot in own)


def _is_pick(step: LaneStep) -> bool:
    """Whether it takes that row of a sample's tensor which another value says."""
    if step.op.name != "index_get" or step.forms != [RAGGED, UNIFORM]:
        return False
    return open_dims(step.types[0]) == [0] and step.attrs["dims"] == (0,) and not step.types[1].shape


def least_turns(step: LaneStep) -> int:
    """How many turns make what a loop gives what it is after any more of them: tracked, and a tensor.

    Before the first turn it may be a number, a list without elements, or a tensor that no weight has been part of.
    A value that only passes from one variable to another takes a turn more for each of them.
    """
    body: LoopBody = step.cache
    n_turns = 0
    fresh = set(body.carried)  # slots that follow from nothing but what the loop began with
    while True:
        slots = set(fresh)
        for one in body.steps.steps:
            own = [slot for slot, x in zip(one.reads, one.inputs, strict=True) if isinstance(x, Node)]
            if own and slots.issuperset(own):
                slots.add(one.out)
        outputs = zip(body.carried, body.steps.outputs, strict=False)
        left = {slot for slot, made in outputs if made in slots}
        if left == fresh:
            return max(1, n_turns)
        fresh = left
        n_turns += 1


class TurnLevels(NamedTuple):
    """How turns are levels: who runs them, and the slots of what they read besides carried values."""

    kinds: TurnKinds
    captured: list[int]
    packed: list[int]
    own: list[int]
    shared: list[int]


def _levels(step: LaneStep, body: LoopBody) -> TurnLevels | None:
    first = len(body.carried) + len(body.xs)
    nodes = dict(zip(body.operands, step.inputs[first:], strict=True))
    forms = dict(zip(body.operands, step.forms[first:], strict=True))
    types = {slot: node.type for node, slot in body.steps.slots.items()}
    operands = [slot for slot in body.operands if slot in body.read]
    captured = [slot for slot in operands if forms[slot] == SHARED and nodes[slot].op is Leaf]
    shared = [slot for slot in operands if forms[slot] == SHARED and nodes[slot].op is not Leaf]
    own = [slot for slot in operands if forms[slot] == UNIFORM]
    if len(captured) + len(shared) + len(own) != len(operands):
        return None
    if any(slot in body.handed or slot in body.operands for slot in body.steps.outputs):
        return None
    given = [*body.carried, *body.handed, *own, *shared]
    kinds = turn_kinds(body.turn, body.steps.outputs, body.steps.output_forms, [(slot, types[slot]) for slot in given])
    return None if kinds is None else TurnLevels(kinds, captured, body.handed, own, shared)


def prepare_scan(step: LaneStep, choose: Choose) -> None:
    """Make steps of the graph of a turn; NoRule if that cannot run for all samples."""
    n_carried, n_xs = step.attrs["n_carried"], step.attrs["n_xs"]
    first = n_carried + n_xs
    rows = step.types[n_carried:first]
    if not rows or any(dim for t in rows for dim in open_dims(t)):
        raise NoRule("a loop whose rows have sizes of their own")
    shared = [False] * first + [form == SHARED for form in step.forms[first:]]
    steps = Steps(step.attrs["body_graph"], shared, choose)
    step.graphs = {"body": steps}
    if {EACH, PAIRS} & {*step.out_forms, *[form_of(t) for t in step.types[:n_carried]]}:
        raise NoRule("a loop that carries what has several sizes of its own")
    if any(open_dims(t) for t in steps.output_types[n_carried:]):
        raise NoRule("a loop whose turns give rows of sizes of their own")
    step.cache = LoopBody(step, steps)


def run_scan(step: LaneStep, lanes: Lanes, inputs: list[Any]) -> tuple[Any, ...]:
    """All turns of all samples."""
    first = step.attrs["n_carried"] + step.attrs["n_xs"]
    lengths, *others = [_lengths(t.shape[0], lanes) for t in step.types[step.attrs["n_carried"] : first]]
    if any((other != lengths).any() for other in others):
        raise NoRule("a loop through rows that are not equally many")
    types, forms = step.types, list(step.forms)
    values = list(inputs)
    for i in range(first):
        values[i] = _own(values[i], forms[i], types[i], lanes)
        forms[i] = form_of(types[i])
    if not (np.diff(lengths) > 0).any():
        return tuple(_Turns(step, lanes, lengths).run(values))
    order = np.argsort(-lengths, kind="stable")
    ordered = lanes.some(order)
    needed = {*step.cache.carried, *step.cache.xs, *step.cache.needed}
    for i, slot in enumerate(step.cache.steps.inputs):
        values[i] = _selected(values[i], forms[i], types[i], order, ordered) if slot in needed else None
    results = _Turns(step, ordered, lengths[order]).run(values)
    back = np.argsort(order)
    kinds = zip(results, step.out_forms, step.type, strict=True)
    return tuple([_selected(x, form, t, back, lanes) for x, form, t in kinds])


def _lengths(size: Any, lanes: Lanes) -> Array:
    return lanes.numbers(size) if isinstance(size, SizeExpr) else np.full(lanes.n, size)


def _own(x: Any, form: str, t: TensorType, lanes: Lanes) -> Any:
    """What all samples share, as values of each."""
    return x.expand(lanes.n, *t.shape) if form == SHARED else x


def _selected(x: Any, form: str, t: Any, index: Array, lanes: Lanes) -> Any:
    """The values of these samples; `lanes` are they."""
    if form == UNIFORM:
        return x.index_select(0, from_array(index))
    if form == RAGGED:
        return with_rows(select_rows(x, index)._flat, t, lanes)
    if form == PAIRS:
        return with_pairs(_lines_of(x, t, index, lanes), t, lanes)
    return [x[i] for i in index.tolist()] if form == EACH else x


def _lines_of(x: RaggedTensor, t: Any, index: Array, lanes: Lanes) -> Tensor:
    """The elements of pairs of these samples; `lanes` are they."""
    lengths = np.empty(lanes.n, np.int64)
    lengths[index] = lanes.pairs(*t.shape[:2]).rows.lengths
    return select_rows(RaggedTensor(x._flat, Rows.of_lengths(lengths), 1), index)._flat


def _first(x: Any, form: str, t: Any, lanes: Lanes) -> Any:
    """The values of the first samples; `lanes` are they."""
    if form == UNIFORM:
        return x.narrow(0, 0, lanes.n)
    if form == RAGGED:
        (dim,) = open_dims(t)
        return with_rows(x._flat.narrow(dim, 0, lanes.rows(t.shape[dim]).total), t, lanes)
    if form == PAIRS:
        return with_pairs(x._flat.narrow(0, 0, lanes.pairs(*t.shape[:2]).rows.total), t, lanes)
    return x[: lanes.n] if form == EACH else x


def _rest(x: Any, t: TensorType, count: int) -> Tensor:
    """The values of all samples but the first ones, end to end."""
    if not isinstance(x, RaggedTensor):
        return x.narrow(0, count, x._type.shape[0] - count)
    (dim,) = open_dims(t)
    start = int(x._rows.offsets[count])
    return x._flat.narrow(dim, start, x._rows.total - start)


def _joined(pieces: list[Any], t: TensorType, lanes: Lanes) -> Any:
    """Values of all samples from those of some, of which the last have come first."""
    flats = [x._flat if isinstance(x, RaggedTensor) else x for x in reversed(pieces)]
    dim = next(iter(open_dims(t)), 0)
    flat = ops.cat(flats, dim) if len(flats) > 1 else flats[0]
    return with_rows(flat, t, lanes) if open_dims(t) else flat


class _Turns:
    """One run of a loop; `lengths` of its samples never increase."""

    def __init__(self, step: LaneStep, lanes: Lanes, lengths: Array) -> None:
        self._step = step
        self._body: LoopBody = step.cache
        self._n_carried = step.attrs["n_carried"]
        self._lanes = lanes
        n_turns = int(lengths[0]) if len(lengths) else 0
        # Samples that have turn t: all but those of at most t turns.
        counts = len(lengths) - np.searchsorted(lengths[::-1], np.arange(n_turns), side="right")
        self._counts: list[int] = counts.tolist()
        rows = Rows.of_lengths(lengths)
        turn = rows.lengths[rows.row_of] - 1 - rows.place_of if step.attrs.get("reverse") else rows.place_of
        self._places = (np.cumsum(counts) - counts)[turn] + rows.row_of  # of each row, among packed ones
        self._elements = np.empty_like(self._places)  # of each packed row, which it is
        self._elements[self._places] = np.arange(rows.total)
        self._owners = rows.row_of[self._elements]  # of each packed row, whose it is

    def run(self, values: list[Any]) -> list[Any]:
        """Final values of what is carried, then what turns give, as rows."""
        body, first = self._body, self._n_carried + len(self._body.xs)
        slots = body.steps.new_slots()
        for slot, x in zip(body.operands, values[first:], strict=True):
            slots[slot] = x
        self._run_before(slots, values[self._n_carried : first])
        carried = values[: self._n_carried]
        if body.levels is not None and self._counts:
            return self._by_levels(body.levels, slots, carried)
        return self._by_steps(slots, carried)

    def _run_before(self, slots: list[Any], xs: list[Any]) -> None:
        """The rows that turns get, and what follows from those, packed."""
        for slot, x in zip(self._body.xs, xs, strict=True):
            flat = x._flat if isinstance(x, RaggedTensor) else x.flatten(0, 1)
            slots[slot] = flat.index_select(0, from_array(self._elements))
        packed = Lanes(len(self._elements), {})
        for step in self._body.before:
            given = [slots[slot] for slot in step.reads]
            if _is_pick(step):
                x, index = given
                places = places_in(x._rows, index._values(), self._owners)
                slots[step.out] = x._flat.index_select(0, from_array(places))
            else:
                slots[step.out] = step.rule(step, packed, given)

    def _by_levels(self, levels: TurnLevels, slots: list[Any], carried: list[Any]) -> list[Any]:
        n = self._counts[0]  # others have no turn at all
        loop = LevelLoop(levels.kinds, len(carried), self._counts)
        finals, found = loop.run(
            {slot: slots[slot] for slot in levels.captured},
            [x.narrow(0, 0, n).contiguous() for x in carried],
            [slots[slot] for slot in levels.packed],
            [slots[slot].narrow(0, 0, n).contiguous() for slot in levels.own],
            [slots[slot] for slot in levels.shared],
        )
        if n < self._lanes.n:
            left = self._lanes.n - n
            finals = [ops.cat([x, before.narrow(0, n, left)]) for x, before in zip(finals, carried, strict=True)]
        return [*finals, *[self._stacked([y], i) for i, y in enumerate(found, start=len(carried))]]

    def _by_steps(self, slots: list[Any], carried: list[Any]) -> list[Any]:
        body, step, lanes = self._body, self._step, self._lanes
        types = step.types[: len(carried)]
        forms = [form_of(t) for t in types]
        per_turn = [(slot, slots[slot].split_with_sizes(self._counts)) for slot in body.handed if self._counts]
        first = len(carried) + len(body.xs)
        operands = list(zip(body.operands, step.forms[first:], step.types[first:], strict=True))
        varying = [(slot, form, t) for slot, form, t in operands if form != SHARED and slot in body.read]
        pieces: list[list[Any]] = [[] for _ in carried]
        found: list[list[Any]] = [[] for _ in body.steps.outputs[len(carried) :]]
        for turn, count in enumerate(self._counts):
            if count < lanes.n:
                for own, x, t in zip(pieces, carried, types, strict=True):
                    own.append(_rest(x, t, count))
                lanes = lanes.first(count)
                carried = [_first(x, form, t, lanes) for x, form, t in zip(carried, forms, types, strict=True)]
                for slot, form, t in varying:
                    slots[slot] = _first(slots[slot], form, t, lanes)
            for slot, x in zip(body.carried, carried, strict=True):
                slots[slot] = x
            for slot, parts in per_turn:
                slots[slot] = parts[turn]
            for one in body.turn:
                slots[one.out] = one.rule(one, lanes, [slots[slot] for slot in one.reads])
            outputs = self._outputs(slots, lanes)
            carried = outputs[: len(carried)]
            for given, y in zip(found, outputs[len(carried) :], strict=True):
                given.append(y)
        finals = [_joined([*own, x], t, self._lanes) for own, x, t in zip(pieces, carried, types, strict=True)]
        return [*finals, *[self._stacked(parts, i) for i, parts in enumerate(found, start=len(carried))]]

    def _outputs(self, slots: list[Any], lanes: Lanes) -> list[Any]:
        steps = self._body.steps
        kinds = zip(steps.outputs, steps.output_forms, steps.output_types, strict=True)
        return [_own(slots[slot], form, t, lanes) for slot, form, t in kinds]

    def _stacked(self, parts: list[Any], i: int) -> Any:
        """What turns have given as rows of each sample."""
        t = self._step.type[i]
        if not parts:
            inner = self._body.steps.output_types[i]
            parts = [ops.zeros(0, *inner.shape, dtype=inner.dtype)]
        flat = ops.cat(parts).index_select(0, from_array(self._places))
        if isinstance(t.shape[0], SizeExpr):
            return with_rows(flat, t, self._lanes)
        return flat.unflatten(0, (self._lanes.n, t.shape[0]))


def _refuse(step: LaneStep, choose: Choose) -> None:
    raise NoRule(f"{step.op.name} decides by values")


LOOPS: dict[str, tuple[Callable[[LaneStep, Choose], None], Rule]] = {
    "scan": (prepare_scan, run_scan),
    "map": (prepare_scan, run_scan),
    "cond": (_refuse, run_scan),
    "while_loop": (_refuse, run_scan),
}
