"""Tracer: appends one op to a trace, along a known edge of the trace tree (same op, attributes, inputs and types of
new leaves) or by a new one.

An op that cannot be traced (no native kernel, an array that NumPy alone understands) is left to the executor, which
runs it eagerly.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ..backends import entry_points
from ..core import costs, trace_tree
from ..core.context import ExecutionContext
from ..core.graph import next_number
from ..core.layout import view_of
from ..core.op import Op, Signature
from ..core.source_location import user_line
from ..core.strides import Order
from ..core.tensor import Tensor
from ..core.trace_tree import TraceNode, TraceOp, ViewLayout
from ..core.types import TensorType
from ..dispatch.dispatcher import NO_ATTRS, cut_reason, signature_of
from ..dispatch.fast_path import launcher
from .dynamic_shapes import GenericEdge, Instance, find_family, grow
from .op_call import OpCall, grad_key
from .segment import Counters
from .trace import Trace

if TYPE_CHECKING:
    from .executor import TraceExecutor


@entry_points.EXTEND_ESCAPED.function(lambda: launcher().go_on)
def _extend_escaped(
    executor: TraceExecutor, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any], grad: bool | None
) -> Any:
    """What native code has put on an escaped trace; None: it has not."""
    return None


class _ResultLayout(NamedTuple):
    """Where the result of a new op is in memory."""

    view: ViewLayout | None = None
    order: Order | None = None  # of its dimensions, if it is neither row-major nor a view
    baked: tuple[Any, ...] | None = None  # the numbers among the inputs, if they are guards


class Tracer:
    """Appends ops to the trace of an executor, and counts how many new ones a call may still have."""

    __slots__ = ("_most_new_ops", "counters", "n_allowed")

    def __init__(self, counters: Counters, most_new_ops: Callable[[], int] | None = None) -> None:
        self.counters = counters
        self._most_new_ops = most_new_ops  # that one call may add to the trace tree; asked when there is one
        self.n_allowed: int | None = None  # of these, how many are left

    def allows_new_ops(self) -> bool:
        """Whether another op may be added to the trace tree in this call."""
        if self.n_allowed is None and self._most_new_ops is not None:
            self.n_allowed = self._most_new_ops()
        return self.n_allowed is None or self.n_allowed > 0

    def append(
        self,
        executor: TraceExecutor,
        op: type[Op],
        inputs: tuple[Any, ...],
        attrs: dict[str, Any],
        mode: ExecutionContext,
    ) -> Any:
        """The result(s) of an op that is on the trace now; None if it has to run eagerly."""
        trace = executor.trace
        if not trace.inside:
            made = _extend_escaped(executor, op, inputs, attrs, grad_key(mode))
            if made is not None:
                return made
        self.counters.python_seconds += costs.PYTHON_OP
        trace.pass_gate()
        state = trace.cursor
        call = OpCall.resolved(trace, executor, op, inputs, attrs, mode)
        step = None if call is None else self._edge(state, call)
        if call is None or step is None:
            return None
        types = step.type if type(step.type) is tuple else (step.type,)
        results = [trace.new_result(step, t, step.place + i, executor) for i, t in enumerate(types)]
        if not self._put(trace, state, step, call, results):  # a finalizer that ran meanwhile has traced, or closed it
            return self.append(executor, op, inputs, attrs, mode)
        return tuple(results) if type(step.type) is tuple else results[0]

    # ---- along the trace tree

    def _edge(self, state: TraceNode, call: OpCall) -> TraceOp | None:
        """The edge from here that is the same op on the same inputs, known or new; None if there cannot be one."""
        for step in state.edges():
            if call.fits(step):
                with trace_tree.tree_lock:
                    state.take(step)
                return step
        generated = self._generated_edge(state, call)
        if generated is None and self.allows_new_ops():
            return self._new_edge(state, call)
        return generated

    def _generated_edge(self, state: TraceNode, call: OpCall) -> TraceOp | None:
        """The same of a size that is new, where edges of other sizes are known."""
        n_worked_out, n_made = GenericEdge.n_worked_out, GenericEdge.n_made
        found = _edge_of_new_size(state, call)
        self.counters.worked_out += GenericEdge.n_worked_out - n_worked_out
        self.counters.grown_steps += GenericEdge.n_made - n_made
        return found

    def _new_edge(self, state: TraceNode, call: OpCall) -> TraceOp | None:
        if not any(isinstance(kind, TensorType) for kind in call.kinds):
            return None
        signature = signature_of(call.op, call.inputs, call.kinds, call.attrs)
        layout = _layout_of(state, call, signature)
        if layout is None:
            return None
        where = user_line()
        step = TraceOp(
            call.op,
            dict(call.attrs) if call.attrs else NO_ATTRS,
            call.refs if layout.baked is None else call.baked_refs(),
            call.kinds,
            signature,
            state.n_places,
            call.needs,
            call.grad,
            call.new_leaves,
            layout.view,
            layout.baked,
            where,
            _grad_barrier(call, signature, where),
            layout.order,
        )
        self.counters.new_steps += 1
        self.counters.learning_seconds += costs.NEW_OP
        if self.n_allowed is not None:
            self.n_allowed -= 1
        if step.new_leaves and state.step is not None and state.like is None:
            find_family(state, step)
        with trace_tree.tree_lock:
            return state.add(step)

    # ---- onto the trace

    def _put(self, trace: Trace, state: TraceNode, step: TraceOp, call: OpCall, made: list[Tensor]) -> bool:
        """Put the op, its new leaves and results on the trace, if that is where it was; all of it, or nothing.

        Neither an interrupt nor a finalizer comes in between assignments.
        """
        fresh, n_before = call.fresh, len(trace.leaves)
        arrays, nodes = [x._data for x in fresh], [x._history for x in fresh]
        memories = [x._memory for x in fresh]
        versions = [memory.version for memory in memories]
        results: list[Any] = made
        makers = [step] * len(made)
        clocks: list[tuple[int, int]] = []
        if not trace.inside:  # nodes that were linked since then come before
            results = [weakref.ref(t) for t in made]
            clocks = [(place, next_number()) for place in range(step.place, step.place + len(made))]
        if trace.cursor is not state:
            return False
        trace.leaves += fresh
        trace.arrays += arrays
        trace.nodes += nodes
        trace.memories += memories
        trace.versions += versions
        if step.baked is None:
            trace.numbers += call.numbers
        trace.results += results
        trace.clocks += clocks
        trace.makers += makers
        trace.cursor = step.following
        for place, x in enumerate(fresh, n_before + 1):  # so that it is found sooner
            x._value_id, x._source = -place, trace.token
        return True


def _edge_of_new_size(state: TraceNode, call: OpCall) -> TraceOp | None:
    if state.like is not None:
        for edge in state.like.node.edges():
            if edge.step.op is call.op and (step := edge.at(state.like.size)) is not None and call.fits(step):
                with trace_tree.tree_lock:
                    grow(state.add(step).following, Instance(edge.following, state.like.size))
                return step
    for family in state.families:
        step = family.member(call.op, call.new_leaves)
        if step is not None and call.fits(step):
            with trace_tree.tree_lock:
                family.take(step)
            return step
    return None


def _layout_of(state: TraceNode, call: OpCall, signature: Signature) -> _ResultLayout | None:
    """None if the op has to run eagerly."""
    if call.op.aliases_input:
        return _layout_of_view(state, call, signature)
    if signature.kernel is None:
        return None
    return _ResultLayout(order=call.order(signature.type) if call.op.keeps_order else None)


def _layout_of_view(state: TraceNode, call: OpCall, signature: Signature) -> _ResultLayout | None:
    if call.refs[0] < 0 and not (call.needs & 1 and call.mode.grad):
        return None  # a view of what is there already is made at once
    if signature.view is None and call.op.name not in ("detach", "alias"):
        return None
    numbers = call.numbers
    varies = bool(numbers) and call.has_other_starts(state.edges())
    first_number = len(call.trace.numbers) if varies else None
    view = view_of(call.op, call.attrs, call.kinds[0], call.strides(call.refs[0]), numbers, first_number)
    if view is None and signature.kernel is None:
        return None
    are_guards = numbers and (view is None or not view.starts)
    return _ResultLayout(view, baked=tuple(numbers) if are_guards else None)


def _grad_barrier(call: OpCall, signature: Signature, where: Any) -> Any:
    """Why gradients end at the result, or ended before; None if they do not."""
    if not call.needs:
        return call.cut
    if call.op.name == "detach":
        return "detach()", where
    return None if call.mode.grad and signature.floating else (cut_reason(call.op, call.mode), where)
