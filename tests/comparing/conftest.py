"""A clock for comparisons: no test looks at the real one."""

from __future__ import annotations

import pytest

from extempo.comparing import measuring


class FakeClock:
    """Goes on by `tick` whenever it is looked at, and by whatever a test adds."""

    def __init__(self) -> None:
        self.now = 0.0
        self.tick = 1.0

    def __call__(self) -> float:
        self.now += self.tick
        return self.now


@pytest.fixture
def fake_clock(monkeypatch):
    clock = FakeClock()
    monkeypatch.setattr(measuring, "clock", clock)
    return clock
