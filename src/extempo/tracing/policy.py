"""Whether recording a function pays: what it costs against plain eager calls of the same function, as measured.

Recording must not cost more than it saves. Some calls are run eagerly to know what that takes. A recorded call that ran
by plans alone is charged with its time and credited with that of an eager one; a function that is slower by plans runs
eagerly, but for an attempt now and then. A call that met something new, and planning, are investments: at the beginning
a few calls' worth of them is free, later they are paid for by what plans have saved and by an allowance, a tenth of the
time of all calls; once a function has been called often and hardly ever does what it never did before, it may invest as
long as it has run, up to a limit; sooner where its loops have plans, which other lengths share. A size that is new but
follows from others, as its plan does, is nothing new; a range of sizes that has to be planned first is an investment.
Where nothing can be invested, a function runs eagerly, unless plans that it has run nearly all of its calls; once the
kernels are there of a plan that it had already invested in, it is tried again at once. One that met nothing but new
things when it was tried again waits longer before the next attempt.

A function of a dozen lengths does something new in most of its first calls, though it will repeat itself. So a call is
also known by the types of its arguments, which cost nothing to compare: attempts are made with such as were recorded
before, and where these did the same again, and most calls have arguments that were met before, the function repeats
itself.

A plan that runs a few ops has hardly anything to save: a function that reads a value every few ops, many times in a
call, is not invested in ahead. And no single call takes much longer than others: one that meets too much that is new,
or that has no plan yet, goes on eagerly.
"""

from __future__ import annotations

from math import inf
from time import perf_counter
from typing import Any

clock = perf_counter  # what calls and planning are timed by

CAPITAL = 5e-3  # seconds that may be lost before an eager call has been timed
ALLOWANCE = 0.1  # of the time of all calls
RESIZING_ALLOWANCE = 0.05  # the same where sizes are new at most calls: less is to be gained there
OFTEN, LOAN = 64, 400  # after so many calls a function that repeats itself may invest this many calls' worth in advance
SOON = 16  # the same for one whose loops have a plan: other lengths need none of their own
FREE_CALLS, FIRST_CALLS = 8, 12  # this many calls' worth of investments is free; from when on only to those that repeat
FREE_TO_ALL = 2  # what is free to functions that do not
MOST_DEBT = 4  # calls' worth that what the first calls cost is remembered for
AT_ONCE = 3  # calls' worth of investments that a single call may make, beside two that are always allowed
PER_RUN, PER_STEP = 8e-6, 0.3e-6  # seconds that a run of a plan, and recording an op, take beside the arithmetic
PROMISING = 0.8  # of an eager call: if these take less, plans may pay, and are invested in ahead of what they save
WORKED_OUT = 1e-3  # seconds that it takes at most, about, to work out what a new size leads to
LITTLE = 0.05  # of an eager call: what takes no longer does not matter
FAMILIAR = 0.4  # a function of which this part of the last calls did hardly anything new repeats itself
PLANNING_CALLS = 2  # this many calls' worth of planning a call may do
WAITING_CALLS = 3  # this many calls' worth of LLVM's work a call may wait for, see plans/background.py
MOST_PER_STEP_OF_RANGE = 5e-3
MOST_PER_STEP = 60e-6  # seconds of planning a step; beyond that it was LLVM, or another process
SMALLEST_PLAN = 0.2e-3  # seconds that planning takes besides what it takes for each step
MOST_PATIENCE = 32  # calls' worth of the allowance that an attempt in vain costs at most
MOST_RESTS = 16  # calls in a row that are not even timed
LONG_CALL = 5e-3  # from here on recording is lost in the work itself: two eager calls are enough to know
MOST_KINDS = 512  # kinds of arguments that are remembered
MOSTLY = 0.8  # of the calls, lately, had arguments like earlier ones
OPPORTUNITIES = 16  # to try a call with arguments that were recorded before; then it may be another
MOST_OF_LATE = 0.7  # of the last calls ran by plans alone: it runs by plans
_WARM_UP = 3  # this call is run eagerly and not timed: the first takes what it takes to make eager mode's kernels
_EAGER_SAMPLES = frozenset({4, 7, 12, 20, 32})  # calls that are run eagerly to know what that takes; later one in 64,
MANY = 256  # and from this call on, when that is well known, one in so many


