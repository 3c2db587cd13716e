"""TraceExecutor: one call of a compiled function, as far as its ops are traced: it has a trace, and runs it.

Traced tensors have a type and no values. Where values are asked for, the segment of the trace that has not run yet
does: op by op with eager's kernels if it is met for the first time, by one plan if it was met before. The trace is also
what backward goes through, so no nodes are made: besides what is live, a segment keeps what the gradients of tracked
ops read. Whoever needs real nodes (a hook, `grad_fn`, an op that only eager mode knows, a write into memory that a
gradient reads) closes the trace: it runs, its nodes are linked as eager mode would have linked them, and a new one
begins. A plan never writes to memory from outside, so one that fails has changed nothing, and the replay raises the
error.

How an op gets onto the trace stands in `tracer`, how a segment gets its plan in `planner`, and what happens at a
backward in `backward`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import nullcontext
from sys import getrefcount
from typing import Any

from ..backends import entry_points
from ..core import active_traces, costs
from ..core.context import CONTEXT, ExecutionContext
from ..core.graph import Node, describe_where
from ..core.layout import is_contiguous
from ..core.op import Op
from ..core.storage import Array, Storage
from ..core.tensor import LazySource, Tensor, layout_of
from ..core.trace_tree import BackwardCost, TraceNode, TraceOp
from ..dispatch.dispatcher import as_input, run_eager
from ..dispatch.fast_path import launcher
from . import dynamic_shapes
from .backward import backward_by_plan
from .interpreter import FailedOp, replay
from .materialize import materialize_freed_nodes, materialize_nodes
from .output_binding import bind_outputs
from .planner import SegmentPlanner
from .segment import Counters, Segment, first_segment
from .trace import ENDED, GATE, Trace
from .tracer import Tracer

_OWN = 2  # references to what one attribute alone refers to: that, and getrefcount's argument
_NOBODY_ELSE = nullcontext()


@entry_points.RUN_SEGMENT.function(lambda: launcher().segment_call("flush"))
def _flush_known(executor: TraceExecutor) -> bool:
    """Whether native code has run what is on the trace."""
    return False


@entry_points.RUN_BACKWARD.function(lambda: launcher().segment_call("backward"))
def _backward_known(executor: TraceExecutor, place: int, gradient: Array) -> list[tuple[Node, Array]] | None:
    """What native code leaves to do of a backward; None: all."""
    return None


class TraceExecutor(LazySource):
    """Runs what one call of a compiled function has traced; the lazy source of the tensors on its trace.

    An executor whose function has returned lives on as long as a tensor of its trace does (it has *escaped*): a loss
    and a backward may follow. Any thread may come across it then, so what it does is done under a lock.
    """

    __slots__ = (
        *("__weakref__", "_escaped_at", "_most_replaying", "_n_escaped", "_replaying_left"),
        *("counters", "is_left", "planner", "trace", "tracer"),
    )

    def __init__(
        self,
        root: TraceNode,
        counters: Counters,
        decide: Callable[..., bool],
        most_new_ops: Callable[[], int] | None = None,
        most_replaying: Callable[[], float] | None = None,
    ) -> None:
        self.trace = Trace(root)
        self.tracer = Tracer(counters, most_new_ops)
        self.counters = counters
        self.planner = SegmentPlanner(counters, decide)
        self._most_replaying = most_replaying  # seconds of running op by op; asked when there are some
        self._replaying_left: float | None = None
        self.is_left = False  # the function has returned
        self._n_escaped = 0  # ops on its trace, counted as escaped when it returned
        self._escaped_at: TraceNode | None = None  # where it was then

    def begin_again(self, root: TraceNode, decide: Callable[..., bool]) -> None:
        """As if it were new, for another call of the same function: its last trace is over and nobody else has it."""
        self.trace.begin_again(root)
        self.tracer.n_allowed = None
        self.planner.decide = decide
        self._replaying_left = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing of the call is left to be done."""
        return not self.is_left and not self.trace.makers and not self.trace.leaves

    def _alone(self) -> Any:
        """A trace that has escaped may be reached by other threads, too."""
        return active_traces.escaped_lock if self.is_left else _NOBODY_ELSE

    # ---- tracing

    def apply(self, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any], mode: ExecutionContext) -> Any:
        """Put the op on the trace, or run it if that is not possible."""
        with self._alone():
            if self.is_left:
                active_traces.worked_on = id(self)
            made = self.tracer.append(self, op, inputs, attrs, mode)
            if made is not None:
                return made
            if not self.tracer.allows_new_ops():
                self._give_up("too many ops of one call were new, the rest of it ran eagerly")
            return self._eagerly(op, inputs, attrs, mode)

    def _give_up(self, why: str) -> None:
        """It is not worth tracing: the rest of the function runs eagerly."""
        self.counters.given_up += 1
        self.close(why)
        mode = CONTEXT.get()
        if mode.recording is self:
            CONTEXT.set(mode.but(recording=None))

    def _eagerly(self, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any], mode: ExecutionContext) -> Any:
        """Run the op now. A node that it links must come after those of everything on the trace."""
        inputs = tuple(map(as_input, inputs))
        self.counters.ran_eagerly(costs.EAGER_OP)
        self.counters.traced_seconds += costs.EAGER_IN_TRACE
        if op.name == "detach":  # with its values it is as good as any tensor
            inputs[0]._values()
            return inputs[0].detach()
        if mode.grad and any(isinstance(x, Tensor) and type(x._history) is Node for x in inputs):
            self.close(f"{op.public_name} runs eagerly")
            self.trace.set_gate()
        return run_eager(op, inputs, attrs, mode.but(recording=None))

    # ---- what tensors ask for

    def settle(self, t: Tensor) -> None:
        if self.is_left or not _flush_known(self):
            self.flush()

    def read(self, t: Tensor) -> Array:
        if self.is_left or not _flush_known(self):
            self.flush()
        return t._data

    def link(self, t: Tensor) -> None:
        self.close("the graph itself was asked for: by a hook, by grad_fn, or by a backward that had no plan yet")

    def strides_of(self, t: Tensor) -> tuple[int, ...] | None:
        with self._alone():
            if t._data is not None:  # another thread was faster
                return layout_of(t)
            strides = self.trace.makers[t._value_id].strides
            return None if strides is None or is_contiguous(t._type, strides) else strides

    def is_view(self, t: Tensor) -> bool:
        with self._alone():
            return t._alias is not None if t._data is not None else self.trace.makers[t._value_id].view is not None

    def backward(
        self, root: Tensor, gradient: Array, asked: Sequence[Tensor] | None = None, keep: bool = False
    ) -> list[tuple[Any, Array]] | None:
        """The gradients of the leaves that `root` depends on, by one plan; None: the engine has to do it.

        If tensors are asked for, those of leaves that lead to them, and of asked tensors on the trace, by value id.
        Unless it is to `keep` the graph, the trace is over then: what is still live has its values and its nodes, freed
        ones where backward came by.
        """
        if not self.is_left:
            return backward_by_plan(self, root, gradient, asked, keep)
        with active_traces.escaped_lock:  # as if the function were still running
            active_traces.worked_on = id(self)
            if root._history is not self.trace.proxy:
                return None  # another thread was faster, and it is not on the trace any more
            self.trace.refer_strongly(self)
            try:
                return backward_by_plan(self, root, gradient, asked, keep)
            finally:
                trace = self.trace  # another one, if that was the end of the first
                trace.results, trace.inside = trace.references(), False

    def backward_known(self, place: int, gradient: Array) -> list[tuple[Node, Array]] | None:
        """The same in native code, from a value, where it was met before; what is left to do of it. None: all."""
        rest = _backward_known(self, place, gradient)
        if rest is not None:
            self.counters.python_seconds += costs.ACCUMULATION * len(rest)
            if self.trace.alive:
                self.materialize_freed(range(len(self.trace.makers)))  # nothing else that is live is left
            self.end_trace(self.trace.cursor)
        return rest

    # ---- what happens to memory

    def before_write(self, storages: Iterable[Storage] | None) -> None:
        """Memory is about to be written: what was traced reading it reads it now. None: any memory."""
        trace = self.trace
        if not trace.makers and not trace.leaves:
            return
        self.counters.python_seconds += costs.WRITE
        with self._alone():
            self.flush()
            trace = self.trace
            trace.forget_leaves(storages)
            if trace.makers and (storages is None or any(map(trace.reads_memory, storages))):
                self.close("memory that it reads was written to")

    def before_sharing(self, storage: Storage) -> None:
        """Memory is about to be handed out, and may be written by whoever gets it."""
        with self._alone():
            if self.trace.looks_at(storage):
                self.flush()

    # ---- running

    def flush(self) -> None:
        """Run everything that has not run yet."""
        with self._alone():
            if self.is_left:
                active_traces.worked_on = id(self)
            n_replays, n_run = self.counters.replays, self.trace.cursor.n_run
            self._flush()
        if self.counters.replays != n_replays and self._most_replaying is not None and not self.is_left:
            if self._replaying_left is None:
                self._replaying_left = self._most_replaying()
            self._replaying_left -= costs.REPLAYED_OP * (len(self.trace.makers) - n_run)
            if self._replaying_left < 0.0:
                self._give_up("too little of one call had plans yet, the rest of it ran eagerly")

    def _flush(self) -> None:
        if _flush_known(self):
            return
        trace = self.trace
        state = trace.cursor
        first = state.n_run
        if first == state.n_places:
            return
        self.counters.python_seconds += costs.PYTHON_SEGMENT
        live = trace.live_from(first)[: state.n_places - first]
        found = state.events.get(live)
        if found is None:
            found = self.generated_segment(state, live, TraceNode.after_flush)
        if found is None:
            found = state.remember(live, first_segment(trace, first, live, state.after_flush()))
        values = dict(zip(found.wanted, self.run(found, trace, state), strict=True))
        bind_outputs(found, trace.makers, state)
        if trace.cursor is not state:  # a finalizer that ran meanwhile has traced, run or closed it
            self._flush()
            return
        trace.values.update(values)
        trace.cursor = found.following
        trace.fill(found.live, self)
        trace.let_go(first, live)
        trace.alive += found.tracked
        if len(trace.makers) > trace.sweep_at:
            trace.sweep()

    def generated_segment(
        self, state: TraceNode, key: Any, follow: Callable[[TraceNode, BackwardCost], TraceNode]
    ) -> Segment | None:
        """The segment that was met here for other sizes."""
        known = None if state.like is None else state.like.node.events(key)
        if known is None:
            return None
        cost = known[0].backward_cost
        following = self._follow(state, key, lambda before: follow(before, cost))
        found: Segment = state.remember(key, known[0].like(following))
        found.reason = known[0].reason
        found.resizing = state.like.node.resizing(key)
        return found

    def _follow(self, state: TraceNode, key: Any, after: Callable[[TraceNode], TraceNode]) -> TraceNode:
        n_made = dynamic_shapes.GenericEdge.n_made
        following = dynamic_shapes.follow(state, key, after)
        self.counters.grown_steps += dynamic_shapes.GenericEdge.n_made - n_made
        return following

    def run(self, found: Segment, trace: Trace, state: TraceNode) -> list[Any]:
        """The values of `found.wanted`, and with a backward the gradients after them."""
        if found.plan is None:
            self.planner.wish_for_plan(found, trace, state)
        plan = found.plan  # another thread may clear it
        if plan is not None:
            leaves, values = trace.arrays, trace.values
            arrays = [values[ref] if ref >= 0 else leaves[-1 - ref] for ref in plan.inputs]
            out = plan.run(arrays, trace.numbers)
            if type(out) is list:
                self.counters.runs += 1
                return out
            self.counters.failed += 1
        self.counters.replays += 1
        self.counters.learning_seconds += sum(
            [costs.replayed_seconds(s.op, s.kinds, s.type) for s in trace.makers[state.n_run :]]
        )
        return replay(found, trace, state, self._fail)

    def _fail(self, trace: Trace, first: int, step: TraceOp, values: dict[int, Any], error: Exception) -> None:
        """What was traced before the op stands; it and what came after have no values."""
        if step.where is not None:
            error.add_note(f"{step.op.public_name} was recorded at {describe_where(step.where)}")
        failed = FailedOp(error)
        for place in range(step.place, len(trace.results)):
            t = trace.live_tensor(place)
            if t is not None and t._data is None:
                t._source, t._history = failed, None
        del trace.results[step.place :], trace.makers[step.place :]
        trace.values = values
        live = trace.live_from(first)
        places = [p for p, is_live in enumerate(live, first) if is_live]
        trace.fill(places, self)
        trace.let_go(first, live)
        trace.alive += [p for p in places if trace.makers[p].tracked]
        materialize_nodes(trace)
        if trace is self.trace:  # otherwise a finalizer has ended it before
            self.end_trace(TraceNode())

    # ---- the end of a trace

    def close(self, why: str) -> None:
        """Run everything, give every live tensor its node, and begin a new trace."""
        with self._alone():
            if self.is_left:
                active_traces.worked_on = id(self)
            self._close(why)

    def _close(self, why: str) -> None:
        self._flush()
        trace = self.trace
        state = trace.cursor
        if state.n_places == 0 and state.parent is None:
            return
        self.counters.close(why)
        self.counters.materialised(materialize_nodes(trace), trace.unplanned)
        following = state.events.get("closed")
        if following is None:
            following = state.remember("closed", self._follow(state, "closed", TraceNode.new_trace))
        self.end_trace(following)

    def materialize_freed(self, freed: Container[int]) -> None:
        """Give every live tensor its node, after a backward that has freed some."""
        self.counters.python_seconds += costs.MATERIALISED_NODE * materialize_freed_nodes(self.trace, freed)

    def end_trace(self, following: TraceNode) -> None:
        """Begin a new trace: of this one, every live tensor has what it needs."""
        before, counters = self.trace, self.counters
        proxy = before.proxy if getrefcount(before.proxy) <= _OWN else None  # a live tensor stays with it
        after = Trace(GATE, following, before.inside, proxy)
        counters.steps += len(before.makers)
        if self._n_escaped:
            counters.left_steps -= self._n_escaped
            self._n_escaped = 0
        if self._escaped_at is not None:
            counters.went_on(self._escaped_at, following)
            self._escaped_at = None
        if before.alive:
            before.release_tensors(self)
        before.cursor, self.trace = ENDED, after  # whoever was about to change it finds it elsewhere than it was

    def leave(self) -> TraceNode:
        """The function returned. What is tracked and not run yet may wait: a loss and a backward may follow.

        Returns where the trace was then.
        """
        trace = self.trace
        if not trace.makers:
            return trace.position
        first, makers = trace.cursor.n_run, trace.makers
        references = trace.references()
        if not [p for p, t in enumerate(references) if t is not None and p >= first and makers[p].tracked]:
            self.flush()
            trace = self.trace
            state = trace.position
            if not any(trace.live_tensor(p) is not None for p in trace.alive):
                self.end_trace(TraceNode())
                return state
            references = trace.references()
        trace.results, trace.inside = references, False
        self._n_escaped = len(trace.makers)
        self.counters.left_steps += self._n_escaped
        self.counters.traced_seconds += costs.LEAVE
        self._escaped_at = trace.cursor
        active_traces.note_escaped(self)
        return trace.cursor
