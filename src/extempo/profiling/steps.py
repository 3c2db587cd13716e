"""Schedules: which steps of a program are profiled, with PyTorch's names."""

from __future__ import annotations

import enum
from collections.abc import Callable


class ProfilerActivity(enum.Enum):
    """What is watched; here it is the CPU, whatever is asked for."""

    CPU, XPU, MTIA, CUDA, HPU = range(5)


class ProfilerAction(enum.Enum):
    """What happens at a step."""

    NONE, WARMUP, RECORD, RECORD_AND_SAVE = range(4)


def supported_activities() -> set[ProfilerActivity]:
    """The CPU."""
    return {ProfilerActivity.CPU}


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """Which steps are profiled: skip some, then wait, warm up and record, again and again or `repeat` times.

    >>> which = ex.profiling.schedule(wait=1, warmup=1, active=2, repeat=1)
    >>> [which(step).name for step in range(5)]
    ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """
    length = wait + warmup + active

    def action_of(step: int) -> ProfilerAction:
        step -= skip_first
        if step >= 0 and skip_first_wait:  # the first cycle does not wait
            step += wait
        cycle, position = divmod(step, length)
        if step < 0 or (repeat and cycle >= repeat) or position < wait:
            return ProfilerAction.NONE
        if position < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if position < length - 1 else ProfilerAction.RECORD_AND_SAVE

    return action_of
