"""When to trace, to plan, to stay eager: decided by counts and by the constants of core/costs.py, never by a clock.

The trace tree knows of every traced call what it takes eagerly and what it takes by plans. A function is in one of four
states, and leaves them by its calls:

    tracing   every call is traced, and planned what is met again, as far as the budget goes
              -> by plans, when nearly all of its last calls ran by plans alone
              -> aside, when the budget is spent, or plans would not make it faster
    by plans  as before, but what is new now and then does not lead aside
    aside     calls run eagerly -> tracing, when the budget allows an attempt or kernels are due
    waiting   LLVM makes the kernels of a plan; calls run eagerly if tracing them without it is slower
              -> tracing, from the call on at which the plan is due

    budget = free calls + allowance + what plans have saved - what was invested

**Invested** is what planning takes, and what calls take longer that meet something new. **Saved** is what calls by
plans alone took less than eagerly, and, for a function that did the same when it was last traced, what plans would have
saved in its eager calls since then. **Free** are a few calls' worth at the beginning. The **allowance** is a tenth of
what all calls take; for a function that has been called often and hardly ever does what it never did before, as much as
it has run, up to a limit; sooner where its loops have plans, which other lengths share. The first loop that is met at a
second length is planned whatever the budget is, if that takes no more than two calls: it is repeated within every call.
A size that is new but follows from others, as its plan does, is nothing new; a range of sizes that has to be planned
first is an investment. An attempt that met nothing but new things makes the next one come later.

A function of a dozen lengths does something new in most of its first calls, though it will repeat itself. So a call is
also known by the types of its arguments, which cost nothing to compare: attempts are made with such as were traced
before, and where these did the same again, and most calls have arguments that were met before, the function repeats
itself.

No single call takes much longer than others: one that meets too much that is new, or that has no plan yet, goes on
eagerly. A plan whose kernels LLVM has yet to make is due at a call whose number is known when they are asked for: so
many calls later as LLVM takes, about. From then on a call that wants the plan waits for them.

`EXTEMPO_POLICY` chooses a policy for the process: auto (this one), always (all is traced, and planned when it is met
again; `ex.batch` batches), never (all is traced, and runs op by op; `ex.batch` loops).
"""

from __future__ import annotations

import os
import sys
from math import ceil, inf
from typing import Any

from ..core import costs

CAPITAL = 5e-3  # seconds that may be invested before it is known what a call takes
KNOWN_AFTER = 3  # traced calls
ALLOWANCE = 0.1  # of the time of all calls
RESIZING_ALLOWANCE = 0.05  # the same where sizes are new at most calls: less is to be gained there
OFTEN, LOAN = 32, 400  # after so many calls a function that repeats itself may invest this many calls' worth in advance
SOON = 16  # the same for one whose loops have a plan: other lengths need none of their own
FREE_CALLS, FIRST_CALLS = 8, 12  # this many calls' worth of investments is free; from when on only to those that repeat
FREE_TO_ALL = 2  # what is free to functions that do not
MOST_DEBT = 4  # calls' worth that what the first calls cost is remembered for
AT_ONCE = 3  # calls' worth of investments that a single call may make, beside two that are always allowed
ALWAYS = 20e-6  # and seconds
MOST_REACH = 256  # times that, where calls became much larger
PROMISING = 0.9  # of an eager call: if plans take less, they are invested in ahead of what they save
LITTLE = 0.05  # of an eager call: what takes no longer does not matter
FAMILIAR = 0.4  # a function of which this part of the last calls did hardly anything new repeats itself
PLANNING_CALLS = 2  # this many calls' worth of planning a call may do
FIRST_GUESS = 1e-3  # seconds of a call, where that has to be known in the first one
MOST_WAITING = 64  # calls that a plan's kernels are due after, at most
LOOKS = 16  # while kernels are made, every so many calls it is seen whether tracing is slower without them
MOST_PATIENCE = 32  # calls' worth of the allowance that an attempt in vain costs at most
MOST_RESTS = 16  # calls in a row that are not even looked at
REPEATING_RESTS = 4  # the same for a function that repeats itself: the arguments of its next call decide
LONG_REST, MOST_LONG_RESTS = 64, 2_048  # the same where plans would not make it faster, at first and at most
MOST_KINDS = 512  # kinds of arguments that are remembered
MOSTLY = 0.8  # of the calls, lately, had arguments like earlier ones
OPPORTUNITIES = 16  # to try a call with arguments that were traced before; then it may be another
MOST_OF_LATE = 0.7  # of the last calls ran by plans alone: it runs by plans


