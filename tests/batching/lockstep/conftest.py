"""Functions here are traced in their first call, and none of them is known from another test."""

import pytest

from extempo.batching.lockstep import programs


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(programs, "_CALLS_BEFORE", 0)
    programs.forget()
    yield
    programs.forget()
