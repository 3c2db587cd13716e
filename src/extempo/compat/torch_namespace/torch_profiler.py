"""`torch.profiler`: `ex.profile` by PyTorch's names, with its schedules; see `extempo.profiling`."""

from __future__ import annotations

from typing import Any

_HOMES = {
    "api": ("profile", "record_function", "tensorboard_trace_handler"),
    "steps": ("ProfilerAction", "ProfilerActivity", "schedule", "supported_activities"),
    "events": ("EventList", "FunctionEventAvg"),
}
__all__ = [*_HOMES["api"], *_HOMES["steps"], "kineto_available"]


def __getattr__(name: str) -> Any:
    from ...profiling import api, events, steps

    for home in (api, steps, events):
        if name in _HOMES[home.__name__.rpartition(".")[2]]:
            return getattr(home, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def kineto_available() -> bool:
    """Kineto is PyTorch's library for this, which is not there."""
    return False
