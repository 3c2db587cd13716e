"""A backward from a traced tensor, which is one more kind of segment: what has not run yet of the forward and all
gradients in one plan. Where there is none, or a node outside the trace has its own ideas, the engine does it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..core import costs
from ..core.graph import Leaf, Node
from ..core.storage import Array
from ..core.tensor import Tensor
from ..core.trace_tree import BackwardCost, TraceNode
from ..scheduling.request import BackwardRequest, Plan
from .output_binding import bind_outputs
from .segment import Segment, first_segment
from .trace import Trace

if TYPE_CHECKING:
    from .executor import TraceExecutor


def backward_by_plan(
    executor: TraceExecutor, root: Tensor, gradient: Array, inputs: Sequence[Tensor] | None, keep: bool
) -> list[tuple[Any, Array]] | None:
    """What `TraceExecutor.backward` returns; None: the engine has to do it."""
    trace, place = executor.trace, root._value_id
    if _share_a_node(trace.nodes):
        return None
    if inputs is None and not keep and (rest := executor.backward_known(place, gradient)) is not None:
        return rest
    if must_be_eager(trace):
        return None
    asked = None if inputs is None else trace.refs_of(inputs)
    if asked is not None and (not asked or place in asked):
        return None
    return _TraceBackward(executor, place, asked, keep).run(gradient)


def _share_a_node(nodes: list[Any]) -> bool:
    """Whether two leaves have one: saved values, for a graph. A plan would add up the gradients of each by itself."""
    if len(set(nodes)) + (nodes.count(None) or 1) > len(nodes):
        return False
    tracked = [node for node in nodes if type(node) is Node]
    return len(set(tracked)) < len(tracked)


def must_be_eager(trace: Trace) -> bool:
    """Whether a plan cannot do a backward from this trace.

    Someone looks at gradients on the way, or a leaf was linked while this was traced: its gradients may come before
    some of the trace's.
    """
    began, n_first = trace.clocks[0][1], len(trace.makers[0].new_leaves)
    for k, node in enumerate(trace.nodes):
        if type(node) is Node:
            if node.extra is not None and (node.extra.hooks or node.extra.retain):
                return True
            if k >= n_first and node.number > began and node.op is not Leaf:
                return True
    return False


class _TraceBackward:
    """One backward from a value of a trace, to all leaves or to the values and leaves that are asked for."""

    def __init__(self, executor: TraceExecutor, root: int, asked: tuple[int, ...] | None, keep: bool) -> None:
        self.executor, self.trace = executor, executor.trace
        self.root, self.asked, self.keep = root, asked, keep
        self.state = self.trace.cursor
        self.first = self.state.n_run
        self.live = self.trace.live_from(self.first)[: self.state.n_places - self.first]

    def run(self, gradient: Array) -> list[tuple[Any, Array]] | None:
        segment = self._segment()
        plan = self._plan(segment)
        if plan is None:
            return None
        alive = [p for p in self.trace.alive if self.trace.live_tensor(p) is not None]
        outputs = self._outputs(plan, gradient)
        if outputs is None:
            return None
        bind_outputs(segment, self.trace.makers, self.state)
        if self.trace.cursor is not self.state:  # a finalizer that ran meanwhile has traced, run or closed it
            return None
        return self._finish(segment, plan, outputs, alive)

    def _segment(self) -> Segment:
        """It is known by its root, by what is live and by what is asked for."""
        state, keep = self.state, self.keep
        key = (self.root, self.live) if self.asked is None and not keep else (self.root, self.live, self.asked, keep)
        found: Segment | None = state.events.get(key)
        if found is None:
            found = self.executor.generated_segment(state, key, TraceNode.after_flush if keep else TraceNode.new_trace)
        return state.remember(key, self._first_segment()) if found is None else found

    def _first_segment(self) -> Segment:
        trace, state = self.trace, self.state
        request = BackwardRequest(self.root, -1 - state.n_leaves, self.asked)
        cost = BackwardCost.of([trace.makers[p] for p in trace.passed(self.root, self.asked)])
        following = state.after_flush(cost) if self.keep else state.new_trace(cost)
        return first_segment(trace, self.first, self.live, following, request, self.keep, cost)

    def _plan(self, segment: Segment) -> Plan | None:
        if segment.plan is None:
            self.executor.planner.wish_for_plan(segment, self.trace, self.state)
        plan = segment.plan  # another thread may clear it
        if plan is None:
            self.executor.counters.ran_without_plan(segment.backward_cost)
            self.trace.unplanned = True
        return plan

    def _outputs(self, plan: Plan, gradient: Array) -> list[Array] | None:
        """The values that stay, then the gradients; None if the plan has failed."""
        trace, counters = self.trace, self.executor.counters
        leaves, values = [*trace.arrays[: self.state.n_leaves], gradient], trace.values
        out = plan.run([values[ref] if ref >= 0 else leaves[-1 - ref] for ref in plan.inputs], trace.numbers)
        if type(out) is not list:
            counters.failed += 1
            return None
        counters.runs += 1
        return out

    def _finish(self, segment: Segment, plan: Plan, outputs: list[Array], alive: list[int]) -> list[tuple[Any, Array]]:
        """Give tensors their values, end the trace unless it is kept, and hand out the gradients."""
        trace, executor, n_values = self.trace, self.executor, len(segment.wanted)
        trace.values.update(zip(segment.wanted, outputs, strict=False))
        trace.alive = alive
        trace.fill(segment.live, executor)
        executor.counters.python_seconds += costs.PYTHON_BACKWARD
        pairs = zip(plan.gradients, outputs[n_values:], strict=True)
        gradients = [(trace.nodes[k] if k >= 0 else -1 - k, g) for k, g in pairs]
        trace.let_go(self.first, self.live)
        trace.alive += segment.tracked
        if self.keep:
            trace.cursor = segment.following
        else:
            executor.materialize_freed(segment.freed)
            executor.end_trace(segment.following)
        return gradients
