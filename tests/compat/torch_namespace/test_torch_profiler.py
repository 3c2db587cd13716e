"""`torch.profiler` is `ex.profile`, in the steps that a schedule says."""

from __future__ import annotations

import json

import pytest

import extempo as ex
from extempo.compat.torch_namespace import torch_profiler as tp


def test_it_is_the_profiler_of_extempo():
    assert tp.profile is ex.profile
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        tp.nothing  # noqa: B018 - reading it is the test


def counts(profile):
    return {event.key: event.count for event in profile.key_averages()}


def test_without_a_schedule_everything_inside_is_timed():
    ready = []
    with tp.profile(activities=[tp.ProfilerActivity.CPU], record_shapes=True, on_trace_ready=ready.append) as profile:
        for _ in range(3):
            with tp.record_function("forward"):
                pass
            profile.step()
    with tp.record_function("forward"):
        pass
    assert counts(profile) == {"forward": 3}
    assert ready == [profile]
    assert "forward" in profile.key_averages().table(sort_by="cpu_time_total", row_limit=10)


def test_a_schedule_chooses_the_steps():
    ready = []
    schedule = tp.schedule(skip_first=1, wait=1, warmup=1, active=2, repeat=1)
    assert [schedule(i).name for i in range(7)] == (
        ["NONE", "NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE", "NONE", "NONE"]
    )
    with tp.profile(schedule=schedule, on_trace_ready=lambda p: ready.append(p.step_num)) as profile:
        for i in range(7):
            with tp.record_function(f"step {i}"):
                pass
            profile.step()
    assert counts(profile) == {"step 3": 1, "step 4": 1}
    assert ready == [5]  # as PyTorch has it: the next step has begun


def test_it_can_be_started_and_stopped():
    profile = tp.profile()
    profile.start()
    with tp.record_function("inside"):
        pass
    profile.stop()
    with tp.record_function("outside"):
        pass
    assert counts(profile) == {"inside": 1}


def test_what_was_timed_is_written_to_a_file(tmp_path):
    with tp.profile(on_trace_ready=tp.tensorboard_trace_handler(str(tmp_path), "me")), tp.record_function("a"):
        pass
    (file,) = tmp_path.iterdir()
    (event,) = [event for event in json.loads(file.read_text())["traceEvents"] if event["ph"] == "X"]
    assert event["name"] == "a"


def test_only_the_cpu_is_watched():
    assert tp.supported_activities() == {tp.ProfilerActivity.CPU}
    assert not tp.kineto_available()