class ArgumentTypes:
    """The calls of a function by the kinds of their arguments: which came up again, and did the same then."""

    __slots__ = ("_kinds", "_now", "_part", "_passed", "_same")

    def __init__(self) -> None:
        self._kinds: dict[Any, bool] = {}  # and whether a call of each was traced
        self._now: Any = None  # that of the last call
        self._part = 0.0  # which part of the last calls had arguments like earlier ones
        self._same = 0.0  # which part of those that were traced again did hardly anything new
        self._passed = 0  # opportunities

    def call(self, kind: Any) -> None:
        """The next call has arguments of this kind."""
        is_new = kind not in self._kinds
        self._part += 0.05 * (1.0 - is_new - self._part)
        self._now = kind
        if is_new:
            if len(self._kinds) >= MOST_KINDS:
                self._kinds.clear()
            self._kinds[kind] = False

    def traced(self, familiar: bool) -> None:
        """The last call was traced to its end, and did hardly anything new or not."""
        if self.was_traced:
            self._same += 0.3 * (familiar - self._same)
        self._kinds[self._now] = True

    @property
    def was_traced(self) -> bool:
        """Whether a call with arguments like those of the last one was."""
        return self._kinds.get(self._now, False)

    @property
    def waits_for_another(self) -> bool:
        """Whether a call with arguments that were traced before is the better one to try; for a while."""
        if self.was_traced or self._part < 0.5 or True not in self._kinds.values():
            self._passed = 0
            return False
        self._passed += 1
        return self._passed % OPPORTUNITIES != 0

    @property
    def repeats(self) -> bool:
        """Whether most calls are like earlier ones, and do the same as they did."""
        return self._part > MOSTLY and self._same > FAMILIAR


