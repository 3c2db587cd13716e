"""One compiled function: which of its calls are traced, what was traced of them, and whether that pays.

A call runs as it is written, eagerly or with an executor that traces its ops; the policy (`policy`) decides which, from
what earlier calls did and were estimated to take.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from sys import getrefcount
from typing import Any

from ..backends.selection import give_back_memory
from ..core.active_traces import ACTIVE, end_active
from ..core.context import CONTEXT, ExecutionContext
from ..core.costs import CALL, NEW_SIZE
from ..core.tensor import Tensor
from ..core.trace_tree import TraceNode
from ..scheduling.request import can_plan
from .eviction import prune
from .executor import TraceExecutor
from .planner import op_by_op
from .policy import new_policy
from .report import CompiledFunctions
from .segment import Counters, Noted, Segment

MOST_NEW_STEPS = 20_000  # in the trace tree of one function, since what never came up again was forgotten; or, if more,
MOST_NEW_CALLS = 64  # those of so many calls
MOST_STEPS = 200_000  # of what did come up again; then the tree begins anew

_ENOUGH = 16  # calls that were traced: from here on it is known whether they repeat
_LOOKED_AT = 4  # of the members of a list that is an argument
EAGER = os.environ.get("EXTEMPO_EAGER", "") not in ("", "0")
_LOGS = ("compile", "plans")
_asked = [name for name in os.environ.get("EXTEMPO_LOG", "").replace(" ", "").split(",") if name]
_LOG = any(name in _LOGS for name in _asked)
Counters.describes_plans = "plans" in _asked
FUNCTIONS: CompiledFunctions[CompiledFunction] = CompiledFunctions()


if _unknown := [name for name in _asked if name not in _LOGS]:
    print(f"EXTEMPO_LOG={','.join(_unknown)} is unknown; known are {', '.join(_LOGS)}", file=sys.stderr)


def steps_aside(mode: ExecutionContext) -> bool:
    """Whether functions run as they are written here, for debuggers."""
    return EAGER or mode.stepped_aside or getattr(mode.interceptor, "steps_aside", False)


def log(text: str) -> None:
    """To standard error, if EXTEMPO_LOG is `compile` or `plans`, which says more."""
    if _LOG:
        print(f"extempo compile: {text}", file=sys.stderr)


def _end(executor: TraceExecutor, mode: ExecutionContext) -> None:
    """Trace no more, if that has not been said yet; `mode`: as it was before."""
    end_active(executor)
    now = CONTEXT.get()  # the function may have called set_grad_enabled()
    CONTEXT.set(mode if now.grad is mode.grad and now.inference is mode.inference else now.but(recording=None))


def kind_of_call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What calls have in common whose arguments are of the same types."""
    kinds = tuple([_kind(x) for x in args])
    return (kinds, tuple([(name, _kind(x)) for name, x in kwargs.items()])) if kwargs else kinds


def _kind(x: Any) -> Any:
    if isinstance(x, Tensor):
        return x._type
    if isinstance(x, list | tuple):
        return (type(x), len(x), *[_kind(y) for y in x[:_LOOKED_AT]])
    return type(x)


def _of_one_variable() -> int:
    made = object()
    return getrefcount(made)


_ONE_VARIABLE = _of_one_variable()  # references to what one variable refers to; interpreters differ


