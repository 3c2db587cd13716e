"""Actions on the trace of a static function's call: steps that come onto it together, flushes, its end.

`Extend` puts all steps of a stretch on the trace at once. Flushes are known beforehand, with their plans.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from ...core.active_traces import note_escaped
from ...core.graph import Node, Where, describe_where, next_number
from ...core.tensor import Tensor, new
from ...core.trace_tree import LeafKind, TraceNode, TraceOp
from ...core.types import TensorType
from ...errors import DtypeError, GraphError, ShapeError
from ..executor import TraceExecutor
from ..segment import Segment
from ..trace import Trace
from .guards import Slots, has_strides
from .script import Action, Labels, ScriptCall


def _nothing() -> None:
    return None


class LeafSlot:
    """A leaf that a stretch of steps brings along."""

    __slots__ = ("array", "checked", "kind", "labels", "node", "slot", "stays", "where")

    def __init__(
        self, slot: int, kind: LeafKind, where: Where | None, checked: bool, stays: bool, labels: Labels
    ) -> None:
        self.slot = slot
        self.kind = kind
        self.where = where
        self.checked = checked  # before: an argument
        self.stays = stays  # from call to call it is the same tensor
        self.array: Callable[[], Any] = _nothing  # what fitted last, held weakly: an optimizer may want to move it
        self.node: Any = None
        self.labels = labels

    def check(self, x: Tensor) -> None:
        type_, strides, tracked = self.kind
        array = x._data
        if x._type != type_ or (type(x._history) is Node) is not tracked:
            words = "requires grad" if type(x._history) is Node else "does not require grad"
            expected = "required grad" if tracked else "did not require grad"
            error = DtypeError if x.dtype is not type_.dtype else ShapeError if x._type != type_ else GraphError
            raise error(
                f"{self._described()} is {x._type} and {words}, when the function was recorded it was {type_} and "
                f"{expected}; dtypes, sizes and structure are fixed, compile it anew"
            )
        if not has_strides(x, strides):
            raise GraphError(
                f"{self._described()} lies in memory with strides {x.stride()}, when the function was recorded it did "
                "not; use x.contiguous(), or compile it anew"
            )
        if self.stays:
            self.array, self.node = weakref.ref(array), x._history

    def _described(self) -> str:
        return f"{self.labels.of(self.slot)} that is used at {describe_where(self.where)}"


class Handle:
    """A recorded tensor that something other than a step of its own trace reads."""

    __slots__ = ("cut", "place", "slot", "tracked", "type")

    def __init__(self, place: int, slot: int, step: TraceOp) -> None:
        self.place = place
        self.slot = slot
        self.type: TensorType = step.type[place - step.place] if type(step.type) is tuple else step.type
        self.tracked = step.tracked and self.type.dtype.is_floating_point
        self.cut = step.cut


class Extend(Action):
    """Steps that come onto the trace together."""

    def __init__(self, begin: TraceNode, labels: Labels) -> None:
        self.begin = self.end = begin
        self.labels = labels
        self.leaves: list[LeafSlot] = []
        self.numbers: list[Any] = []
        self.fed: list[tuple[int, int]] = []  # (which number, the slot that it is read from)
        self.makers: list[TraceOp] = []
        self.handles: list[Handle] = []
        self.first_place = begin.n_places

    def uses(self) -> list[int]:
        return [leaf.slot for leaf in self.leaves] + [slot for _, slot in self.fed]

    def run(self, call: ScriptCall) -> None:
        executor, slots = call.recording, call.slots
        trace = executor.trace
        if trace.cursor is not self.begin:
            self._join(trace)
        if self.leaves:
            self._add_leaves(trace, slots)
        if self.numbers:
            at = len(trace.numbers)
            trace.numbers += self.numbers
            for i, slot in self.fed:
                trace.numbers[at + i] = slots[slot]
        trace.makers += self.makers
        trace.results += [None] * len(self.makers)
        for handle in self.handles:
            t = new(Tensor)
            t._data = t._memory = t._alias = None
            t._type, t._grad_barrier = handle.type, handle.cut
            t._history = trace.proxy if handle.tracked else None
            t._source, t._value_id = executor, handle.place
            trace.results[handle.place] = slots[handle.slot] = t
        trace.cursor = self.end

    def _add_leaves(self, trace: Trace, slots: Slots) -> None:
        leaves, arrays, nodes, memories, versions = (
            trace.leaves,
            trace.arrays,
            trace.nodes,
            trace.memories,
            trace.versions,
        )
        for leaf in self.leaves:
            x = slots[leaf.slot]
            if x._alias is not None:
                x._catch_up()
            array, node, memory = x._data, x._history, x._memory
            if not leaf.checked and (array is not leaf.array() or node is not leaf.node):
                leaf.check(x)
            leaves.append(x)
            arrays.append(array)
            nodes.append(node)
            memories.append(memory)
            versions.append(memory.version)

    def _join(self, trace: Trace) -> None:
        if trace.makers or self.begin.parent is not None:
            raise GraphError(
                f"{self.labels.function}: memory is shared, or gradients are needed, in another way than when the "
                "function was recorded; compile it anew, or leave static=True out"
            )
        trace.cursor, trace.behind = self.begin, None  # one empty trace is like another
        trace.clocks = [(0, next_number())]


class RecordedTrace:
    """Everything that was recorded from one end of a trace to the next."""

    def __init__(self) -> None:
        self.makers: list[TraceOp] = []  # for each place its step
        self.handles: dict[int, Handle] = {}  # by place
        self.stretches: list[Extend] = []

    def handle(self, place: int, new_slot: Callable[[], int]) -> Handle:
        """The handle of a place, made when it is first asked for."""
        found = self.handles.get(place)
        if found is None:
            found = self.handles[place] = Handle(place, new_slot(), self.makers[place])
            next(s for s in reversed(self.stretches) if s.first_place <= place).handles.append(found)
        return found


class FlushNow(Action):
    """Run what is on the trace."""

    def __init__(self, recorded: RecordedTrace, state: TraceNode) -> None:
        self.recorded = recorded
        self.state = state
        self.first = state.n_run
        self.found: Segment
        self.handles: list[Handle] = []  # those that get their values

    def run(self, call: ScriptCall) -> None:
        executor, found = call.recording, self.found
        trace = executor.trace
        values = executor.run(found, trace, self.state)
        trace.values.update(zip(found.wanted, values, strict=True))
        trace.cursor = found.following
        give(executor, self.handles)


def give(executor: TraceExecutor, handles: list[Handle]) -> None:
    """Give tensors their values; views need their bases, so nothing is let go before all have theirs."""
    trace = executor.trace
    for handle in handles:
        t = trace.results[handle.place]
        if t._data is None:
            trace.give(t, handle.place, executor)
    for handle in handles:
        if trace.makers[handle.place].tracked:
            trace.alive.append(handle.place)
        else:
            trace.results[handle.place] = None


class Close(Action):
    """End the trace: whatever is held and tracked gets its node."""

    def run(self, call: ScriptCall) -> None:
        call.recording.close(
            "the graph itself was asked for: by a hook, by grad_fn, or by a backward that had no plan yet"
        )


class Leave(Action):
    """The function returns tracked tensors: its trace stays, and a backward outside goes on with it."""

    def run(self, call: ScriptCall) -> None:
        executor = call.recording
        trace = executor.trace
        trace.results = [None if t is None else weakref.ref(t) for t in trace.results]
        trace.inside = False
        for k, x in enumerate(trace.leaves):
            x._source, x._value_id = trace.token, -1 - k
        note_escaped(executor)