class CountingPolicy:
    """The state and the budget of one function; seconds are those of core/costs.py."""

    __slots__ = (
        "_by_plan",
        "_familiar",
        "_invested",
        "_knows_loops",
        "_long_rest",
        "_missed",
        "_n_traced",
        "_patience",
        "_planned_mean",
        "_reach",
        "_resizes",
        "_rested",
        "_saved",
        "_total",
        "_tries_again",
        "_wanted",
        "_was_familiar",
        "aside",
        "calls",
        "eager_mean",
        "mean_steps",
        "met",
        "pays",
        "rests",
        "runs_by_plans",
        "was_slower",
    )

    def __init__(self) -> None:
        self.calls = 0
        self.eager_mean = 0.0  # seconds that a call takes eagerly
        self.aside = False  # calls run eagerly until it can be afforded to try again
        self.rests = 0  # calls that are to come before that is looked at again
        self.mean_steps = 0.0  # that a call traces
        self.met = ArgumentTypes()
        self.runs_by_plans = False  # whether nearly all of its last calls did, alone
        self.was_slower = False  # whether the last traced call took longer than an eager one
        self._n_traced = 0  # calls
        self._planned_mean = 0.0  # seconds that a call takes by plans
        self.pays = True  # whether that is less
        self._long_rest = LONG_REST  # calls until the next attempt, where it is not
        self._rested = False  # for so many
        self._reach = 1  # times as much that is new may be traced at once: calls became larger than those known
        self._tries_again = False
        self._patience = 1  # calls' worth of the allowance that it costs to have tried again in vain
        self._saved = 0.0  # seconds that calls by plans took less than eagerly
        self._invested = 0.0  # seconds: planning, and calls that met something new
        self._missed = 0.0  # seconds that plans would have saved in eager calls, if these did what is known
        self._total = 0.0  # seconds that all calls would have taken eagerly
        self._familiar = 0.0  # which part of traced calls, lately, did hardly anything that was new
        self._was_familiar = False  # whether the last one did
        self._by_plan = 0.0  # which part of the last few ran by plans alone
        self._wanted = 0.0  # seconds of planning that could not be afforded
        self._resizes = False  # whether it met new sizes of what it knows: most sizes may come up only once
        self._knows_loops = False  # whether a loop that it went through at several lengths has a plan, or gets one

    # ---- calls

    def eager_next(self) -> bool:
        """Whether the next call is to run eagerly; counts it."""
        self.calls += 1
        if self.aside and not self.pays:
            self._rested = not self._rested
            if self._rested:
                self._rest(self._long_rest)
                self._long_rest = min(2 * self._long_rest, MOST_LONG_RESTS)
                return True
        elif self.aside:
            wanted = self._wanted
            if not self.met.was_traced:  # to its end, if it can be
                wanted = max(wanted, self.mean_steps * costs.NEW_OP)
            missing = max(wanted - self.to_invest, self.lost)
            if missing > 0 and self.eager_mean:
                n_calls = min(int(missing / (ALLOWANCE * self.eager_mean + self._gain)), MOST_RESTS)
                self._rest(min(n_calls, REPEATING_RESTS) if self._repeats else n_calls)
                return True
        if (self.aside or self._tries_again) and self.pays and not self._repeats and self.met.waits_for_another:
            return True
        if self.aside:
            self.try_again()
        return False

    def waits(self) -> bool:
        """Whether the next call is to run eagerly because kernels are being made; counts it then."""
        if not self.was_slower or self.calls % LOOKS == LOOKS - 1:
            return False
        self.calls += 1
        return True

    def _rest(self, n_calls: int) -> None:
        self.rests = n_calls
        self._ran_eagerly(n_calls)

    def try_again(self) -> None:
        self.aside, self.rests, self._tries_again = False, 0, True

    def eager_call(self) -> None:
        """A call ran eagerly."""
        self._ran_eagerly(1)

    def _ran_eagerly(self, n_calls: int) -> None:
        self._total += n_calls * self.eager_mean
        self._missed += n_calls * self._gain

    def traced_call(
        self,
        eager: float,
        traced: float,
        planned: float,
        n_steps: int,
        n_new: int,
        planning: float,
        learnt: bool,
        to_its_end: bool = True,
    ) -> None:
        """A call was traced. `learnt`: it did not run by plans alone. `to_its_end`: it did not go on eagerly.

        Seconds: what it takes `eager`, what it took `traced`, what it takes `planned`; `planning` comes on top.
        Averages follow the last few calls, which count by 0.2 to 0.5 each.
        """
        self._n_traced += 1
        self._note_size(eager, planned, n_steps, to_its_end)
        familiar = 0 < n_steps >= n_new * 10
        self._familiar += 0.2 * (familiar - self._familiar)
        self._was_familiar = familiar
        self._missed = self._missed if familiar else 0.0
        if to_its_end:
            self.met.traced(familiar)
        self._by_plan += 0.5 * ((not learnt) - self._by_plan)
        self.runs_by_plans = self._by_plan > MOST_OF_LATE
        self.was_slower = traced > eager
        self._total += eager if to_its_end else self.eager_mean
        self._invested += planning
        if learnt:
            self._invested += max(traced - eager, 0.0)
        else:
            self._saved += eager - traced
        if not self._is_known:
            return
        if self._n_traced == KNOWN_AFTER:
            self._invested = min(self._invested, (FREE_CALLS + MOST_DEBT) * self.eager_mean)
        self.aside = not self._can_go_on(learnt)
        self._judge_attempt(familiar, learnt)

    def _note_size(self, eager: float, planned: float, n_steps: int, to_its_end: bool) -> None:
        if self._n_traced == 1 or to_its_end:
            weight = 0.3 if self._n_traced > KNOWN_AFTER else 1.0
            self.mean_steps += (n_steps - self.mean_steps) * weight
            self.eager_mean += (eager - self.eager_mean) * weight
            self._planned_mean += (planned - self._planned_mean) * weight
            self.pays = planned < eager or self._planned_mean < self.eager_mean
            self._reach = 1
        else:
            self.eager_mean = max(self.eager_mean, 2 * eager)  # how much came after that is not known
            self.pays = True  # for all that is known
            self._reach = min(4 * self._reach, MOST_REACH)
        if self.pays:
            self._long_rest = LONG_REST

    def _judge_attempt(self, familiar: bool, learnt: bool) -> None:
        """What an attempt costs that was in vain, so that the next one comes later."""
        in_vain = (self._familiar < FAMILIAR and not familiar) or not self._is_promising
        if not self.aside and not learnt:
            self._patience = 1
        elif self.aside and self._tries_again and in_vain:
            self._invested += self._patience * self.eager_mean
            self._patience = min(2 * self._patience, MOST_PATIENCE)
        self._tries_again = self._tries_again and not self.aside and learnt

    def repeated_call(self, eager: float, traced: float, n_steps: int) -> bool:
        """The same, in short, for a call that ran by plans in a row of such calls; False: it is not one of those."""
        if traced > eager or self._by_plan < 0.999 or self._familiar < 0.999 or self._tries_again:
            return False
        self.mean_steps += (n_steps - self.mean_steps) * 0.1
        self.eager_mean += (eager - self.eager_mean) * 0.1
        self._planned_mean += (traced - self._planned_mean) * 0.1
        self._total += eager
        self._saved += eager - traced
        return True

    # ---- what it may do

    @property
    def _gain(self) -> float:
        """Seconds that plans would save in a call, if it does what the last one did."""
        return max(self.eager_mean - self._planned_mean, 0.0) if self._was_familiar else 0.0

    @property
    def _with_body(self) -> float:
        """Seconds that a call takes eagerly, with the Python of its body."""
        return self.eager_mean + costs.BODY_OP * self.mean_steps

    @property
    def _is_known(self) -> bool:
        """Whether it is known what a call takes."""
        return self._n_traced >= KNOWN_AFTER

    @property
    def lost(self) -> float:
        """Seconds that calls by plans took too long, beyond what trying again from time to time may cost."""
        return -self._saved - FREE_TO_ALL * self.eager_mean - ALLOWANCE / 2 * self._total

    @property
    def to_invest(self) -> float:
        """Seconds that may be invested now."""
        if not self._is_known:
            return CAPITAL - self._invested
        allowance = (RESIZING_ALLOWANCE if self._resizes else ALLOWANCE) * self._total
        if self._is_promising and self._repeats and not self._resizes:
            allowance += min(self._total, LOAN * self.eager_mean)
        is_free = self._is_promising and (self.calls <= FIRST_CALLS or self._familiar > 0.1)
        free = FREE_CALLS if is_free else FREE_TO_ALL
        return free * self.eager_mean + allowance + max(self._saved, 0.0) + self._missed - self._invested

    @property
    def _is_promising(self) -> bool:
        """Whether plans take less time than it does eagerly, and not only a little."""
        return self._planned_mean < PROMISING * self.eager_mean

    @property
    def _repeats(self) -> bool:
        """Whether it has been called often and hardly ever does what it never did before."""
        is_often = self.calls > (SOON if self._knows_loops else OFTEN)
        return is_often and (self._familiar > FAMILIAR or self.met.repeats)

    def _can_go_on(self, learnt: bool) -> bool:
        """After a call that learnt something, or ran by plans alone."""
        if not self.pays or self.lost > 0:
            return False
        return not learnt or self.runs_by_plans or self.to_invest >= self._wanted

    def is_little(self, seconds: float) -> bool:
        return seconds <= LITTLE * self.eager_mean

    def allows_plan(self, n_steps: int, is_loop: bool = False) -> bool:
        """Whether planning so many steps can be afforded; if not, it is saved up for. None: only operands are moved.

        `is_loop`: they are those of a loop that was met before, at another length.
        """
        self._knows_loops |= not n_steps
        cost = costs.PLAN + costs.PLANNED_OP * n_steps
        if is_loop and not self._knows_loops and self.pays and cost <= PLANNING_CALLS * self.eager_mean:
            affordable = True  # what is repeated so often within a call makes up for it in the next one
        else:
            affordable = self._affords(cost)
        self._knows_loops |= is_loop and affordable
        return affordable

    def allows_range(self, n_steps: int) -> bool:
        """The same for a range of sizes: in advance nothing is lent for it."""
        self._resizes = True
        return self._affords(costs.RANGE_OP * n_steps)

    def _affords(self, cost: float) -> bool:
        affordable = self.pays and cost <= self.to_invest
        self._wanted = 0.0 if affordable or not self.pays else cost
        return affordable

    def planning_per_step(self) -> float:
        """Seconds that a call may plan for each step that it traces; what it does not do then is for later calls."""
        seconds = PLANNING_CALLS * self._with_body if self._is_known else CAPITAL
        return seconds / self.mean_steps if self.mean_steps else inf

    def seconds_at_once(self) -> float:
        """That a call may take for what is new, or has no plan yet, before it goes on eagerly."""
        if not self._is_known:
            return inf
        more = max(min(self.to_invest, AT_ONCE * self.eager_mean), 0.0)
        return (more + 2 * self.eager_mean) * self._reach + ALWAYS

    def new_steps_allowed(self) -> int:
        """How many unknown steps the next call may trace before it gives up."""
        return int(min(self.seconds_at_once() / costs.NEW_OP, 1_000_000))

    def prefers(self, recorded: float, as_written: float) -> bool:
        """Whether calls run by what was recorded: a static function by plans, `ex.batch` in batches; in seconds."""
        return recorded <= as_written

    def due(self, llvm_seconds: float) -> int:
        """The call from which on a plan is used whose kernels LLVM begins to make now, and takes so long for."""
        return self.calls + min(ceil(llvm_seconds / (self._with_body or FIRST_GUESS)), MOST_WAITING)


