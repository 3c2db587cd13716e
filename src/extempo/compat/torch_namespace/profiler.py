"""`torch.autograd.profiler`: stretches of code that have names are timed; single ops are not.

`profile` collects the stretches of `record_function` that run inside it, of all threads. Where NVTX or ITT would be
told of ops nobody is, and the code runs as it is.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import ContextDecorator
from dataclasses import dataclass
from typing import Any

_profiles: list[profile] = []  # those that run now


@dataclass
class FunctionEventAvg:
    """All runs of the stretches of one name; times are microseconds."""

    key: str
    count: int = 0
    cpu_time_total: float = 0.0

    @property
    def cpu_time(self) -> float:
        """The mean of a run."""
        return self.cpu_time_total / self.count


class EventList(list[FunctionEventAvg]):
    """What was timed."""

    def table(self, sort_by: str | None = None, row_limit: int = 100, **kwargs: Any) -> str:
        """As text, the first `row_limit` by one of their figures."""
        events: Iterable[FunctionEventAvg] = self
        if sort_by in ("count", "cpu_time", "cpu_time_total"):
            events = sorted(self, key=lambda event: getattr(event, sort_by), reverse=True)
        rows = [f"{event.key:30} {event.cpu_time_total:14.1f} {event.count:8}" for event in list(events)[:row_limit]]
        return "\n".join([f"{'Name':30} {'CPU total (us)':>14} {'# Calls':>8}", *rows])


class record_function(ContextDecorator):  # PyTorch's name
    """A named stretch of code, timed where a `profile` runs."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self._starts: list[float] = []

    def __enter__(self) -> record_function:
        self._starts.append(time.perf_counter())
        return self

    def __exit__(self, *error: Any) -> None:
        seconds = time.perf_counter() - self._starts.pop()
        for running in _profiles:
            running._add(self.name, seconds)


class profile:  # PyTorch's name
    """Times the named stretches that run inside; `cProfile` sees Extempo's own code, `ex.inspect.trace` its layers."""

    def __init__(self, enabled: bool = True, **kwargs: Any) -> None:
        self.enabled = enabled
        self._events: dict[str, FunctionEventAvg] = {}

    def __enter__(self) -> profile:
        if self.enabled:
            _profiles.append(self)
        return self

    def __exit__(self, *error: Any) -> None:
        if self.enabled:
            _profiles.remove(self)

    def _add(self, name: str, seconds: float) -> None:
        event = self._events.setdefault(name, FunctionEventAvg(name))
        event.count += 1
        event.cpu_time_total += 1e6 * seconds

    def key_averages(self, *args: Any, **kwargs: Any) -> EventList:
        """What was timed, by name."""
        return EventList(self._events.values())

    @property
    def function_events(self) -> EventList:
        """What was timed, by name."""
        return self.key_averages()

    def table(self, *args: Any, **kwargs: Any) -> str:
        """What was timed, as text."""
        return self.key_averages().table(*args, **kwargs)

    def __str__(self) -> str:
        return self.table()


class emit_nvtx(ContextDecorator):  # PyTorch's name
    """NVTX is NVIDIA's; the code runs as it is."""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled = enabled

    def __enter__(self) -> emit_nvtx:
        return self

    def __exit__(self, *error: Any) -> None:
        pass


class emit_itt(emit_nvtx):  # PyTorch's name
    """ITT is Intel's; the code runs as it is."""


def kineto_available() -> bool:
    """The profiler of PyTorch's is not here."""
    return False