class PlanningCost:
    """What planning a step takes on this machine, learnt from every plan that is made."""

    seconds_per_step = 15e-6
    range_seconds_per_step = 2e-3  # three plans, of gradients that are all new, and what follows from them

    @classmethod
    def learn(cls, n_steps: int, seconds: float) -> float:
        """A plan was made; what it cost. Beyond some limit that was LLVM, once and for all programs."""
        measured = min(max(seconds - SMALLEST_PLAN, 0.0) / max(n_steps, 1), MOST_PER_STEP)
        cls.seconds_per_step += 0.1 * (measured - cls.seconds_per_step)
        return min(seconds, SMALLEST_PLAN + measured * n_steps)

    @staticmethod
    def cost_of_part(n_steps: int, seconds: float) -> float:
        """What counts of the time that a part of planning so many steps took."""
        return min(seconds, SMALLEST_PLAN + MOST_PER_STEP * n_steps)

    @classmethod
    def learn_range(cls, n_steps: int, seconds: float) -> float:
        """A range of sizes was planned, or what follows from some was learnt; what that cost."""
        counts = min(seconds, MOST_PER_STEP_OF_RANGE * n_steps)
        cls.range_seconds_per_step += 0.1 * (counts / max(n_steps, 1) - cls.range_seconds_per_step)
        return counts

    @classmethod
    def expected(cls, n_steps: int) -> float:
        return SMALLEST_PLAN + n_steps * cls.seconds_per_step


class TracingCost:
    """What recording and replaying a step takes that was not known, learnt from every call that met some."""

    seconds_per_step = 30e-6

    @classmethod
    def learn(cls, n_new: int, seconds: float) -> None:
        measured = min(max(seconds / n_new, 5e-6), 150e-6)
        cls.seconds_per_step += 0.05 * (measured - cls.seconds_per_step)


class ArgumentTypes:
    """The calls of a function by the kinds of their arguments: which came up again, and did the same then."""

    __slots__ = ("_kinds", "_now", "_part", "_passed", "_same")

    def __init__(self) -> None:
        self._kinds: dict[Any, bool] = {}  # and whether a call of each was recorded
        self._now: Any = None  # that of the last call
        self._part = 0.0  # which part of the last calls had arguments like earlier ones
        self._same = 0.0  # which part of those that were recorded again did hardly anything new
        self._passed = 0  # opportunities

    def call(self, kind: Any) -> None:
        """A call with such arguments."""
        is_new = kind not in self._kinds
        self._part += 0.05 * (1.0 - is_new - self._part)
        self._now = kind
        if is_new:
            if len(self._kinds) >= MOST_KINDS:
                self._kinds.clear()
            self._kinds[kind] = False

    def recorded(self, familiar: bool) -> None:
        """The last call was recorded to its end, and did hardly anything new or not."""
        if self.was_recorded:
            self._same += 0.3 * (familiar - self._same)
        self._kinds[self._now] = True

    @property
    def was_recorded(self) -> bool:
        """Whether a call with arguments like those of the last one was."""
        return self._kinds.get(self._now, False)

    @property
    def waits_for_another(self) -> bool:
        """Whether a call with arguments that were recorded before is the better one to try; for a while."""
        if self.was_recorded or self._part < 0.5 or True not in self._kinds.values():
            self._passed = 0
            return False
        self._passed += 1
        return self._passed % OPPORTUNITIES != 0

    @property
    def repeats(self) -> bool:
        """Whether most calls are like earlier ones, and do the same as they did."""
        return self._part > MOSTLY and self._same > FAMILIAR


