"""Segment: a stretch of a trace that runs at once, with its plan; every plan there is, oldest first; and counters of
what one compiled function did.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from textwrap import indent
from typing import TYPE_CHECKING, Any, NamedTuple

from ..backends.llvm.calls.output_binding import OutputBinding
from ..core import costs
from ..core.trace_tree import NO_BACKWARD, NUMBER, BackwardCost, TraceNode
from ..core.weak import WeakMembers
from ..core.wording import counted
from ..scheduling.request import BackwardRequest, Plan, Prospect, Resizing, forget, reads
from .policy import CountingPolicy

if TYPE_CHECKING:
    from .trace import Trace


class Segment:
    """What is done at one node of the trace tree with what is live then: how it runs, and where the trace goes on."""

    __slots__ = (
        *("__weakref__", "backward", "backward_cost", "binding", "following", "freed", "frees_all"),
        *("last_uses", "live", "plan", "reason", "resizing", "seen", "tracked", "waiting", "wanted"),
    )

    def __init__(
        self,
        wanted: tuple[int, ...],
        tracked: list[int],
        live: list[int],
        following: TraceNode,
        backward: BackwardRequest | None,
        freed: frozenset[int],
        backward_cost: BackwardCost = NO_BACKWARD,
    ) -> None:
        self.wanted = wanted  # values that stay, in order
        self.live = live  # values whose tensors someone refers to
        self.tracked = tracked  # those of them that are tracked
        self.following = following
        self.backward = backward
        self.backward_cost = backward_cost
        self.freed = freed  # with a backward: the ops that it passes, by their first values
        self.frees_all = all(place in freed for place in tracked)
        self.plan: Plan | None = None
        self.binding: OutputBinding | tuple[()] | None = None  # how native code ends it, once it has run as a plan
        self.waiting: Plan | Prospect | None = None  # a plan whose kernels are being compiled, or one that is begun
        self.reason: str | None = None  # why there is no plan
        self.resizing: Resizing | None = None  # what makes the plans of all sizes of it, if it was met with others
        self.seen = 0  # how often a plan was wished for
        self.last_uses: list[Sequence[int]] | None = None  # for the replay: after each op, values that are done with

    def like(self, following: TraceNode) -> Segment:
        """The same for other sizes."""
        return Segment(self.wanted, self.tracked, self.live, following, self.backward, self.freed, self.backward_cost)

    @property
    def has_repeated(self) -> bool:
        """Whether it was met again, or its like was."""
        return self.seen > 1 or any(x is not None for x in (self.plan, self.waiting, self.reason, self.resizing))

    def forget(self) -> None:
        """As if it had not been planned yet."""
        self.plan = self.waiting = None
        self.seen = 0


def first_segment(
    trace: Trace,
    first: int,
    live: bytes,
    following: TraceNode,
    backward: BackwardRequest | None = None,
    keep: bool = False,
    cost: BackwardCost = NO_BACKWARD,
) -> Segment:
    """The segment of a trace from value `first` on, met for the first time; `keep`: its backward frees nothing."""
    makers = trace.makers
    values = [first + i for i, is_live in enumerate(live) if is_live]
    tracked = [p for p in values if makers[p].tracked]
    stay = {trace.base(p) for p in values}
    freed = frozenset() if backward is None or keep else trace.passed(backward.root, backward.asked)
    if freed and backward is not None and backward.asked is None:
        tracked_still = [p for p in tracked if makers[p].place not in freed]  # with all that leads there
    else:
        tracked_still = tracked
    for step in trace.reached(tracked_still, first):
        if step.place not in freed:
            stay.update(trace.base(ref) for ref in reads(step) if 0 <= ref < NUMBER)
    return Segment(tuple(sorted(p for p in stay if p >= first)), tracked, values, following, backward, freed, cost)


class PlanCache(WeakMembers[Segment]):
    """Every segment that has a plan, oldest first: when there are too many, the oldest quarter lose theirs.

    It keeps none alive: with a segment it would keep the whole trace tree that the segment is part of.
    """

    limit = 4_000
    evicted = 0

    def add(self, segment: Segment) -> None:
        if len(self) >= self.limit:
            for found in list(self)[: self.limit // 4]:
                self.discard(found)
                found.forget()
                self.evicted += 1
        super().add(segment)

    def clear(self) -> None:
        for found in self:
            self.discard(found)
            found.forget()
        forget()


PLANS = PlanCache()


class Noted(NamedTuple):
    """Counts of what is new, or the differences of two of them; see `Counters`."""

    n_learnt: int
    new_steps: int
    worked_out: int
    given_up: int
    python_seconds: float
    learning_seconds: float
    plannable_seconds: float
    planning_seconds: float

    def since(self, before: Noted) -> Noted:
        return Noted(*[now - then for now, then in zip(self, before, strict=True)])  # type: ignore[arg-type] # in order


class Counters:
    """What the executors of one function did."""

    __slots__ = ("__dict__", "runs")  # native code counts runs

    describes_plans = False  # whether the log also says what each instruction does

    def __init__(self, name: str, log: Callable[[str], None], policy: CountingPolicy) -> None:
        self.name = name
        self.log = log
        self.policy = policy
        self.steps = 0  # of traces that have ended
        self.left_steps = 0  # of traces that have not: what was returned may be used in a loss, or was forgotten unread
        self.new_steps = 0
        self.grown_steps = 0  # that were made after those of other sizes
        self.wishes = 0  # for plans that were not there
        self.worked_out = 0  # times that what a new size leads to was not known to follow from others
        self.given_up = 0  # calls of which the rest ran eagerly, because too much was new
        self.replays = 0
        self.plans = 0
        self.resized = 0  # plans beside these, that followed from those of other sizes
        self.runs = 0
        self.failed = 0
        self.fused = 0  # ops of plans that other ops' kernels compute
        self.waiting: list[tuple[int, Plan]] = []  # plans that have no kernels yet, with the calls when they are due
        # By core/costs.py, beside what the nodes of the trace tree have:
        self.eager_seconds = 0.0  # what ran eagerly, or would have
        self.traced_seconds = 0.0  # the same as it was done, and what that takes in every such call
        self.python_seconds = 0.0  # what native code left to Python; some of that only until something is planned
        self.learning_seconds = 0.0  # what is done once: tracing new ops, running op by op
        self.plannable_seconds = 0.0  # that a plan would have taken less, where there was none yet
        self.planning_seconds = 0.0
        self.seconds_spent = 0.0  # planning, by the call at hand
        self.closed: dict[str, int] = {}
        self.unplannable: dict[str, int] = {}

    @property
    def n_recorded(self) -> int:
        return self.steps + self.left_steps

    def noted(self) -> Noted:
        """What a call may have done beside repeating others, up to now."""
        return Noted(
            self.stand()[1],
            self.new_steps,
            self.worked_out,
            self.given_up,
            self.python_seconds,
            self.learning_seconds,
            self.plannable_seconds,
            self.planning_seconds,
        )

    def stand(self) -> tuple[int, int]:
        """How many ops were traced, and how often something was done that a call which is repeated does not do."""
        learnt = self.wishes + self.new_steps + self.plans + self.worked_out + self.given_up
        return self.steps + self.left_steps, learnt

    def patience(self, n_steps: int) -> float:
        """Seconds that are left for planning, after so many steps."""
        return self.policy.planning_per_step() * n_steps - self.seconds_spent

    def spent(self, seconds: float) -> None:
        """Planning took some time."""
        self.planning_seconds += seconds
        self.seconds_spent += seconds

    def ran_eagerly(self, seconds: float) -> None:
        """As it would have without tracing."""
        self.eager_seconds += seconds
        self.traced_seconds += seconds

    def ran_without_plan(self, backward: BackwardCost) -> None:
        """The engine does what will be a plan."""
        self.ran_eagerly(backward.eager)
        self.plannable_seconds += backward.eager - backward.planned

    def went_on(self, left_at: TraceNode, ended_at: TraceNode) -> None:
        """A loss and a backward came after the function returned."""
        self.eager_seconds += max(ended_at.eager_seconds - left_at.eager_seconds, 0.0)
        self.traced_seconds += max(ended_at.planned_seconds - left_at.planned_seconds, 0.0)

    def waits_for_kernels(self) -> bool:
        """Whether plans were made that are not due at the next call."""
        while self.waiting and self.waiting[0][0] <= self.policy.calls + 1:
            self.waiting.pop(0)[1].be_due()
        return bool(self.waiting)

    def has_no_kernels(self, plan: Plan) -> None:
        """A plan was made, and LLVM has yet to make kernels for it."""
        due = self.policy.due(plan.take_llvm_seconds())
        if self.waiting:  # LLVM makes one after the other
            due = max(due, self.waiting[-1][0])
        self.waiting.append((due, plan))
        self.log(f"{self.name}: LLVM makes the kernels of a plan in the background, it is used from call {due:,} on")

    def close(self, why: str) -> None:
        """A trace ended before its time."""
        self.closed[why] = self.closed.get(why, 0) + 1
        if self.closed[why] == 1:
            self.log(f"{self.name}: recording ended early: {why}")

    def materialised(self, n_nodes: int, is_learning: bool) -> None:
        """What a trace took that ended before its time; `is_learning`: only because there was no plan yet."""
        seconds = costs.CLOSE + costs.MATERIALISED_NODE * n_nodes
        if is_learning:
            self.learning_seconds += seconds
        else:
            self.traced_seconds += seconds

    def no_plan(self, why: str) -> None:
        self.unplannable[why] = self.unplannable.get(why, 0) + 1
        if self.unplannable[why] == 1:
            self.log(f"{self.name}: no plan, it runs op by op: {why}")

    def planned(self, plan: Plan, n_steps: int) -> None:
        self.plans += 1
        self.fused += plan.n_fused
        self.log(
            f"{self.name}: {n_steps:,} recorded ops became a plan of {plan.n_instructions:,} instructions, "
            f"{counted(plan.n_fused, 'op')} (gradients count) fused into others, {plan.arena_bytes:,} bytes of "
            "working memory" + (":\n" + indent(plan.describe(), "    ") if self.describes_plans else "")
        )

    def stats(self) -> dict[str, Any]:
        return {
            "steps_recorded": self.n_recorded,
            "new_steps": self.new_steps,
            "plans": self.plans,
            "resized": self.resized,
            "runs": self.runs,
            "replays": self.replays,
            "failed_runs": self.failed,
            "fused": self.fused,
            "planning_seconds": self.planning_seconds,
            "closed": dict(self.closed),
            "unplannable": dict(self.unplannable),
        }
