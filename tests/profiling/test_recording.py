"""Records as they are written, natively and in Python."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.profiling import recording, sites
from extempo.profiling.recording import PythonRecorder


def taken(recorder, program):
    begin = recorder.now()
    program()
    return recorder.taken(begin)


def names(found):
    made = []
    for record in found.records:
        site = found.sites[record["site"]]
        made.append(
            getattr(found.objects.get(int(record["object"])), "name", site.name) if site.names_itself else site.name
        )
    return made


def program():
    with recording_label("mine"):
        (ex.ones(3) + 1).exp()


def recording_label(name):
    from extempo.profiling.api import record_function

    return record_function(name)


def test_records_have_times_lines_and_names():
    recorder = recording.start(1 << 10)
    try:
        found = taken(recorder, program)
    finally:
        recording.stop()
    assert {"add", "exp", "mine"} <= set(names(found))
    records = found.records
    assert (records["begin"] <= records["end"]).all()
    assert records["begin"].min() >= found.begin - 1000
    assert records["end"].max() <= found.end + 1000
    assert program.__code__ in found.objects.values()
    assert recording.current() is None


def test_python_records_the_same_where_there_is_no_native_code():
    from extempo.backends import entry_points

    with entry_points.python_defaults():
        recorder = PythonRecorder(1 << 10)
        try:
            begin = recorder.now()
            (ex.ones(3) + 1).exp()
            recorder.label("mine")(begin, recorder.now())
            found = recorder.taken(begin)
        finally:
            recorder.stop()
    assert {"add", "exp", "mine"} <= set(names(found))
    assert {found.sites[number].kind for number in set(found.records["site"].tolist())} >= {sites.OP, sites.LABEL}
    assert (found.records["begin"] <= found.records["end"]).all()


def test_there_is_one_recorder_for_all():
    first = recording.start(64)
    try:
        assert recording.start(64) is first
        recording.stop()
        assert recording.current() is first
    finally:
        recording.stop()
    assert recording.current() is None
    assert len(recording.nothing()) == 0


def test_functions_that_are_made_meanwhile_are_recorded_too():
    pytest.importorskip("llvmlite")
    if ex.backends.stats()["backend"] == "numpy":
        pytest.skip("the native backend does not run here")
    recorder = recording.start(1 << 10)
    try:
        found = taken(recorder, lambda: ex.nn.functional.avg_pool1d(ex.ones(1, 1, 9), 3, stride=2))
    finally:
        recording.stop()
    assert any(found.sites[number].kind == sites.KERNEL for number in np.unique(found.records["site"]))