class CountingPolicy:
    """Of one function."""

    __slots__ = (
        "_by_plan",
        "_familiar",
        "_invested",
        "_knows_loops",
        "_n_by_plan",
        "_patience",
        "_resizes",
        "_seconds_by_plan",
        "_total_seconds",
        "_tries_again",
        "_wanted",
        "again",
        "aside",
        "calls",
        "eager_mean",
        "mean_runs",
        "mean_steps",
        "met",
        "n_eager",
        "rests",
        "runs_by_plans",
    )

    def __init__(self) -> None:
        self.calls = 0
        self.eager_mean = 0.0
        self.n_eager = 0
        self.aside = False  # calls run eagerly until it can be afforded to try again
        self.again = False  # the next call is to run eagerly, too
        self.rests = 0  # calls that are to come before that is looked at again
        self._tries_again = False
        self._patience = 1  # calls' worth of the allowance that it costs to have tried again in vain
        self._n_by_plan = 0  # calls that ran by plans alone
        self._seconds_by_plan = 0.0
        self._invested = 0.0  # seconds: planning, and calls that met something new
        self._total_seconds = 0.0
        self.mean_steps = 0.0  # that a call records
        self.mean_runs = 0.0  # in how many parts these run
        self.met = ArgumentTypes()
        self._familiar = 0.0  # which part of recorded calls, lately, did hardly anything that was new
        self._by_plan = 0.0  # which part of the last few ran by plans alone
        self.runs_by_plans = False  # whether nearly all of them did
        self._wanted = 0.0  # seconds of planning that could not be afforded
        self._resizes = False  # whether it met new sizes of what it knows: most sizes may come up only once
        self._knows_loops = False  # whether a loop that it went through at several lengths has a plan, or gets one

    @property
    def saved(self) -> float:
        """Seconds that calls by plans took less than eager ones would have, by what these are known to take now."""
        return self._n_by_plan * self.eager_mean - self._seconds_by_plan

    @property
    def lost(self) -> float:
        """Seconds that calls by plans took too long, beyond what trying again from time to time may cost."""
        return -self.saved - FREE_TO_ALL * self.eager_mean - ALLOWANCE / 2 * self._total_seconds

    @property
    def to_invest(self) -> float:
        """Seconds that may be invested now."""
        if not self.n_eager:
            return CAPITAL - self._invested
        allowance = (RESIZING_ALLOWANCE if self._resizes else ALLOWANCE) * self._total_seconds
        if self._is_promising and self._repeats and not self._resizes:
            allowance += min(self._total_seconds, LOAN * self.eager_mean)
        is_free = self._is_promising and (self.calls <= FIRST_CALLS or self._familiar > 0.1)
        free = FREE_CALLS if is_free else FREE_TO_ALL
        return free * self.eager_mean + allowance + max(self.saved, 0.0) - self._invested

    @property
    def _is_promising(self) -> bool:
        """Whether plans of so many ops in so many parts may take less time than it does eagerly."""
        return self.mean_runs * PER_RUN + self.mean_steps * PER_STEP < PROMISING * self.eager_mean

    @property
    def _repeats(self) -> bool:
        """Whether it has been called often and hardly ever does what it never did before."""
        is_often = self.calls > (SOON if self._knows_loops else OFTEN)
        return is_often and (self._familiar > FAMILIAR or self.met.repeats)

    def eager_next(self) -> bool:
        """Whether the next call is to run eagerly; counts it."""
        self.calls += 1
        if self.aside:
            wanted = self._wanted
            if not self.met.was_recorded:  # to its end, if it can be
                wanted = max(wanted, self.mean_steps * TracingCost.seconds_per_step)
            missing = max(wanted - self.to_invest, self.lost)
            if missing > 0:
                n_calls = min(int(missing / (ALLOWANCE * self.eager_mean)), MOST_RESTS) if self.eager_mean else 0
                if self._repeats:
                    n_calls = min(n_calls, 1)
                self.rests = n_calls
                self._total_seconds += n_calls * self.eager_mean
                return True
        if (self.aside or self._tries_again) and not self._repeats and self.met.waits_for_another:
            return True
        if self.aside:
            self.try_again()
        if self.again:
            self.again = False
            return True
        if self.n_eager > 1 and not self.runs_by_plans:  # an eager call costs no more than one that is replayed
            if self._by_plan and (self.eager_mean > LONG_CALL or self.n_eager > 3):  # but some do run by plans
                return self.calls % 32 == 0
            return self.calls % 8 == 0 or self.calls in _EAGER_SAMPLES
        if self.n_eager > 1 and self.eager_mean > LONG_CALL:
            return False
        every = 64 if self.calls <= MANY else MANY
        return self.calls == _WARM_UP or self.calls in _EAGER_SAMPLES or self.calls % every == 0

    def try_again(self) -> None:
        self.aside, self.rests, self._tries_again = False, 0, True

    def _can_go_on(self) -> bool:
        return self.lost <= 0 and (self.runs_by_plans or self.to_invest >= self._wanted)

    def eager_call(self, seconds: float) -> None:
        """A call that ran eagerly."""
        if self.calls == _WARM_UP:
            return
        self.n_eager += 1
        if self.n_eager == 1:
            self.eager_mean = seconds
            self._invested = min(self._invested, (FREE_CALLS + MOST_DEBT) * seconds)
        else:  # an outlier is the machine's, not the function's
            usual = min(seconds, 4 * self.eager_mean)
            self.eager_mean += (usual - self.eager_mean) * max(1 / self.n_eager, 0.05 if self.n_eager > 16 else 0.4)
        self._total_seconds += seconds

    def recorded_call(
        self,
        seconds: float,
        n_steps: int,
        n_new: int,
        planning: float,
        learnt: bool,
        to_its_end: bool = True,
        n_runs: int = 1,
    ) -> None:
        """A call that was recorded. `learnt`: it did not run by plans alone.

        `seconds` are without planning; `planning`: those that count of it; `n_runs`: in how many parts it ran.
        """
        if n_steps and (to_its_end or not self.mean_steps):
            weight = 0.1 if self.mean_steps else 1.0
            self.mean_steps += (n_steps - self.mean_steps) * weight
            self.mean_runs += (n_runs - self.mean_runs) * weight
        familiar = 0 < n_steps >= n_new * 10
        self._familiar += 0.2 * (familiar - self._familiar)
        if to_its_end:
            self.met.recorded(familiar)
        self._by_plan += 0.5 * ((not learnt) - self._by_plan)
        self.runs_by_plans = self._by_plan > MOST_OF_LATE
        if not self.n_eager:
            self._invested += planning + n_new * TracingCost.seconds_per_step
            return
        if n_new:
            TracingCost.learn(n_new, seconds - self.eager_mean)
        # What is far beyond that is the machine's (or the garbage collector's), not the recording's.
        seconds = min(seconds, 4 * self.eager_mean + 2 * n_new * TracingCost.seconds_per_step)
        self._total_seconds += min(seconds, self.eager_mean)
        if learnt:
            self._invested += planning + max(seconds - self.eager_mean, 0.0)
        else:
            self._invested += planning
            self._n_by_plan += 1
            self._seconds_by_plan += seconds
        self.aside = not self._can_go_on()
        if not self.aside and not learnt:
            self._patience = 1
        elif (
            self.aside
            and self._tries_again
            and ((self._familiar < FAMILIAR and not familiar) or not self._is_promising)
        ):
            self._invested += self._patience * self.eager_mean
            self._patience = min(2 * self._patience, MOST_PATIENCE)
        self._tries_again = self._tries_again and not self.aside and learnt

    def repeated_call(self, seconds: float, n_steps: int) -> bool:
        """The same, in short, for a call that did nothing new in a row of such calls; False: it is not that."""
        mean = self.eager_mean
        if seconds > mean or self._by_plan < 0.999 or self._familiar < 0.999 or self._tries_again:
            return False
        self.mean_steps += (n_steps - self.mean_steps) * 0.1
        self._total_seconds += seconds
        self._n_by_plan += 1
        self._seconds_by_plan += seconds
        return True

    def is_little(self, seconds: float) -> bool:
        return seconds <= LITTLE * self.eager_mean

    def allows_plan(self, n_steps: int, is_loop: bool = False) -> bool:
        """Whether planning so many steps can be afforded; if not, it is saved up for. None: only operands are moved.

        `is_loop`: they are those of a loop that was met before, at another length.
        """
        self._knows_loops |= not n_steps
        cost = PlanningCost.expected(n_steps)
        affordable = cost <= self.to_invest
        self._knows_loops |= is_loop and affordable
        self._wanted = 0.0 if affordable else cost
        return affordable

    def allows_range(self, n_steps: int) -> bool:
        """The same for a range of sizes: in advance nothing is lent for it."""
        self._resizes = True
        cost = PlanningCost.range_seconds_per_step * n_steps
        affordable = cost <= self.to_invest
        self._wanted = 0.0 if affordable else cost
        return affordable

    def planning_per_step(self) -> float:
        """Seconds that a call may plan for each step that it records; what it does not do then is for later calls."""
        seconds = PLANNING_CALLS * self.eager_mean if self.n_eager else CAPITAL
        return seconds / self.mean_steps if self.mean_steps else inf

    def seconds_at_once(self) -> float:
        """That a call may take for what is new, or has no plan yet, before it goes on eagerly."""
        if not self.n_eager:
            return inf
        return min(self.to_invest, AT_ONCE * self.eager_mean) + 2 * self.eager_mean

    def new_steps_allowed(self) -> int:
        """How many unknown steps the next call may record before it gives up."""
        return int(min(self.seconds_at_once() / TracingCost.seconds_per_step, 1_000_000))
