"""A recording: ops become steps on a tape and run later, as a plan where the same tape was met before.

Recorded tensors have a type and no values. Asking for values flushes: a tape that is met for the first time is replayed
op by op with the kernels that eager mode uses; met again, it runs as one plan. The tape is also what backward goes
through, so no nodes are made: a flush keeps, besides what the user still holds, what the gradients of tracked steps
read. Whoever needs real nodes (a hook, `grad_fn`, an op that only eager mode knows, a write into memory that a gradient
reads) closes the tape: it is run, its nodes are linked as eager mode would have linked them, and a new one begins.
A plan never writes to memory from outside, so one that fails has changed nothing, and the replay raises the error.

What is traced stands in `trace`, how an op gets there in `tracer`; here is how it runs and ends.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Container, Sequence
from sys import getrefcount
from typing import Any

from ..backends import entry_points
from ..backends.selection import give_back_memory
from ..core import active_traces, costs
from ..core.graph import Leaf, Node, describe_where
from ..core.storage import Array
from ..core.tensor import Tensor
from ..core.trace_tree import NO_BACKWARD, NUMBER, BackwardCost, LeafKind, TraceNode, TraceOp
from ..dispatch.fast_path import launcher
from ..scheduling.request import BackwardRequest, Plan, Prospect, Request, Unplannable, plan_in_pieces, prospect, reads
from . import dynamic_shapes
from .interpreter import FailedOp, replay
from .materialize import materialize_freed_nodes, materialize_nodes
from .output_binding import output_binding
from .segment import PLANS, Segment
from .trace import HELD
from .tracer import Tracer

_LARGE = 1 << 20


@entry_points.RUN_SEGMENT.function(lambda: launcher().segment_call("flush"))
def _flush_known(recording: TraceExecutor) -> bool:
    """Whether native code has run what is on the tape."""
    return False


@entry_points.RUN_BACKWARD.function(lambda: launcher().segment_call("backward"))
def _backward_known(recording: TraceExecutor, place: int, gradient: Array) -> list[tuple[Node, Array]] | None:
    """What native code leaves to do of a backward; None: all."""
    return None


def op_by_op(flush: Segment, n_steps: int, is_range: bool = False, is_loop: bool = False) -> bool:
    """Whether a flush gets a plan: not while nobody knows what follows."""
    return False


def _share_a_node(nodes: list[Any]) -> bool:
    """Whether two leaves have one."""
    tracked = [node for node in nodes if type(node) is Node]
    return len(set(tracked)) < len(tracked)


class _PlanningTime:
    """How long a call may plan: `goes_on()` is asked between pieces, of which each takes so long, by core/costs.py."""

    def __init__(self, seconds: float) -> None:
        self.seconds = 0.0
        self._most = seconds

    def goes_on(self) -> bool:
        self.seconds += costs.PLANNING_PIECE
        return self.seconds < self._most


class TraceExecutor(Tracer):
    """One run of a compiled function, as far as it is on the tape."""

    __slots__ = ()

    # ---- running

    def settle(self, t: Tensor) -> None:
        if self.is_left or not _flush_known(self):
            self.flush()

    def read(self, t: Tensor) -> Array:
        if self.is_left or not _flush_known(self):
            self.flush()
        return t._data

    def flush(self) -> None:
        """Run everything that has not run yet."""
        with self._alone():
            if self.is_left:
                active_traces.worked_on = id(self)
            n_replays, n_run = self.counters.replays, self.cursor.n_run
            self._flush()
        if self.counters.replays != n_replays and self.most_replaying is not None and not self.is_left:
            if self.replaying_left is None:
                self.replaying_left = self.most_replaying()
            self.replaying_left -= costs.REPLAYED_OP * (len(self.makers) - n_run)
            if self.replaying_left < 0.0:
                self._give_up("too little of one call had plans yet, the rest of it ran eagerly")

    def _flush(self) -> None:
        if _flush_known(self):
            return
        state = self.cursor
        first = state.n_run
        if first == state.n_places:
            return
        self.counters.python_seconds += costs.PYTHON_SEGMENT
        live = self._live(first)[: state.n_places - first]
        found = state.events.get(live)
        if found is None:
            found = self._flush_like_others(state, live, TraceNode.after_flush)
        if found is None:
            found = state.remember(live, self._first_flush(first, live, state.after_flush(), None))
        values = dict(zip(found.wanted, self._run(found, state, first), strict=True))
        self._note_filling(found, state, first)
        if self.cursor is not state:  # a finalizer that ran meanwhile has recorded or flushed
            self._flush()
            return
        self.values.update(values)
        self.cursor = found.following
        self._fill(found.held)
        self._let_go(first, live)
        self.alive += found.tracked
        if len(self.makers) > self.sweep_at:
            self._sweep()

    def _flush_like_others(
        self, state: TraceNode, key: Any, follow: Callable[[TraceNode, BackwardCost], TraceNode]
    ) -> Segment | None:
        """The flush that was done here for other sizes."""
        known = None if state.like is None else state.like.node.flushes(key)
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

    def _note_filling(self, found: Segment, state: TraceNode, first: int) -> None:
        """How native code ends it; for a size that is new, only when it has come up again."""
        if found.plan is not None and found.filling is None:
            if found.resizing is None or found.seen:
                found.filling = output_binding(found, self.makers, first, state.n_places)
            found.seen += 1

    def _first_flush(
        self,
        first: int,
        live: bytes,
        following: TraceNode,
        backward: BackwardRequest | None,
        keep: bool = False,
        cost: BackwardCost = NO_BACKWARD,
    ) -> Segment:
        """`keep`: the backward frees nothing."""
        held = [first + i for i, alive in enumerate(live) if alive]
        tracked = [p for p in held if self.makers[p].tracked]
        stay = {self.base(p) for p in held}
        freed = frozenset() if backward is None or keep else self.passed(backward.root, backward.asked)
        if freed and backward is not None and backward.asked is None:
            tracked_still = [p for p in tracked if self.makers[p].place not in freed]  # with all that leads there
        else:
            tracked_still = tracked
        for step in self.reached(tracked_still, first):
            if step.place not in freed:
                stay.update(self.base(ref) for ref in reads(step) if 0 <= ref < NUMBER)
        return Segment(tuple(sorted(p for p in stay if p >= first)), tracked, held, following, backward, freed, cost)

    def _run(self, found: Segment, state: TraceNode, first: int) -> list[Any]:
        """The values of `found.wanted`, and with a backward the gradients after them."""
        if found.plan is None:
            self._wish_for_plan(found, state, first)
        plan = found.plan  # another thread may clear it
        if plan is not None:
            leaves, values = self.arrays, self.values
            arrays = [values[ref] if ref >= 0 else leaves[-1 - ref] for ref in plan.inputs]
            out = plan.run(arrays, self.numbers)
            if type(out) is list:
                self.counters.runs += 1
                return out
            self.counters.failed += 1
        self.counters.replays += 1
        self.counters.learning_seconds += sum(
            [costs.replayed_seconds(s.op, s.kinds, s.type) for s in self.makers[first:]]
        )
        return replay(self, found, state, first)

    def _wish_for_plan(self, found: Segment, state: TraceNode, first: int) -> None:
        """Plan a flush that has no plan, if that is to be now. It does not wait for LLVM."""
        if found.resizing is not None and found.reason is None and self._resize(found, state, first):
            return
        if found.reason is None:
            self.counters.wishes += 1
        if not self.counters.patience(len(self.makers)) > 0:
            return
        if found.waiting is not None:
            self._make_plan(found, state, first, wait=False)
        elif found.reason is None:
            known = prospect(self._request(found, state, first))
            if known.is_familiar and not found.seen:
                found.seen = 1  # as good as that: with another number of windows
            if self.decide(found, known.n_steps, is_loop=known.is_familiar):
                self._make_plan(found, state, first, wait=False, known=known)

    def _resize(self, found: Segment, state: TraceNode, first: int) -> bool:
        """Make the plan of a flush that was met with other sizes from what is known of theirs."""
        assert found.resizing is not None
        request = self._request(found, state, first)
        n_steps, before, n_bound = len(request.steps), found.resizing.n_worked_out, found.resizing.n_bound
        found.plan = found.resizing.plan(state.like.size, request, lambda: self.decide(found, n_steps, True))
        if found.resizing.n_worked_out != before:
            is_range = found.resizing.n_bound != n_bound
            self.counters.spent(costs.RANGE_OP * n_steps if is_range else costs.NEW_SIZE)
            self.counters.worked_out += 1
            if found.plan is not None and is_range and found.plan.arena_bytes > _LARGE:
                give_back_memory()
        self.counters.resized += found.plan is not None
        return found.plan is not None

    def _make_plan(
        self, found: Segment, state: TraceNode, first: int, wait: bool = True, known: Prospect | None = None
    ) -> None:
        """Plan a flush. Unless it may wait for LLVM, there may be no plan before a later time that it is wished for."""
        waiting = found.waiting
        made: Plan | Unplannable | None
        if isinstance(waiting, Plan):
            made = waiting.completed(wait)
        else:
            known = waiting or known or prospect(self._request(found, state, first))
            time = _PlanningTime(self.counters.patience(len(self.makers)))
            made = plan_in_pieces(known, wait, (lambda: True) if wait else time.goes_on)
            self.counters.spent(time.seconds + (costs.PLAN if waiting is None else 0.0))
        found.waiting = known if made is None else None
        if made is None:
            PLANS.add(found)
        elif isinstance(made, Unplannable):
            found.reason = made.reason
            self.counters.no_plan(made.reason)
        elif not made.is_complete:
            if waiting is not made:
                self.counters.has_no_kernels(made)
            found.waiting = made
            PLANS.add(found)
        else:
            found.plan = made
            PLANS.add(found)
            if made.arena_bytes > _LARGE:  # the free blocks that op by op needed do not fit it
                give_back_memory()
            self.counters.planned(made, len(self.makers) - (0 if found.backward else first))

    def _request(self, found: Segment, state: TraceNode, first: int) -> Request:
        steps = state.steps()
        start = next((i for i, s in enumerate(steps) if s.place >= first), len(steps))
        leaves = [kind for s in steps for kind in s.new_leaves]
        if found.backward is not None:
            leaves.append(LeafKind(self._type_of(found.backward.root), None, False))
        return Request(steps, start, leaves, frozenset(self.values), found.wanted, found.backward)

    def _fail(self, step: TraceOp, values: dict[int, Any], first: int, error: Exception) -> None:
        """What was recorded before the step stands; it and what came after have no values."""
        if step.where is not None:
            error.add_note(f"{step.op.public_name} was recorded at {describe_where(step.where)}")
        failed = FailedOp(error)
        for place in range(step.place, len(self.results)):
            t = self.held(place)
            if t is not None and t._data is None:
                t._source, t._history = failed, None
        del self.results[step.place :], self.makers[step.place :]
        self.values = values
        live = self._live(first)
        places = [p for p, alive in enumerate(live, first) if alive]
        self._fill(places)
        self._let_go(first, live)
        self.alive += [p for p in places if self.makers[p].tracked]
        materialize_nodes(self)
        self._over(TraceNode())

    # ---- backward

    def backward(
        self, root: Tensor, gradient: Array, asked: Sequence[Tensor] | None = None, keep: bool = False
    ) -> list[tuple[Any, Array]] | None:
        """The gradients of the leaves that `root` depends on, by one plan; None: the engine has to do it.

        If tensors are asked for, those of leaves that lead to them, and of asked tensors on the tape, by place. Unless
        it is to `keep` the graph, the tape is over then: what is still held has its values and its nodes, freed ones
        where backward came by.
        """
        if not self.is_left:
            return self._backward(root, gradient, asked, keep)
        with active_traces.escaped_lock:  # as if the function were still running
            active_traces.worked_on = id(self)
            if root._history is not self.proxy:
                return None  # another thread was faster, and it is not on the tape any more
            self.results = [None if ref is None else ref() for ref in self.results]
            self._make_bases()
            self.inside = True
            try:
                return self._backward(root, gradient, asked, keep)
            finally:
                self.results, self.inside = self._references(), False

    def backward_known(self, place: int, gradient: Array) -> list[tuple[Node, Array]] | None:
        """The same in native code, from a place, where it was met before; what is left to do of it. None: all."""
        rest = _backward_known(self, place, gradient)
        if rest is not None:
            self.counters.python_seconds += costs.ACCUMULATION * len(rest)
            if self.alive:
                self._materialize_freed(range(len(self.makers)))  # nothing else that is held is left
            self._over(self.cursor)
        return rest

    def _backward(
        self, root: Tensor, gradient: Array, inputs: Sequence[Tensor] | None, keep: bool
    ) -> list[tuple[Any, Array]] | None:
        state, place = self.cursor, root._value_id
        nodes = self.nodes
        if len(set(nodes)) + (nodes.count(None) or 1) <= len(nodes) and _share_a_node(nodes):
            return None  # saved values, for a graph: a plan would add up the gradients of each by themselves
        if inputs is None and not keep and (rest := self.backward_known(place, gradient)) is not None:
            return rest
        began, n_first = self.clocks[0][1], len(self.makers[0].new_leaves)
        for k, node in enumerate(self.nodes):
            if type(node) is Node:
                if node.extra is not None and (node.extra.hooks or node.extra.retain):
                    return None
                if k >= n_first and node.number > began and node.op is not Leaf:
                    return None  # linked while this was recorded: its gradients may come before some of the tape's
        asked = None if inputs is None else self._refs_of(inputs)
        if asked is not None and (not asked or place in asked):
            return None
        first = state.n_run
        live = self._live(first)[: state.n_places - first]
        key = (place, live) if asked is None and not keep else (place, live, asked, keep)
        found = state.events.get(key)
        if found is None:
            found = self._flush_like_others(state, key, TraceNode.after_flush if keep else TraceNode.new_trace)
        if found is None:
            backward = BackwardRequest(place, -1 - state.n_leaves, asked)
            cost = BackwardCost.of([self.makers[p] for p in self.passed(place, asked)])
            following = state.after_flush(cost) if keep else state.new_trace(cost)
            found = state.remember(key, self._first_flush(first, live, following, backward, keep, cost))
        if found.plan is None:
            self._wish_for_plan(found, state, first)
        plan = found.plan  # another thread may clear it
        if plan is None:
            self.counters.ran_without_plan(found.backward_cost)
            self.unplanned = True
            return None
        held = [p for p in self.alive if self.held(p) is not None]
        leaves, values = [*self.arrays[: state.n_leaves], gradient], self.values
        arrays = [values[ref] if ref >= 0 else leaves[-1 - ref] for ref in plan.inputs]
        out = plan.run(arrays, self.numbers)
        if type(out) is not list:
            self.counters.failed += 1
            return None
        self.counters.runs += 1
        self._note_filling(found, state, first)
        if self.cursor is not state:  # a finalizer that ran meanwhile has recorded or flushed
            return None
        self.values.update(zip(found.wanted, out, strict=False))
        self.alive = held
        self._fill(found.held)
        self.counters.python_seconds += costs.PYTHON_BACKWARD
        pairs = zip(plan.gradients, out[len(found.wanted) :], strict=True)
        gradients = [(self.nodes[k] if k >= 0 else -1 - k, g) for k, g in pairs]
        self._let_go(first, live)
        self.alive += found.tracked
        if keep:
            self.cursor = found.following
        else:
            self._materialize_freed(found.freed)
            self._over(found.following)
        return gradients

    def _materialize_freed(self, freed: Container[int]) -> None:
        self.counters.python_seconds += costs.MATERIALISED_NODE * materialize_freed_nodes(self, freed)

    # ---- the end of a tape

    def link(self, t: Tensor) -> None:
        self.close("the graph itself was asked for: by a hook, by grad_fn, or by a backward that had no plan yet")

    def close(self, why: str) -> None:
        """Run everything, give every tensor that is held its node, and begin a new tape."""
        with self._alone():
            if self.is_left:
                active_traces.worked_on = id(self)
            self._close(why)

    def _close(self, why: str) -> None:
        self._flush()
        state = self.cursor
        if state.n_places == 0 and state.parent is None:
            return
        self.counters.close(why)
        self.counters.materialised(materialize_nodes(self), self.unplanned)
        following = state.events.get("closed")
        if following is None:
            following = state.remember("closed", self._follow(state, "closed", TraceNode.new_trace))
        self._over(following)

    def _over(self, following: TraceNode) -> None:
        """The tape is not needed any more; every tensor that is held has what it needs."""
        for place in self.alive:
            t = self.results[place]
            if not self.inside and t is not None:
                t = t()
            if t is not None and t._source is self:
                t._source = None
        self._begin(following)
        self._wait_for_first_step()

    def leave(self) -> TraceNode:
        """The function returned. What is tracked and not run yet may wait: a loss and a backward may follow.

        Returns where the trace was then.
        """
        if not self.makers:
            return self.behind or self.cursor
        first, makers = self.cursor.n_run, self.makers
        references = self._references()
        if not [p for p, t in enumerate(references) if t is not None and p >= first and makers[p].tracked]:
            self.flush()
            state = self.behind or self.cursor
            if not any(self.held(p) is not None for p in self.alive):
                self._over(TraceNode())
                return state
            references = self._references()
        self.results, self.inside = references, False
        self.n_left = len(self.makers)
        self.counters.left_steps += self.n_left
        self.counters.traced_seconds += costs.LEAVE
        self.left_at = self.cursor
        active_traces.note_escaped(self)
        return self.cursor

    def _references(self) -> list[Any]:
        """Weak ones to the tensors that are held: whoever forgets them all forgets the tape."""
        return [weakref.ref(t) if t is not None and getrefcount(t) > HELD else None for t in self.results]
