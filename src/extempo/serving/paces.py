"""What a sample takes alone and among others, in processor time, and hence how samples that wait run next.

Whether a batch pays depends on the model, on how many wait and on the machine: a small model takes less time alone than
a place in a batch does. Both ways give the same results, so times may decide here.
"""

from __future__ import annotations

TRIES = 4  # of a way before it is judged: the first ones compile
LOOK_AGAIN = 256  # samples run the quicker way for each that runs the other one, to see whether that still holds
_NEWEST = 1 / 8  # the weight of the last run in an estimate


class _Estimate:
    """Seconds a sample of one way to run."""

    __slots__ = ("n_runs", "seconds")

    def __init__(self) -> None:
        self.n_runs = 0
        self.seconds = float("inf")

    @property
    def is_known(self) -> bool:
        return self.n_runs >= TRIES

    def note(self, seconds: float) -> None:
        if self.is_known:  # one run that had to compile, or lost its core, does not count for more than twice as much
            self.seconds += _NEWEST * (min(seconds, 2 * self.seconds) - self.seconds)
        else:
            self.seconds = min(self.seconds, seconds)
        self.n_runs += 1


class Paces:
    """Estimates for one model: of batches by their size in powers of two, of which the first is a sample alone."""

    def __init__(self) -> None:
        self._of: dict[int, _Estimate] = {1: _Estimate()}
        self._n_since = 0  # samples since the slower way was looked at

    def note(self, n_samples: int, seconds: float) -> None:
        """So many samples that ran together took so long."""
        self._estimate(n_samples).note(seconds / n_samples)
        self._n_since += n_samples

    def is_next_alone(self, n_waiting: int) -> bool:
        """Of so many samples that wait: whether the first runs by itself, or all together."""
        alone, together = self._of[1], self._estimate(n_waiting)
        if alone is together or not together.is_known:
            return alone is together
        if not alone.is_known:
            return True
        is_alone = alone.seconds <= together.seconds
        if self._n_since >= LOOK_AGAIN * (n_waiting if is_alone else 1):
            self._n_since = 0
            return not is_alone
        return is_alone

    @property
    def may_gain(self) -> bool:
        """Whether some batch is quicker than its samples alone, for all that is known."""
        known = [estimate for estimate in self._of.values() if estimate.is_known]
        return self._of[1] not in known or len(known) < 2 or min(e.seconds for e in known) < self._of[1].seconds

    def _estimate(self, n_samples: int) -> _Estimate:
        return self._of.setdefault(n_samples.bit_length(), _Estimate())