class AlwaysPlan(CountingPolicy):
    """Every call is traced, and planned what is met again, however little that pays."""

    __slots__ = ()

    def eager_next(self) -> bool:
        self.calls += 1
        return False

    def _can_go_on(self, learnt: bool) -> bool:
        return True

    def _affords(self, cost: float) -> bool:
        return True

    def planning_per_step(self) -> float:
        return inf

    def seconds_at_once(self) -> float:
        return inf

    def prefers(self, recorded: float, as_written: float) -> bool:
        return True

    def due(self, llvm_seconds: float) -> int:
        return self.calls


class NeverPlan(AlwaysPlan):
    """Every call is traced, and runs op by op."""

    __slots__ = ()

    def _affords(self, cost: float) -> bool:
        return False

    def prefers(self, recorded: float, as_written: float) -> bool:
        return False


POLICIES: dict[str, type[CountingPolicy]] = {"auto": CountingPolicy, "always": AlwaysPlan, "never": NeverPlan}


def _from_environment() -> type[CountingPolicy]:
    name = os.environ.get("EXTEMPO_POLICY", "") or "auto"
    if name not in POLICIES:
        print(f"EXTEMPO_POLICY={name} is unknown; known are {', '.join(POLICIES)}", file=sys.stderr)
    return POLICIES.get(name, CountingPolicy)


_chosen = [_from_environment()]


def new_policy() -> CountingPolicy:
    """The policy of a function that is compiled now."""
    return _chosen[0]()


def choose(policy: type[CountingPolicy]) -> type[CountingPolicy]:
    """Functions that are compiled from now on get such policies; returns what they got before."""
    before, _chosen[0] = _chosen[0], policy
    return before
