"""The trace tree: every trace that a compiled function was ever seen to take, so that one seen before is known at once.

A TraceOp is one traced op, an edge; a TraceNode is where a trace stands after some of them. Following known edges
compares each op with what stands there (op, attributes, where the inputs come from, the types of new leaves): these are
the guards of a plan, compared while the trace is made. Numbers are none: they go into the trace's list of numbers,
except the starts of slices of traced values, which are guards until they are seen to change.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from . import costs, locks
from .graph import Where
from .op import Op, Signature
from .strides import Order, ordered_strides
from .types import TensorType

# How an op refers to its inputs: to a value by its id, from 0 on, to a leaf by -1 - index, and by these.
NUMBER = 1 << 40  # NUMBER + index in the trace's list of numbers
NONE = -(1 << 40)

MOST_EDGES, MOST_EVENTS = 100, 64  # that one node remembers


tree_lock = locks.renewed()  # edges are added by one thread at a time; half a change is an edge less, at most


class Unplannable(Exception):
    """Why there is no plan for a request; it is then run op by op."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ViewLayout(NamedTuple):
    """Where a result is in the memory of input 0; in bytes."""

    strides: tuple[int, ...]
    offset: int
    # Starts that may change: (number, stride, largest value it may have); each moves the view by number * stride.
    starts: tuple[tuple[int, int, int], ...] = ()


class LeafKind(NamedTuple):
    """What a plan depends on of a tensor from outside."""

    type: TensorType
    strides: tuple[int, ...] | None  # in bytes; None: it is row-major
    tracked: bool


class TraceOp:
    """One traced op, an edge, and the node that it leads to. Nothing of it changes once it is in the tree."""

    __slots__ = (
        *("_read_positions", "_signature", "attrs", "baked", "cut", "following", "grad", "kinds"),
        *("n_numbers", "needs", "new_leaves", "op", "order", "packed", "place", "refs", "tracked", "type"),
        *("view", "where"),
    )

    def __init__(
        self,
        op: type[Op],
        attrs: dict[str, Any],
        refs: tuple[int, ...],
        kinds: tuple[Any, ...],
        signature: Signature,
        place: int,
        needs: int,
        grad: bool | None,
        new_leaves: tuple[LeafKind, ...],
        view: ViewLayout | None,
        baked: tuple[Any, ...] | None,
        where: Where | None,
        cut: Any,
        order: Order | None = None,
    ) -> None:
        self.op = op
        self.attrs = attrs
        self.refs = refs
        self.kinds = kinds  # for each input a TensorType, float, int, bool or NoneType
        self._signature: Signature | Callable[[TraceOp], Signature] = signature
        self._read_positions: tuple[int, ...] | None = None
        self.type: Any = signature.type
        self.place = place  # the value id of its first result
        self.needs = needs  # bit i: input i is tracked
        self.grad = grad  # whether gradients were traced; None: in inference mode
        self.tracked = bool(needs) and bool(grad) and op.name != "detach" and _any_floating(self.type)
        self.new_leaves = new_leaves  # leaves that are met here for the first time, in the order of the inputs
        self.view = view
        self.order = order  # of the dimensions in memory, where it is neither row-major nor a view
        self.baked = baked  # the numbers among the inputs, where they are guards
        self.where = where
        self.cut = cut  # why gradients end here; None if they do not
        self.n_numbers = 0 if baked is not None else sum(ref >= NUMBER for ref in refs)
        # For native code: each input's ref, and whether it is tracked.
        self.packed = b"".join([struct.pack("<2q", ref, needs >> i & 1) for i, ref in enumerate(refs)])
        self.following: TraceNode  # set by TraceNode.add

    @property
    def signature(self) -> Signature:
        """What running it by itself takes; an op of a new size finds it when it is asked for."""
        found = self._signature
        if not isinstance(found, Signature):
            found = self._signature = found(self)
        return found

    @property
    def read_positions(self) -> tuple[int, ...]:
        """What the eager engine saves for it: positions in (y, *inputs), or -1 - i for result i of several."""
        found = self._read_positions
        if found is None and not self.needs:
            found = self._read_positions = ()  # no gradient is asked for, and of bools there may be none
        if found is None:
            present = 0
            for i, kind in enumerate(self.kinds):
                present |= isinstance(kind, TensorType) << i
            masks = (self.needs, present)
            found = self.op._save_plans.get(masks)
            found = self._read_positions = self.op.save_plan(masks, self.kinds) if found is None else found
        return found

    def resized(
        self,
        attrs: dict[str, Any],
        kinds: tuple[Any, ...],
        type_: Any,
        new_leaves: tuple[LeafKind, ...],
        view: ViewLayout | None,
        signature: Callable[[TraceOp], Signature],
    ) -> TraceOp:
        """The same op on inputs of other sizes."""
        made: TraceOp = TraceOp.__new__(TraceOp)
        made.op, made.attrs, made.refs, made.kinds = self.op, attrs, self.refs, kinds
        made._signature, made.type, made.place = signature, type_, self.place
        made._read_positions = self._read_positions
        made.needs, made.grad, made.tracked, made.new_leaves = self.needs, self.grad, self.tracked, new_leaves
        made.view, made.baked, made.where, made.cut = view, self.baked, self.where, self.cut
        made.n_numbers, made.packed, made.order = self.n_numbers, self.packed, self.order
        return made

    @property
    def strides(self) -> tuple[int, ...] | None:
        """Of its result in bytes; None if that is row-major."""
        if self.view is not None:
            return self.view.strides
        return None if self.order is None else ordered_strides(self.type.shape, self.type.dtype.itemsize, self.order)

    @property
    def n_results(self) -> int:
        return len(self.type) if type(self.type) is tuple else 1

    def __repr__(self) -> str:
        return f"<op {self.place}: {self.op.name}{self.refs}>"


