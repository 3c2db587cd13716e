"""Whether recording a function pays: what it costs against plain eager calls of the same function, as measured.

Recording must not cost more than it saves. An account holds how far a function is ahead: every recorded call is charged
with its time and credited with what an eager call takes on average (some calls are run eagerly to know that), and every
call earns a small allowance. Planning is an investment that needs credit; a function in debt runs eagerly until its
allowance has paid for the next attempt. So whatever a program does, compiling it costs at most a tenth in the long run.
"""

from __future__ import annotations

CAPITAL = 5e-3  # seconds that may be spent before anything was saved
LONG_CALL = 5e-3  # from here on recording is lost in the work itself, and no eager calls are needed to know that
ALLOWANCE = 0.1  # of the time of every call
NEW_STEP = 10e-6  # seconds to record a step that was not known
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
        "_capital",
        "_earned",
        "_n_recorded",
        "_recorded_seconds",
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
        self.aside = False  # calls run eagerly until there is as much credit as is wanted
        self._wanted = 0.0  # for a plan that could not be afforded
        self._capital = CAPITAL
        self._earned = 0.0
        self._n_recorded = 0
        self._recorded_seconds = 0.0

    @property
    def credit(self) -> float:
        """Seconds that the function is ahead, by what eager calls are known to take now."""
        return self._capital + self._earned + self._n_recorded * self.eager_mean - self._recorded_seconds

    def eager_next(self) -> bool:
        """Whether the next call is to run eagerly; counts it."""
        self.calls += 1
        if self.aside and self.credit < self._wanted:
            return True
        self.aside = False
        if self.eager_mean > LONG_CALL:
            return False
        return self.calls in _EAGER_SAMPLES or self.calls % 64 == 0

    def eager_call(self, seconds: float) -> None:
        """A call that ran eagerly."""
        self.n_eager += 1
        if self.n_eager == 1:
            self.eager_mean = seconds
            self._capital = min(self._capital, 6 * seconds)
        else:  # an outlier is the machine's, not the function's
            usual = min(seconds, 4 * self.eager_mean)
            self.eager_mean += (usual - self.eager_mean) * max(1 / self.n_eager, 0.05)
        self._earn(seconds)

    def recorded_call(self, seconds: float, n_new: int, planning: float) -> None:
        """A call that was recorded, with `n_new` steps that were not known and some seconds of planning."""
        invested = 2 * n_new * NEW_STEP + planning
        if not self.n_eager:
            self._capital -= invested
            if self.calls > 1 and seconds - invested > LONG_CALL:
                self.eager_call(seconds - invested)  # op by op, as good as eager
            return
        self._n_recorded += 1
        # What is far beyond that is the machine's (or the garbage collector's), not the recording's.
        self._recorded_seconds += min(seconds, 4 * self.eager_mean + invested)
        self._earn(min(seconds, self.eager_mean))
        self.aside = self.credit < self._wanted

    def _earn(self, seconds: float) -> None:
        self._earned += ALLOWANCE * seconds
        too_much = self.credit - max(4 * CAPITAL, 20 * self.eager_mean, 2 * self._wanted)
        if too_much > 0:  # riches of long ago do not pay for what a function does now
            self._earned -= too_much

    def allows_plan(self, n_steps: int) -> bool:
        """Whether planning so many steps can be afforded; if not, credit is saved up for it.

        What costs less than a call can always be afforded.
        """
        cost = n_steps * Planning.seconds_per_step
        affordable = cost <= max(self.credit, self.eager_mean)
        self._wanted = 0.0 if affordable else cost
        return affordable

    def new_steps_allowed(self) -> int:
        """How many unknown steps the next call may record before it gives up."""
        return int((self.credit + 2 * self.eager_mean) / NEW_STEP) if self.n_eager else 1_000_000
