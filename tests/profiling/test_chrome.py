"""The trace, with the fields that Perfetto and chrome://tracing need."""

from __future__ import annotations

import json

import extempo as ex
from extempo import nn
from extempo.profiling.chrome import events_of, json_of

from .trees import MODULE, OP, made


def test_events_have_name_phase_times_process_and_thread():
    events = events_of(made([(10_000, 50_000, MODULE), (20_000, 40_000, OP)], threads=[0, 0]))
    whole = [event for event in events if event["ph"] == "X"]
    assert [(event["name"], event["ts"], event["dur"]) for event in whole] == [
        ("module", 10.0, 40.0),
        ("add", 20.0, 20.0),
    ]
    assert all(isinstance(event["pid"], int) and isinstance(event["tid"], int) for event in events)
    assert {event["name"] for event in events if event["ph"] == "M"} == {"process_name", "thread_name"}
    assert whole[0]["args"]["line"].startswith("trees.py:")


def test_threads_have_numbers_and_names():
    events = events_of(made([(10, 20, OP), (10, 20, OP)], threads=[0, 9]))
    assert {event["tid"] for event in events if event["ph"] == "X"} == {1, 2}
    assert [event["args"]["name"] for event in events if event["name"] == "thread_name"] == ["main", "thread 1"]


def test_the_file_is_json_with_the_modules_by_class():
    model = nn.Linear(2, 2)
    with ex.profile() as prof:
        model(ex.ones(1, 2))
    found = json.loads(json_of(prof.recording, {"run": "1"}))
    assert found["otherData"] == {"run": "1"}
    assert "Linear" in {event["name"] for event in found["traceEvents"]}


def test_complete_events_of_a_thread_nest_and_have_numbers():
    """What the format asks for, and Perfetto drops events for: of two events of a thread one holds the other."""
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    with ex.profile() as prof:
        for _ in range(3):
            model(ex.ones(2, 4)).sum().backward()
    found = json.loads(json_of(prof.recording, {}))
    whole = [event for event in found["traceEvents"] if event["ph"] == "X"]
    assert whole
    for event in whole:
        assert event["name"]
        assert isinstance(event["ts"], float | int)
        assert event["dur"] >= 0
    for thread in {(event["pid"], event["tid"]) for event in whole}:
        own = [event for event in whole if (event["pid"], event["tid"]) == thread]
        open_until: list[float] = []
        for event in sorted(own, key=lambda event: (event["ts"], -event["dur"])):
            while open_until and open_until[-1] <= event["ts"]:
                open_until.pop()
            end = event["ts"] + event["dur"]
            assert not open_until or end <= open_until[-1] + 1e-3  # microseconds, of which a record has three digits
            open_until.append(end)
