"""Whoever has traced reading memory is asked before it changes: in this thread, or escaped from a function."""

from __future__ import annotations

import threading

import pytest

from extempo.core import active_traces
from extempo.core.active_traces import ACTIVE, ESCAPED, before_sharing, before_write, end_active, note_escaped


class Executor:
    """Notes what it is asked."""

    def __init__(self):
        self.is_left = False
        self.asked = []

    def before_write(self, storages):
        self.asked.append(("write", storages))

    def before_sharing(self, storage):
        self.asked.append(("share", storage))


@pytest.fixture(autouse=True)
def _nobody_else(monkeypatch):
    monkeypatch.setattr(active_traces, "ESCAPED", set())
    monkeypatch.setattr(ACTIVE, "recordings", [])


def test_executors_of_this_thread_are_asked():
    inner, outer = Executor(), Executor()
    ACTIVE.recordings += [outer, inner]
    before_write(["memory"])
    before_sharing("other memory")
    for executor in (inner, outer):
        assert executor.asked == [("write", ["memory"]), ("share", "other memory")]


def test_executors_of_another_thread_are_not():
    executor = Executor()
    ACTIVE.recordings.append(executor)
    thread = threading.Thread(target=before_write)
    thread.start()
    thread.join()
    assert executor.asked == []


def test_those_that_have_escaped_are_asked_by_any_thread_until_they_are_gone():
    executor = Executor()
    active_traces.ESCAPED.add(active_traces.weakref.ref(executor))
    thread = threading.Thread(target=before_write)
    thread.start()
    thread.join()
    assert executor.asked == [("write", None)]
    del executor
    before_write()  # nobody is there


def test_an_executor_that_escapes_is_not_kept_alive(monkeypatch):
    monkeypatch.setattr(active_traces, "ESCAPED", ESCAPED)
    before = len(ESCAPED)
    executor = Executor()
    note_escaped(executor)
    assert executor.is_left
    assert len(ESCAPED) == before + 1
    del executor
    assert len(ESCAPED) == before


def test_an_executor_ends_once_and_wherever_it_stands():
    inner, outer = Executor(), Executor()
    ACTIVE.recordings += [outer, inner]
    end_active(outer)  # an interrupt has left the inner one
    assert ACTIVE.recordings == [inner]
    end_active(inner)
    end_active(inner)
    assert ACTIVE.recordings == []


def test_a_forked_child_forgets_the_trace_that_was_being_changed(monkeypatch):
    changed, other = Executor(), Executor()
    active_traces.ESCAPED.update(active_traces.weakref.ref(executor) for executor in (changed, other))
    monkeypatch.setattr(active_traces, "worked_on", id(changed))
    active_traces._forget_changed()
    assert [reference() for reference in active_traces.ESCAPED] == [other]
