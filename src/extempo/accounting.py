"""Whether recording a function pays: what it costs against plain eager calls of the same function, as measured.

Recording must not cost more than it saves. Some calls are run eagerly to know what that takes. A recorded call that ran
by plans alone is charged with its time and credited with that of an eager one; a function that is slower by plans runs
eagerly, but for an attempt now and then. A call that met something new, and planning, are investments: at the beginning
a few calls' worth of them is free, later they are paid for by what plans have saved and by an allowance, a tenth of the
time of all calls; half of it once a function has been called often and hardly ever does what it never did before.
"""

from __future__ import annotations

CAPITAL = 5e-3  # seconds that may be lost before an eager call has been timed
ALLOWANCE, LARGER_ALLOWANCE, OFTEN = 0.1, 0.5, 64  # of the time of all calls; the larger one from so many calls on
FREE_CALLS = 8  # this many calls' worth of investments is free
NEW_STEP = 10e-6  # seconds to record a step that was not known
LONG_CALL = 5e-3  # from here on recording is lost in the work itself: one eager call is enough to know
_EAGER_SAMPLES = frozenset({4, 7, 12, 20, 32})  # calls that are run eagerly to know what that takes; later one in 64


class Planning:
    """What planning a step takes on this machine, learnt from every plan that is made."""

    seconds_per_step = 15e-6

    @classmethod
    def learn(cls, n_steps: int, seconds: float) -> float:
        """A plan was made; what it cost. Beyond some limit that was LLVM, once and for all programs."""
        measured = min(seconds / max(n_steps, 1), 60e-6)
        cls.seconds_per_step += 0.1 * (measured - cls.seconds_per_step)
        return measured * n_steps


class Account:
    """Of one function."""

    __slots__ = (
        "_familiar",
        "_invested",
        "_n_by_plan",
        "_seconds_by_plan",
        "_total_seconds",
        "_wanted",
        "aside",
        "calls",
        "eager_mean",
        "n_eager",
    )

    def __init__(self) -> None:
        self.calls = 0
        self.eager_mean = 0.0
        self.n_eager = 0
        self.aside = False  # calls run eagerly until it can be afforded to try again
        self._n_by_plan = 0  # calls that ran by plans alone
        self._seconds_by_plan = 0.0
        self._invested = 0.0  # seconds: planning, and calls that met something new
        self._total_seconds = 0.0
        self._familiar = 0.0  # which part of recorded calls, lately, did hardly anything that was new
        self._wanted = 0.0  # seconds of planning that could not be afforded

    @property
    def saved(self) -> float:
        """Seconds that calls by plans took less than eager ones would have, by what these are known to take now."""
        return self._n_by_plan * self.eager_mean - self._seconds_by_plan

    @property
    def lost(self) -> float:
        """Seconds that calls by plans took too long, beyond what trying again from time to time may cost."""
        return -self.saved - 4 * self.eager_mean - ALLOWANCE * self._total_seconds

    @property
    def to_invest(self) -> float:
        """Seconds that may be invested now."""
        if not self.n_eager:
            return CAPITAL - self._invested
        grown = self.calls > OFTEN and self._familiar > 0.4
        allowance = (LARGER_ALLOWANCE if grown else ALLOWANCE) * self._total_seconds
        return FREE_CALLS * self.eager_mean + allowance + max(self.saved, 0.0) - self._invested

    def eager_next(self) -> bool:
        """Whether the next call is to run eagerly; counts it."""
        self.calls += 1
        if self.aside and not self._can_go_on():
            return True
        self.aside = False
        if self.eager_mean > LONG_CALL:
            return False
        return self.calls in _EAGER_SAMPLES or self.calls % 64 == 0

    def _can_go_on(self) -> bool:
        return self.lost <= 0 and self.to_invest >= self._wanted

    def eager_call(self, seconds: float) -> None:
        """A call that ran eagerly."""
        self.n_eager += 1
        if self.n_eager == 1:
            self.eager_mean = seconds
        else:  # an outlier is the machine's, not the function's
            usual = min(seconds, 4 * self.eager_mean)
            self.eager_mean += (usual - self.eager_mean) * max(1 / self.n_eager, 0.05)
        self._total_seconds += seconds

    def recorded_call(self, seconds: float, n_steps: int, n_new: int, planning: float, learnt: bool) -> None:
        """A call that was recorded. `planning`: its share of the seconds. `learnt`: it did not run by plans alone."""
        self._familiar += 0.2 * ((n_new * 10 <= n_steps) - self._familiar)
        seconds -= planning
        if not self.n_eager:
            self._invested += planning + n_new * NEW_STEP
            return
        # What is far beyond that is the machine's (or the garbage collector's), not the recording's.
        seconds = min(seconds, 4 * self.eager_mean + 2 * n_new * NEW_STEP)
        self._total_seconds += min(seconds, self.eager_mean)
        if learnt:
            self._invested += planning + max(seconds - self.eager_mean, 0.0)
        else:
            self._invested += planning
            self._n_by_plan += 1
            self._seconds_by_plan += seconds
        self.aside = not self._can_go_on()

    def allows_plan(self, n_steps: int) -> bool:
        """Whether planning so many steps can be afforded; if not, it is saved up for."""
        cost = n_steps * Planning.seconds_per_step
        affordable = cost <= self.to_invest
        self._wanted = 0.0 if affordable else cost
        return affordable

    def new_steps_allowed(self) -> int:
        """How many unknown steps the next call may record before it gives up."""
        return int((self.to_invest + 2 * self.eager_mean) / NEW_STEP) if self.n_eager else 1_000_000
