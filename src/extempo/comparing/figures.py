"""The figures of one column of a comparison, as measured, and what follows from them by arithmetic alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from statistics import median
from typing import Any, NamedTuple

from .leaks import Leak


@dataclass
class Figures:
    """One step in one mode. Times are in seconds; a batch that the mode does not take has no time and no loss."""

    name: str  # the column's heading
    variant: str  # which of the steps that are compared
    mode: str  # eager, compile, static or torch
    seconds: list[list[float | None]] = field(default_factory=list)  # by round and step
    losses: list[list[float | None]] = field(default_factory=list)  # by round and step; None as well if it returns none
    taken: list[bool] = field(default_factory=list)  # by step
    error: str = ""  # why the first batch that was not taken was not
    first_seconds: float = 0.0
    warm_up_seconds: float = 0.0
    warm_up_steps: int = 0
    planning_seconds: float | None = None  # that ex.compile spent in the measured rounds
    compile_stats: dict[str, Any] = field(default_factory=dict)
    peak_bytes: int = 0
    retained_bytes: int = 0
    memory_of: str = "tensors"  # or "process", where a library does not count its tensors
    leak: Leak | None = None
    parameter_shapes: list[tuple[int, ...]] = field(default_factory=list)
    dtypes: list[str] = field(default_factory=list)
    own: list[str] = field(default_factory=list)  # of "weights" and "batches", those that are not the first column's
    batch_sizes: list[int | None] = field(default_factory=list)
    threads: list[int] = field(default_factory=list)  # by round
    structures: list[int] = field(default_factory=list)  # by step, a number for each structure of graph
    lengths: list[int] = field(default_factory=list)  # by step, a number for each form of input
    trains: bool = True  # whether any parameter changes
    loss_at_start: float | None = None
    loss_same_steps: float | None = None
    loss_same_time: float | None = None
    steps_same_time: int = 0
    metric_same_steps: float | None = None
    metric_same_time: float | None = None

    @property
    def dynamic(self) -> bool:
        return self.mode in ("eager", "compile")

    @property
    def runs(self) -> bool:
        """Whether it takes any batch at all."""
        return any(self.taken)

    @property
    def takes_all(self) -> bool:
        return all(self.taken)

    @property
    def n_taken(self) -> int:
        return sum(self.taken)

    @property
    def round_seconds(self) -> list[float]:
        return [sum(s for s in row if s is not None) for row in self.seconds]

    @property
    def training_seconds(self) -> float:
        """Of the steps of a round, warm-up excluded."""
        return median(self.round_seconds) if self.seconds else 0.0

    @property
    def step_seconds(self) -> list[float]:
        return sorted(s for row in self.seconds for s in row if s is not None)

    @property
    def median_seconds(self) -> float:
        return median(self.step_seconds) if self.step_seconds else 0.0

    @property
    def p90_seconds(self) -> float:
        times = self.step_seconds
        return times[min(int(0.9 * len(times)), len(times) - 1)] if times else 0.0

    @property
    def n_parameters(self) -> int:
        return sum(map(prod, self.parameter_shapes))

    @property
    def changes(self) -> list[int]:
        """The steps whose batch has another structure or other sizes than the one before."""
        forms = list(zip(self.structures, self.lengths, strict=True))
        return [i for i in range(1, len(forms)) if forms[i] != forms[i - 1]]

    @property
    def changes_survived(self) -> int:
        return sum(self.taken[i] and self.taken[i - 1] for i in self.changes)

    @property
    def flexibility(self) -> str:
        """High if it took every batch by running the code, Low if its structure is fixed."""
        return "High" if self.takes_all and self.mode != "static" else "Low"

    def seen(self, numbers: list[int]) -> int:
        """How many different ones are among the batches that it took."""
        return len({n for n, taken in zip(numbers, self.taken, strict=False) if taken})

    def planned_steps(self) -> list[float]:
        """Seconds of each step that it takes, by the median over rounds."""
        columns = zip(*self.seconds, strict=True)
        found = [[s for s in column if s is not None] for column in columns]
        return [median(times) for times in found if times]


class Ratio(NamedTuple):
    """Time relative to another column's: the median over rounds, and between what it lies."""

    middle: float
    low: float
    high: float
    n_steps: int  # that both take


def _common(a: Figures, b: Figures) -> list[int]:
    """The batches that both take."""
    return [i for i, (x, y) in enumerate(zip(a.taken, b.taken, strict=False)) if x and y]


def ratio(a: Figures, b: Figures) -> Ratio | None:
    """a's time relative to b's, round by round, on the batches that both take. None if there are none."""
    common = _common(a, b)
    if not common or not a.seconds or not b.seconds:
        return None
    rounds = [
        [sum(seconds[i] or 0.0 for i in common) for seconds in both] for both in zip(a.seconds, b.seconds, strict=True)
    ]
    found = sorted(ours / theirs for ours, theirs in rounds if theirs > 0)
    if not found:
        return None
    # An interval that holds the true median in nine cases of ten.
    n_left = max(int((len(found) - 1.6 * len(found) ** 0.5) / 2), 0)
    inner = found[n_left : len(found) - n_left]
    return Ratio(median(found), inner[0], inner[-1], len(common))


def overhead(a: Figures, static: Figures) -> float | None:
    """Seconds a step beyond the static mode, which repeats the same plans without running Python: graph building."""
    found = ratio(a, static)
    if found is None:
        return None
    common = _common(a, static)
    per_round = [
        sum((ours[i] or 0.0) - (theirs[i] or 0.0) for i in common) / len(common)
        for ours, theirs in zip(a.seconds, static.seconds, strict=True)
    ]
    return max(median(per_round), 0.0)
