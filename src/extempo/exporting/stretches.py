"""Stretches: consecutive steps of a program's graph that run as one native plan, with no Python for each op.

The steps of a graph at some sizes, and the types that a first run of them has shown, are cut into stretches: whatever a
plan can hold is in one, and what it cannot (an op without native code, a draw, a branch or a loop) stands between them.
A stretch becomes the traced ops that `ex.compile` would have recorded for it, and goes through the same planner, so its
results have the same bits. Plans know how their inputs lie in memory: arrays that lie otherwise get a plan of their
own. Where a plan ends early, its steps run one by one, and raise the error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import NoneType
from typing import TYPE_CHECKING, Any
from weakref import ref as weak

import numpy as np

from ..core import locks
from ..core.layout import exact_strides, order_of, view_of
from ..core.op import Op
from ..core.storage import Array
from ..core.strides import row_major_strides
from ..core.tensor import wrap
from ..core.trace_tree import NONE, NUMBER, LeafKind, TraceOp
from ..core.types import TensorType, type_of_array
from ..dispatch.dispatcher import signature_of
from ..ops.control_flow import ControlOp
from ..scheduling.request import Plan, Request, Unplannable, can_plan, plan
from .sizes import at_sizes
from .view_checks import check_view

if TYPE_CHECKING:
    from .runner import Step

Kinds = tuple[Any, ...]  # of inputs: a TensorType, float, int, bool or NoneType
Constants = Mapping[int, Any]  # numbers and None, by slot
MOST_LAYOUTS = 8  # of the inputs of one stretch
planning = locks.awaited()  # what planners share is not for several threads


class PlannedStretch:
    """Steps that run as one plan. `reads`: slots that come from outside; `writes`: those that are needed afterwards."""

    __slots__ = ("constants", "drops", "planned", "reads", "reason", "steps", "writes")

    def __init__(self, steps: list[Step], constants: Constants, writes: Sequence[int]) -> None:
        made = {slot for step in steps for slot in _results(step)}
        self.steps = steps
        self.reads = tuple(dict.fromkeys(s for p in steps for s in p.reads if s not in made and s not in constants))
        self.writes = tuple(writes)
        self.drops = tuple({slot for step in steps for slot in step.drops} & {*self.reads})
        self.reason: str | None = None  # why it has no plan
        self.constants = {slot: constants[slot] for step in steps for slot in step.reads if slot in constants}
        self.planned: list[PlannedLayout] = []

    def run(self, slots: list[Any]) -> bool:
        """Compute `writes`, in `slots`. False: it could not be done, and nothing has changed."""
        arrays = []
        for slot in self.reads:
            array = slots[slot]._data
            arrays.append(slots[slot]._values() if array is None else array)
        for planned in self.planned:
            if planned.fits(arrays):
                break
        else:
            found = self._plan(arrays)
            if found is None:
                return False
            planned = found
        results = planned.run([arrays[i] for i in planned.inputs], planned.numbers)
        if type(results) is not list:
            return False
        for slot, type_, result in zip(self.writes, planned.types, results, strict=True):
            slots[slot] = wrap(result, type_)
        for slot in self.drops:
            slots[slot] = None
        return True

    def _plan(self, arrays: list[Array]) -> PlannedLayout | None:
        """The plan for inputs that lie like these; None where there is none."""
        if self.reason is not None or len(self.planned) >= MOST_LAYOUTS or not all(map(is_plain, arrays)):
            return None
        kinds = {
            slot: LeafKind(type_of_array(array), exact_strides(array), False)
            for slot, array in zip(self.reads, arrays, strict=True)
        }
        with planning:
            trace = StretchTrace(self.constants, kinds)
            try:
                for step in self.steps:
                    trace.add(step)
                request = trace.request(self.writes)
                made = plan(request)
            except Unplannable as error:
                made = error
        if isinstance(made, Unplannable):
            self.reason = made.reason
            return None
        types = [trace.type_of(slot) for slot in self.writes]
        found = PlannedLayout(made, request, list(kinds.values()), types, self.constants, trace.number_slots)
        order = {slot: i for i, slot in enumerate(self.reads)}
        found.inputs = [order[trace.leaf_slots[-1 - leaf]] for leaf in made.inputs]
        found.knows(arrays)
        self.planned.append(found)
        return found

    def constants_at(self, sizes: Mapping[str, int]) -> Constants:
        """The numbers that its steps read, at other sizes."""
        slots = {slot: i for step in self.steps for slot, i in zip(step.reads, step.node.inputs, strict=True)}
        return {slot: at_sizes(slots[slot], sizes) for slot in self.constants}


class PlannedLayout:
    """The plan of a stretch for inputs that lie in one way."""

    __slots__ = ("_arrays", "_forms", "_number_slots", "inputs", "kinds", "numbers", "request", "run", "types")

    def __init__(
        self,
        made: Plan,
        request: Request,
        kinds: Sequence[LeafKind],
        types: Sequence[TensorType],
        constants: Constants,
        number_slots: Sequence[int],
    ) -> None:
        """`kinds`: of what the stretch reads; `types`: of what it writes; `number_slots`: where its numbers stand."""
        self.run = made.run
        self.request = request
        self.kinds = kinds
        self.types = types
        self.inputs: list[int] = []  # which of what the stretch reads each of the plan's inputs is
        self.numbers = [constants[slot] for slot in number_slots]
        self._number_slots = number_slots
        self._arrays: list[Any] = [_nothing] * len(kinds)
        self._forms = [(kind.type.shape, strides_of(kind), kind.type.dtype.numpy) for kind in kinds]

    def knows(self, arrays: list[Array]) -> None:
        """These arrays fit, and some of them, the weights, will come again."""
        self._arrays = [weak(array) for array in arrays]

    def resized(
        self, made: Plan, constants: Constants, kinds: Sequence[LeafKind], types: Sequence[TensorType]
    ) -> PlannedLayout:
        """The same for another size, of which this is the plan."""
        found = PlannedLayout(made, self.request, kinds, types, constants, self._number_slots)
        found.inputs = self.inputs
        return found

    def fits(self, arrays: list[Array]) -> bool:
        """Whether these are like those that it was made for."""
        known, forms = self._arrays, self._forms
        for i, array in enumerate(arrays):
            if known[i]() is array:
                continue
            if (array.shape, array.strides, array.dtype) != forms[i] or not is_plain(array):
                return False
        return True


def _nothing() -> None:
    return None


def strides_of(kind: LeafKind) -> tuple[int, ...]:
    """In bytes."""
    return kind.strides or row_major_strides(kind.type.shape, kind.type.dtype.itemsize)


def is_plain(array: Array) -> bool:
    """Whether native code can read it."""
    return type(array) is np.ndarray and array.flags.aligned and array.dtype.isnative


# ---- steps as traced ops


class StretchTrace:
    """The steps of a stretch as a trace: what `ex.compile` would have recorded, without gradients."""

    def __init__(self, constants: Constants, kinds: Mapping[int, LeafKind]) -> None:
        self._constants = constants
        self._kinds = kinds  # of the slots that come from outside
        self._refs: dict[int, int] = {}
        self._ops: list[TraceOp] = []
        self._makers: list[TraceOp] = []  # by value
        self._leaves: list[LeafKind] = []
        self.leaf_slots: list[int] = []
        self.number_slots: list[int] = []  # of the numbers that a run is given

    def request(self, wanted: Sequence[int]) -> Request:
        """What is to be planned, to get these slots."""
        return Request(self._ops, 0, self._leaves, frozenset(), tuple([self._refs[slot] for slot in wanted]))

    def type_of(self, slot: int) -> TensorType:
        """Of a slot that a step writes."""
        place = self._refs[slot]
        step = self._makers[place]
        found: TensorType = step.type[place - step.place] if type(step.type) is tuple else step.type
        return found

    def add(self, step: Step) -> None:
        """Append a step; Unplannable: it cannot be part of a plan."""
        op, attrs, n_leaves = step.op, step.attrs, len(self._leaves)
        number_slots: list[int] = []
        refs = tuple([self._ref(slot, number_slots) for slot in step.reads])
        numbers = [self._constants[slot] for slot in number_slots]
        kinds = tuple([self._kind(slot) for slot in step.reads])
        signature = signature_of(op, (), kinds, attrs)
        if not _has_code(op, signature):
            raise Unplannable(f"{op.name} has no native code")
        view = order = baked = None
        if op.aliases_input:
            check_view(op, kinds[0], numbers, attrs)
            view = view_of(op, attrs, kinds[0], self._strides(refs[0]), numbers, None)
            if view is None and signature.kernel is None:
                raise Unplannable(f"{op.name} takes a copy")
            if numbers:
                baked, refs = tuple(numbers), tuple([NONE if ref >= NUMBER else ref for ref in refs])
        elif op.keeps_order:
            tensors = [(k, self._strides(ref)) for ref, k in zip(refs, kinds, strict=True) if isinstance(k, TensorType)]
            order = order_of(signature.type, tensors)
        if baked is None:
            self.number_slots += number_slots
        place, new_leaves = len(self._makers), tuple(self._leaves[n_leaves:])
        traced = TraceOp(
            op, attrs, refs, kinds, signature, place, 0, False, new_leaves, view, baked, step.node.where, None, order
        )
        self._ops.append(traced)
        for i, slot in enumerate(_results(step)):
            self._refs[slot] = place + i
            self._makers.append(traced)

    def _ref(self, slot: int, number_slots: list[int]) -> int:
        if slot in self._constants:
            if self._constants[slot] is None:
                return NONE
            number_slots.append(slot)
            return NUMBER + len(self.number_slots) + len(number_slots) - 1
        if slot not in self._refs:
            self._leaves.append(self._kinds[slot])
            self.leaf_slots.append(slot)
            self._refs[slot] = -len(self._leaves)
        return self._refs[slot]

    def _kind(self, slot: int) -> Any:
        if slot in self._constants:
            return type(self._constants[slot])
        return self._kinds[slot].type if slot in self._kinds else self.type_of(slot)

    def _strides(self, ref: int) -> tuple[int, ...] | None:
        return self._leaves[-1 - ref].strides if ref < 0 else self._makers[ref].strides


def _results(step: Step) -> range:
    return range(step.first, step.first + max(1, step.n_results))


def _has_code(op: type[Op], signature: Any) -> bool:
    if op.aliases_input:
        return signature.view is not None or op.name in ("detach", "alias")
    return signature.kernel is not None


# ---- cutting a graph into stretches


def in_stretches(
    steps: Sequence[Step], constants: Constants, types: Mapping[int, TensorType], outputs: Sequence[int]
) -> list[Step | PlannedStretch]:
    """The steps, with a stretch for all that plans can run. `types`: those of all slots, as a run has shown."""
    if not can_plan():
        return list(steps)
    found: list[Step | PlannedStretch] = []
    group: list[Step] = []
    last_read = {slot: i for i, step in enumerate(steps) for slot in step.reads} | dict.fromkeys(outputs, len(steps))

    def end_group(at: int) -> None:
        if any(not step.op.aliases_input for step in group):
            writes = [slot for step in group for slot in _results(step) if last_read.get(slot, -1) >= at]
            found.append(PlannedStretch(group.copy(), constants, writes))
        else:
            found.extend(group)
        group.clear()

    for i, step in enumerate(steps):
        if _is_plannable(step, constants, types):
            group.append(step)
        else:
            end_group(i)
            found.append(step)
    end_group(len(steps))
    return found


def _is_plannable(step: Step, constants: Constants, types: Mapping[int, TensorType]) -> bool:
    if step.op.family == "random" or issubclass(step.op, ControlOp):
        return False
    kinds = tuple([type(constants[slot]) if slot in constants else types[slot] for slot in step.reads])
    if not any(isinstance(kind, TensorType) for kind in kinds) or not _known(kinds):
        return False
    return _has_code(step.op, signature_of(step.op, (), kinds, step.attrs))


def _known(kinds: Kinds) -> bool:
    return all(isinstance(kind, TensorType) or kind in (float, int, bool, NoneType) for kind in kinds)
