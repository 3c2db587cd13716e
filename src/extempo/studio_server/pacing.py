"""How often to look: as often as a share of the time allows, by what looking took and what steps take without.

A look into the graph and one by the profiler have an account each. A step pays a small part of its time into both, a
look takes out what it took beyond an ordinary step. There is a look when the account is not overdrawn; so the first one
is at once, and the rate follows from the costs. Only how often it looks depends on a clock, never what is computed.
"""

from __future__ import annotations

from statistics import median

SHARES = {"capture": 0.045, "profile": 0.02}  # of the time; the rest of a tenth is for notes and the server
SHARE_OF_NOTES = 0.015
LEAST_BETWEEN_NOTES = 0.002  # seconds: of steps that follow each other faster not all are noted
MOST_CREDIT = 0.05  # seconds that may be saved up, so that looks do not come in bursts
LARGEST_COST = 20.0  # seconds that one look is booked with, at most: compiling for the first time happens once
_REMEMBERED = 15  # steps


class LookPacing:
    """When to look, and into what."""

    def __init__(self, every: int | None = None) -> None:
        self.every = every  # None: by cost
        self._saved = dict.fromkeys(SHARES, 0.0)
        self._recent: list[float] = []
        self._n_since = dict.fromkeys(SHARES, 10**9)
        self.spent = 0.0
        self.total = 0.0
        self.between_notes = LEAST_BETWEEN_NOTES  # seconds
        self.between = 1  # steps between the last two captures

    @property
    def ordinary(self) -> float:
        """Seconds of a step that is not looked into; 0 as long as there was none."""
        return median(self._recent) if self._recent else 0.0

    def stepped(self, seconds: float) -> None:
        """A step went by that nobody looked into."""
        self._recent = [*self._recent[1 - _REMEMBERED :], seconds]
        self._pay(seconds)

    def looked(self, kind: str, seconds: float, beside: float) -> None:
        """A step was looked into: what it took, and what was done with it beside."""
        extra = min(max(seconds - self.ordinary, 0.0) + beside, LARGEST_COST)
        self._saved[kind] -= extra
        self.spent += extra
        self._pay(seconds)

    def beside(self, seconds: float) -> None:
        """A step was noted for pages; the more that takes, the more time passes until the next one is."""
        self.spent += seconds
        self.between_notes = max(LEAST_BETWEEN_NOTES, seconds / SHARE_OF_NOTES)

    def _pay(self, seconds: float) -> None:
        self.total += seconds
        for kind, share in SHARES.items():
            self._saved[kind] = min(self._saved[kind] + share * seconds, MOST_CREDIT)
            self._n_since[kind] += 1

    def next_look(self) -> str | None:
        """What the next step is looked into for."""
        if self.every is not None:
            is_due = self._n_since["capture"] >= self.every
            return self._begin("capture") if is_due else None
        for kind in SHARES:
            if self._saved[kind] >= 0.0 and self._n_since[kind] > 1:
                return self._begin(kind)
        return None

    def _begin(self, kind: str) -> str:
        if kind == "capture":
            self.between = min(self._n_since[kind], 10**6) if self._n_since[kind] < 10**8 else 1
        self._n_since[kind] = 0
        return kind

    @property
    def share(self) -> float:
        """Of the time, what looking has taken."""
        return self.spent / self.total if self.total > 0 else 0.0
