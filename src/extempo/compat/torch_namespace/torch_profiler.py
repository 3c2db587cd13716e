"""`torch.profiler`: `profile` with its schedule of steps. Named stretches of code are timed, single ops are not."""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from . import profiler
from .profiler import EventList as EventList
from .profiler import record_function as record_function


class ProfilerActivity(enum.Enum):
    """What is watched; here it is the CPU, whatever is asked for."""

    CPU, XPU, MTIA, CUDA, HPU = range(5)


class ProfilerAction(enum.Enum):
    """What happens at a step."""

    NONE, WARMUP, RECORD, RECORD_AND_SAVE = range(4)


def supported_activities() -> set[ProfilerActivity]:
    """The CPU."""
    return {ProfilerActivity.CPU}


def kineto_available() -> bool:
    """Kineto is PyTorch's library for this, which is not there."""
    return False


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, **kwargs: Any
) -> Callable[[int], ProfilerAction]:
    """Which steps are watched: skip some, then wait, warm up and record, again and again or `repeat` times."""

    def action_of(step: int) -> ProfilerAction:
        cycle, position = divmod(step - skip_first, wait + warmup + active)
        if step < skip_first or (repeat and cycle >= repeat) or position < wait:
            return ProfilerAction.NONE
        if position < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if position < wait + warmup + active - 1 else ProfilerAction.RECORD_AND_SAVE

    return action_of


def tensorboard_trace_handler(dir_name: str, worker_name: str | None = None, use_gzip: bool = False) -> Any:
    """For `on_trace_ready`: writes what was timed to a file in a folder."""

    def write(finished: profile) -> None:
        folder = Path(dir_name)
        folder.mkdir(parents=True, exist_ok=True)
        finished.export_chrome_trace(str(folder / f"{worker_name or 'worker'}.{finished.step_num}.pt.trace.json"))

    return write


class profile(profiler.profile):  # PyTorch's name
    """Times the named stretches that run inside, in the steps that `schedule` says; `step()` ends a step."""

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        self._action_of = schedule or (lambda step: ProfilerAction.RECORD)
        self._on_trace_ready = on_trace_ready
        self.step_num = 0
        self._turn(on=True)

    def _turn(self, on: bool) -> None:
        recorded = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        self.enabled = on and self._action_of(self.step_num) in recorded

    def start(self) -> None:
        """As a `with` block begins."""
        self.__enter__()

    def stop(self) -> None:
        """As a `with` block ends."""
        self.__exit__(None, None, None)

    def step(self) -> None:
        """The next step begins."""
        was_recorded, action = self.enabled, self._action_of(self.step_num)
        if was_recorded:
            super().__exit__()
        if action is ProfilerAction.RECORD_AND_SAVE and self._on_trace_ready is not None:
            self._on_trace_ready(self)
        self.step_num += 1
        self._turn(on=True)
        super().__enter__()

    def __exit__(self, *error: Any) -> None:
        was_recorded = self.enabled
        super().__exit__(*error)
        self._turn(on=False)
        if was_recorded and self._on_trace_ready is not None:
            self._on_trace_ready(self)

    def events(self) -> EventList:
        """What was timed, by name."""
        return self.key_averages()

    def export_chrome_trace(self, path: str) -> None:
        """The stretches with their total time, one after the other, as a file for Chrome's `about:tracing`."""
        events, start = [], 0.0
        for event in self.key_averages():
            duration = event.cpu_time_total
            events.append({"name": event.key, "ph": "X", "ts": start, "dur": duration, "pid": 0, "tid": 0})
            start += duration
        Path(path).write_text(json.dumps({"traceEvents": events}))

    def add_metadata(self, key: str, value: str) -> None:
        """Nothing to keep it in."""

    add_metadata_json = add_metadata
