"""The end of a process; those of several ranks are in test_launcher.py."""

from __future__ import annotations

import sys

from extempo.distributed import leaving


def test_an_error_of_a_process_without_others_is_shown_as_ever(monkeypatch):
    shown = []
    monkeypatch.setitem(leaving._state, "hook", lambda *error: shown.append(error))
    monkeypatch.setitem(leaving._state, "failed", False)
    error = ValueError("x")
    leaving._ended_by_error(ValueError, error, None)
    assert shown == [(ValueError, error, None)]
    assert leaving._state["failed"]
    leaving._end()


def test_nothing_is_watched_before_there_are_others():
    assert not leaving._state["watching"]
    assert sys.excepthook is not leaving._ended_by_error
