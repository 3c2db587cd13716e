"""Counts and times as Prometheus reads them: text, a line for each name and set of labels."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..core.locks import renewed

Labels = tuple[str, ...]
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
SAMPLES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
MOST_SERIES = 1000  # sets of labels of one metric; what comes later is counted under "other"


class Counter:
    """A number that grows, for each set of labels."""

    kind = "counter"

    def __init__(self, name: str, text: str, labels: Sequence[str] = ()) -> None:
        self.name = name
        self.text = text
        self.labels = tuple(labels)
        self._lock = renewed()
        self._values: dict[Labels, float] = {}

    def add(self, *labels: str, by: float = 1) -> None:
        with self._lock:
            if labels not in self._values and len(self._values) >= MOST_SERIES:
                labels = ("other",) * len(self.labels)
            self._values[labels] = self._values.get(labels, 0) + by

    def value(self, *labels: str) -> float:
        return self._values.get(labels, 0)

    def lines(self) -> list[str]:
        with self._lock:
            found = dict(self._values)
        return [f"{self.name}{_braces(self.labels, key)} {_text(value)}" for key, value in sorted(found.items())]


class Gauge:
    """A number that somebody is asked for when the text is made."""

    kind = "gauge"

    def __init__(
        self, name: str, text: str, read: Callable[[], Mapping[Labels, float]], labels: Sequence[str] = ()
    ) -> None:
        self.name = name
        self.text = text
        self.labels = tuple(labels)
        self._read = read

    def lines(self) -> list[str]:
        found = self._read()
        return [f"{self.name}{_braces(self.labels, key)} {_text(value)}" for key, value in sorted(found.items())]


class Histogram:
    """How many observations were at most so large, for each set of labels."""

    kind = "histogram"

    def __init__(self, name: str, text: str, bounds: Sequence[float], labels: Sequence[str] = ()) -> None:
        self.name = name
        self.text = text
        self.labels = tuple(labels)
        self._bounds = tuple(bounds)
        self._lock = renewed()
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}

    def observe(self, value: float, *labels: str) -> None:
        with self._lock:
            counts = self._counts.setdefault(labels, [0] * (len(self._bounds) + 1))
            counts[bisect_left(self._bounds, value)] += 1
            self._sums[labels] = self._sums.get(labels, 0.0) + value

    def count(self, *labels: str) -> int:
        return sum(self._counts.get(labels, ()))

    def total(self, *labels: str) -> float:
        return self._sums.get(labels, 0.0)

    def lines(self) -> list[str]:
        with self._lock:
            found = {key: (list(counts), self._sums[key]) for key, counts in self._counts.items()}
        lines = []
        for key, (counts, total) in sorted(found.items()):
            so_far = 0
            for bound, n in zip([*map(_text, self._bounds), "+Inf"], counts, strict=True):
                so_far += n
                lines.append(f"{self.name}_bucket{_braces((*self.labels, 'le'), (*key, bound))} {so_far}")
            lines.append(f"{self.name}_sum{_braces(self.labels, key)} {_text(total)}")
            lines.append(f"{self.name}_count{_braces(self.labels, key)} {so_far}")
        return lines


class Metrics:
    """What a server counts."""

    def __init__(self) -> None:
        self.requests = Counter("extempo_requests_total", "Requests that were answered.", ["route", "status"])
        self.seconds = Histogram("extempo_request_seconds", "From a request to its answer.", SECONDS, ["route"])
        self.samples = Counter("extempo_samples_total", "Samples, by what became of them.", ["model", "outcome"])
        self.batches = Histogram("extempo_batch_samples", "Samples that ran together in a step.", SAMPLES, ["model"])
        self.steps = Histogram("extempo_step_seconds", "What a step of a model took.", SECONDS, ["model"])
        self.reloads = Counter("extempo_reloads_total", "Reloads of models.", ["model", "outcome"])
        self._all: list[Any] = [self.requests, self.seconds, self.samples, self.batches, self.steps, self.reloads]

    def gauge(
        self, name: str, text: str, read: Callable[[], Mapping[Labels, float]], labels: Sequence[str] = ()
    ) -> None:
        """One more number, which is asked for each time."""
        self._all.append(Gauge(name, text, read, labels))

    def text(self) -> str:
        lines = []
        for metric in self._all:
            lines += [f"# HELP {metric.name} {metric.text}", f"# TYPE {metric.name} {metric.kind}", *metric.lines()]
        return "\n".join(lines) + "\n"


def resident_bytes() -> dict[Labels, float]:
    """The memory of this process; nothing where the system does not say."""
    try:
        with open("/proc/self/statm") as file:
            n_pages = int(file.read().split()[1])
        import resource

        return {(): float(n_pages * resource.getpagesize())}
    except (OSError, ImportError, ValueError, IndexError):
        return {}


def _braces(names: Sequence[str], values: Sequence[str]) -> str:
    if not names:
        return ""
    pairs = [f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True)]
    return "{" + ",".join(pairs) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _text(value: float) -> str:
    return str(int(value)) if float(value).is_integer() and abs(value) < 2**53 else repr(float(value))