class CompiledFunction:
    """A compiled function: what was traced of it, and whether tracing pays."""

    def __init__(self, fn: Callable[..., Any], name: str) -> None:
        self.fn = fn
        self.name = name
        self.root = TraceNode()
        self.policy = new_policy()
        self.counters = Counters(name, log, self.policy)
        self.traced_calls = 0
        self.waiting_calls = 0  # of the others, while LLVM was at work
        self._noted = self.counters.noted()  # after the last call that was more than a repetition
        self._n_noted = 0  # ops that had been traced after the last call, and seconds beside them
        self._eager_noted = self._traced_noted = 0.0
        self._runs_before = 0  # runs of plans before the last call that was run eagerly
        self._steps_before = 0  # that had been made when the tree was looked through, or begun
        self._steps_kept = 0  # that it had then
        self.evicted = 0  # ops that were forgotten to make room
        self._spare: list[TraceExecutor] = []  # of calls that are over: making one takes as long as tracing ten ops
        FUNCTIONS.add(self)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """A call that does not rest (`entry_of`): traced, unless someone traces already or it is to run eagerly."""
        mode = CONTEXT.get()
        if mode.recording is not None or mode.interceptor is not None or EAGER or mode.stepped_aside:
            return self.fn(*args, **kwargs)
        if not self._is_traced_next(args, kwargs):
            return self._eagerly(args, kwargs)
        result, end = self._traced(mode, args, kwargs)
        self._account_for(end)
        return result

    def _is_traced_next(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether the next call is traced; counts it."""
        policy, counters = self.policy, self.counters
        if counters.waiting:  # what it has paid for is to come, or there
            if counters.waits_for_kernels():
                if counters.plans == 0 and policy.waits():
                    self.waiting_calls += 1
                    return False
            elif policy.aside:
                policy.try_again()
        if not policy.runs_by_plans:
            policy.met.call(kind_of_call(args, kwargs))
        if policy.eager_next():
            if counters.waiting:
                policy.rests = min(policy.rests, counters.waiting[0][0] - policy.calls - 1)
            return False
        return counters.plans > 0 or can_plan()

    @property
    def eager_calls(self) -> int:
        return self.policy.calls - self.traced_calls

    def _eagerly(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.policy.eager_call()
        n_runs = self.counters.runs
        if n_runs != self._runs_before:
            self._runs_before = n_runs
            give_back_memory()  # eager mode has no use for what plans took
        return self.fn(*args, **kwargs)

    def _traced(self, mode: ExecutionContext, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, TraceNode]:
        """The result, and where the trace ended."""
        self.traced_calls += 1
        executor = self._executor()
        try:
            try:
                ACTIVE.recordings.append(executor)
                CONTEXT.set(ExecutionContext(mode.grad, mode.inference, None, mode.quiet, executor))
                result = self.fn(*args, **kwargs)
            finally:
                _end(executor, mode)
                end = executor.leave()
        except BaseException:  # an interrupt may have come before that was done
            _end(executor, mode)
            raise
        if executor.is_empty and getrefcount(executor) == _ONE_VARIABLE:
            executor.planner.decide = op_by_op  # or function and executor would keep each other
            self._spare.append(executor)
        return result, end

    def _executor(self) -> TraceExecutor:
        self.counters.seconds_spent = 0.0
        if self._spare:
            executor = self._spare.pop()
            executor.begin_again(self.root, self._may_plan)
            return executor
        policy = self.policy
        return TraceExecutor(self.root, self.counters, self._may_plan, policy.new_steps_allowed, policy.seconds_at_once)

    def _account_for(self, end: TraceNode) -> None:
        """Tell the policy what a traced call did and what that takes, by where its trace ended and what was counted."""
        counters = self.counters
        (n_recorded, n_learnt), n_before = counters.stand(), self._n_noted
        eager, traced = counters.eager_seconds, counters.traced_seconds + counters.python_seconds
        eager_seconds = end.eager_seconds + eager - self._eager_noted
        traced_seconds = CALL + end.planned_seconds + traced - self._traced_noted
        self._n_noted, self._eager_noted, self._traced_noted = n_recorded, eager, traced
        n_steps = n_recorded - n_before
        if n_learnt == self._noted.n_learnt and self.policy.repeated_call(eager_seconds, traced_seconds, n_steps):
            return
        before, self._noted = self._noted, counters.noted()
        self._account_for_new(eager_seconds, traced_seconds, n_steps, self._noted.since(before))
        if self.policy.aside:
            log(f"{self.name}: {self._why()}; it runs eagerly for a while and is tried again")
        if self._n_new() > MOST_NEW_STEPS:
            self._make_room()

    def _account_for_new(self, eager: float, traced: float, n_steps: int, done: Noted) -> None:
        policy = self.policy
        learnt = done.n_learnt > done.worked_out or not policy.is_little(done.worked_out * NEW_SIZE)
        policy.traced_call(
            eager,
            traced + done.learning_seconds,
            traced - done.plannable_seconds - (done.python_seconds if learnt else 0.0),
            n_steps,
            done.new_steps,
            done.planning_seconds,
            learnt,
            not done.given_up,
        )

    def _may_plan(self, segment: Segment, n_steps: int, is_range: bool = False, is_loop: bool = False) -> bool:
        """What is met for the first time is never planned; what is met again is, if it can be afforded."""
        if is_range:
            return self.policy.allows_range(n_steps)
        segment.seen += 1
        return segment.seen > 1 and self.policy.allows_plan(n_steps, is_loop)

    def _why(self) -> str:
        if not self.policy.pays:
            return "by plans its calls would take as long as eagerly, or longer"
        counters, n_calls = self.counters, self.policy.calls
        n_recorded = self.traced_calls
        part = f"{n_recorded:,} of its {n_calls:,} calls"
        if counters.new_steps * 2 <= counters.n_recorded:
            return f"recording and planning {part} has taken longer than it saved so far"
        if n_recorded < _ENOUGH:
            return f"only {part} were recorded, too few to know whether they repeat: these hardly repeat each other"
        return f"its calls hardly repeat: most of what {part} recorded was new"

    def _n_new(self) -> int:
        """Ops that were made since the tree was looked through."""
        return self.counters.new_steps + self.counters.grown_steps - self._steps_before

    def _make_room(self) -> None:
        """Forget what never came up again, if there is too much of it; all, if what did is too much."""
        n_new = self._n_new()
        if n_new <= MOST_NEW_CALLS * self.policy.mean_steps and n_new + self._steps_kept <= MOST_STEPS:
            return
        n_before, n_kept = self._steps_kept + n_new, prune(self.root)
        what = "recorded ops of structures that never came up again"
        if n_kept > MOST_STEPS:
            n_kept, what = 0, "recorded ops, all that it knew: too many structures came up again"
            self.root = TraceNode()
        self._begin_count(n_kept)
        n_evicted = max(n_before - n_kept, 0)
        self.evicted += n_evicted
        log(f"{self.name}: evicted {n_evicted:,} {what}")

    def _begin_count(self, n_steps: int) -> None:
        self._steps_before, self._steps_kept = self._steps_before + self._n_new(), n_steps

    def forget(self) -> None:
        """Begin with an empty trace tree."""
        self.root = TraceNode()
        self._begin_count(0)

    def stats(self) -> dict[str, Any]:
        aside = self.policy.aside
        return {
            "name": self.name,
            "calls": self.policy.calls,
            "static": False,
            "eager_calls": self.eager_calls,
            "waiting_calls": self.waiting_calls,
            "aside": aside,
            "why": self._why() if aside else None,
            "rests": self.policy.rests,
            "waits_for_kernels": bool(self.counters.waiting),
            "steps_known": self._steps_kept + self._n_new(),
            "steps_evicted": self.evicted,
            **self.counters.stats(),
        }


def entry_of(function: CompiledFunction) -> Callable[..., Any]:
    """What is called in place of the function itself.

    A function that plans cannot make faster pays for this at every call, so a call that rests is counted and made here:
    a method between would take half as long again.
    """
    policy, fn, run = function.policy, function.fn, function.run

    def compiled(*args: Any, **kwargs: Any) -> Any:
        if policy.rests:
            policy.rests -= 1
            policy.calls += 1
            return fn(*args, **kwargs)
        return run(*args, **kwargs)

    return compiled
