"""SegmentPlanner: gets a segment its plan, if that is to be now: made anew, or from those of other sizes.

A plan is made in pieces, between which a call may have had enough, and may then have to wait for LLVM: it is there when
it is wished for again. `decide` says which segments get one; `policy` is behind it.
"""

from __future__ import annotations

from collections.abc import Callable

from ..backends.selection import give_back_memory
from ..core import costs
from ..core.trace_tree import LeafKind, TraceNode
from ..scheduling.request import Plan, Prospect, Request, Unplannable, plan_in_pieces, prospect
from .segment import PLANS, Counters, Segment
from .trace import Trace

_LARGE = 1 << 20


def op_by_op(segment: Segment, n_steps: int, is_range: bool = False, is_loop: bool = False) -> bool:
    """Whether a segment gets a plan: not while nobody knows what follows."""
    return False


class _PlanningTime:
    """How long a call may plan: `goes_on()` is asked between pieces, of which each takes so long, by core/costs.py."""

    def __init__(self, seconds: float) -> None:
        self.seconds = 0.0
        self._most = seconds

    def goes_on(self) -> bool:
        self.seconds += costs.PLANNING_PIECE
        return self.seconds < self._most


class SegmentPlanner:
    """Plans the segments of one compiled function."""

    __slots__ = ("counters", "decide")

    def __init__(self, counters: Counters, decide: Callable[..., bool]) -> None:
        self.counters = counters
        self.decide = decide  # whether a segment of so many ops that has no plan (or its sizes) gets one now

    def wish_for_plan(self, segment: Segment, trace: Trace, state: TraceNode) -> None:
        """Plan a segment that has no plan, if that is to be now. It does not wait for LLVM."""
        if segment.resizing is not None and segment.reason is None and self._resize(segment, trace, state):
            return
        if segment.reason is None:
            self.counters.wishes += 1
        if not self.counters.patience(len(trace.makers)) > 0:
            return
        if segment.waiting is not None:
            self.plan(segment, trace, state, wait=False)
        elif segment.reason is None:
            known = prospect(self._request(segment, trace, state))
            if known.is_familiar and not segment.seen:
                segment.seen = 1  # as good as that: with another number of windows
            if self.decide(segment, known.n_steps, is_loop=known.is_familiar):
                self.plan(segment, trace, state, wait=False, known=known)

    def _resize(self, segment: Segment, trace: Trace, state: TraceNode) -> bool:
        """Make the plan of a segment that was met with other sizes from what is known of theirs."""
        assert segment.resizing is not None
        request = self._request(segment, trace, state)
        n_steps, before, n_bound = len(request.steps), segment.resizing.n_worked_out, segment.resizing.n_bound
        segment.plan = segment.resizing.plan(state.like.size, request, lambda: self.decide(segment, n_steps, True))
        if segment.resizing.n_worked_out != before:
            is_range = segment.resizing.n_bound != n_bound
            self.counters.spent(costs.RANGE_OP * n_steps if is_range else costs.NEW_SIZE)
            self.counters.worked_out += 1
            if segment.plan is not None and is_range and segment.plan.arena_bytes > _LARGE:
                give_back_memory()
        self.counters.resized += segment.plan is not None
        return segment.plan is not None

    def plan(
        self, segment: Segment, trace: Trace, state: TraceNode, wait: bool = True, known: Prospect | None = None
    ) -> None:
        """Plan a segment. Unless it may wait for LLVM, a plan may be there only when it is wished for later."""
        waiting = segment.waiting
        made: Plan | Unplannable | None
        if isinstance(waiting, Plan):
            made = waiting.completed(wait)
        else:
            known = waiting or known or prospect(self._request(segment, trace, state))
            time = _PlanningTime(self.counters.patience(len(trace.makers)))
            made = plan_in_pieces(known, wait, (lambda: True) if wait else time.goes_on)
            self.counters.spent(time.seconds + (costs.PLAN if waiting is None else 0.0))
        segment.waiting = known if made is None else None
        if made is None:
            PLANS.add(segment)
        elif isinstance(made, Unplannable):
            segment.reason = made.reason
            self.counters.no_plan(made.reason)
        elif not made.is_complete:
            if waiting is not made:
                self.counters.has_no_kernels(made)
            segment.waiting = made
            PLANS.add(segment)
        else:
            segment.plan = made
            PLANS.add(segment)
            if made.arena_bytes > _LARGE:  # the free blocks that op by op needed do not fit it
                give_back_memory()
            self.counters.planned(made, len(trace.makers) - (0 if segment.backward else state.n_run))

    def _request(self, segment: Segment, trace: Trace, state: TraceNode) -> Request:
        steps = state.steps()
        start = next((i for i, s in enumerate(steps) if s.place >= state.n_run), len(steps))
        leaves = [kind for s in steps for kind in s.new_leaves]
        if segment.backward is not None:
            leaves.append(LeafKind(trace.type_of(segment.backward.root), None, False))
        return Request(steps, start, leaves, frozenset(trace.values), segment.wanted, segment.backward)
