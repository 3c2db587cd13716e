"""Schedules of steps."""

from __future__ import annotations

import pytest

from extempo.profiling.steps import ProfilerActivity, schedule, supported_activities

OPTIONS = [
    {"wait": 1, "warmup": 1, "active": 2, "repeat": 2, "skip_first": 3},
    {"wait": 2, "warmup": 2, "active": 1},
    {"wait": 3, "warmup": 1, "active": 1, "skip_first": 1, "skip_first_wait": 1},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_a_schedule_is_pytorchs(options):
    torch = pytest.importorskip("torch")
    ours, theirs = schedule(**options), torch.profiler.schedule(**options)
    assert [ours(step).name for step in range(20)] == [theirs(step).name for step in range(20)]


def test_only_the_cpu_is_watched():
    assert supported_activities() == {ProfilerActivity.CPU}
