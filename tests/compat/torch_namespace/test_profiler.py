"""Named stretches of code are timed inside a profile, and run as they are elsewhere."""

from __future__ import annotations

import pytest

from extempo.compat.torch_namespace import profiler, torch_profiler


def test_the_older_names_are_those_of_the_profiler():
    assert profiler.profile is torch_profiler.profile
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        profiler.nothing  # noqa: B018 - reading it is the test


def test_a_named_stretch_runs_as_it_is():
    with profiler.record_function("step") as named:
        assert named.name == "step"
    assert profiler.record_function("sum")(sum)([1, 2]) == 3


def test_a_profile_counts_the_stretches_inside():
    with profiler.profile(with_stack=True) as found:
        for _ in range(3):
            with profiler.record_function("outer"), profiler.record_function("inner"):
                pass
    with profiler.record_function("outer"):
        pass
    counts = {event.key: event.count for event in found.key_averages()}
    assert counts == {"outer": 3, "inner": 3}
    assert all(event.cpu_time_total >= 0 and event.cpu_time <= event.cpu_time_total for event in found.function_events)
    lines = found.key_averages().table(sort_by="count", row_limit=1).splitlines()
    assert len(lines) == 3
    assert "# of Calls" in lines[0]
    assert "Self CPU time total" in lines[-1]


def test_a_profile_that_is_switched_off_sees_nothing():
    with profiler.profile(enabled=False) as found, profiler.record_function("step"):
        pass
    assert found.key_averages() == []


def test_code_runs_where_other_profilers_would_be_told():
    for emit in (profiler.emit_nvtx, profiler.emit_itt):
        with emit() as emitting:
            assert emitting.enabled


def test_pytorchs_own_profiler_is_not_there():
    assert not profiler.kineto_available()