def _any_floating(type_: Any) -> bool:
    types = type_ if type(type_) is tuple else (type_,)
    return any(t.dtype.is_floating_point for t in types)


class BackwardCost(NamedTuple):
    """Seconds that a backward takes, by core/costs.py."""

    eager: float
    planned: float

    @classmethod
    def of(cls, passed: Iterable[TraceOp]) -> BackwardCost:
        """A backward that passes these ops, and runs with what has not run yet of them."""
        eager, planned = costs.EAGER_ENGINE, costs.PLANNED_BACKWARD
        for step in passed:
            work = costs.BACKWARD_WORK * costs.work_of(step.op, step.kinds, step.type)
            eager += costs.backward_overhead_of(step.op) + work
            planned += costs.planned_work(step.op, work)
        return cls(eager, planned)


NO_BACKWARD = BackwardCost(0.0, 0.0)
NO_EVENTS: dict[Any, Any] = {}


class TraceNode:
    """Where a trace stands: what has been traced so far. `step` is the edge that was taken last."""

    __slots__ = (
        *("eager_seconds", "events", "families", "like", "n_leaves", "n_numbers", "n_places", "n_run", "others"),
        *("parent", "planned_seconds", "step", "via"),
    )

    def __init__(self, parent: TraceNode | None = None, via: TraceOp | None = None) -> None:
        self.parent = parent
        self.via = via
        self.step: TraceOp | None = None
        # Few nodes have more than one edge, or a segment: the garbage collector has to look at every list and dict.
        self.others: Sequence[TraceOp] = ()  # every other edge that was ever taken from here
        self.events: Any = NO_EVENTS  # segments that end here, by what was live
        self.like: Any = None  # the generic node that this is an instance of, and its size (dynamic_shapes.py)
        self.families: Sequence[Any] = ()  # of edges from here that differ in a size
        if parent is None or via is None:
            self.n_places = self.n_leaves = self.n_numbers = 0
            self.n_run = 0  # values that have been computed
            self.eager_seconds = 0.0  # that the call takes in eager mode up to here, by core/costs.py
            self.planned_seconds = 0.0  # the same along known edges, everything by plans
        else:
            self.n_places = via.place + via.n_results
            self.n_leaves = parent.n_leaves + len(via.new_leaves)
            self.n_numbers = parent.n_numbers + via.n_numbers
            self.n_run = parent.n_run
            work = costs.work_of(via.op, via.kinds, via.type)
            self.eager_seconds = parent.eager_seconds + costs.overhead_of(via.op, via.tracked) + work
            self.planned_seconds = parent.planned_seconds + costs.TRACED_OP + costs.planned_work(via.op, work)

    def remember(self, key: Any, event: Any) -> Any:
        """What happens here when a key is met; the oldest is forgotten when there are too many."""
        events = self.events
        if events is NO_EVENTS:
            events = self.events = {}
        if len(events) >= MOST_EVENTS:
            del events[next(iter(events))]
        events[key] = event
        return event

    def after_flush(self, backward: BackwardCost = NO_BACKWARD) -> TraceNode:
        """The same trace, with everything run."""
        made = TraceNode(self)
        made.n_places, made.n_leaves, made.n_numbers = self.n_places, self.n_leaves, self.n_numbers
        made.n_run = self.n_places
        made.eager_seconds = self.eager_seconds + backward.eager
        made.planned_seconds = self.planned_seconds + (backward.planned or costs.PLAN_RUN)
        return made

    def new_trace(self, backward: BackwardCost = NO_BACKWARD) -> TraceNode:
        """An empty trace, on which the same call goes on."""
        made = TraceNode()
        made.eager_seconds = self.eager_seconds + backward.eager
        made.planned_seconds = self.planned_seconds + backward.planned
        return made

    def add(self, step: TraceOp) -> TraceOp:
        step.following = TraceNode(self, step)
        self.take(step)
        return step

    def take(self, step: TraceOp) -> None:
        """Look at this edge first from now on."""
        if self.step is not step:
            others = [s for s in self.others if s is not step]
            if self.step is not None:
                others.append(self.step)
            self.others = tuple(others[-MOST_EDGES:])
            self.step = step

    def edges(self) -> Sequence[TraceOp]:
        return self.others if self.step is None else [self.step, *self.others]

    def steps(self) -> list[TraceOp]:
        """The whole trace up to here."""
        found = []
        state: TraceNode | None = self
        while state is not None:
            if state.via is not None:
                found.append(state.via)
            state = state.parent
        found.reverse()
        return found
