"""Kernels that tests compile are kept apart from the user's own, and shared by the processes of one run."""

import getpass
import os
import tempfile
from pathlib import Path

import pytest

# Plans are made at once and not when LLVM finds the time, so that tests can count them.
os.environ.setdefault("EXTEMPO_COMPILE_WAIT", "1")
os.environ.setdefault("EXTEMPO_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"extempo-tests-{getpass.getuser()}"))


@pytest.fixture
def no_kernels_on_disk(tmp_path, monkeypatch):
    """Begin with an empty directory of kernels; returns the cache on it."""
    disk = pytest.importorskip("extempo.backends.llvm.ir.disk")
    cache = disk.DiskCache(tmp_path / "kernels")
    monkeypatch.setitem(disk._DEFAULT, "cache", cache)
    return cache


@pytest.fixture
def always_planned():
    """Functions that are compiled meanwhile are traced in every call and planned when something is met again."""
    policy = pytest.importorskip("extempo.tracing.policy")
    before = policy.choose(policy.AlwaysPlan)
    yield
    policy.choose(before)


@pytest.fixture
def never_planned():
    """Functions that are compiled meanwhile are traced in every call and run op by op."""
    policy = pytest.importorskip("extempo.tracing.policy")
    before = policy.choose(policy.NeverPlan)
    yield
    policy.choose(before)


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
    """A clock for comparisons: no test looks at the real one."""
    clock = FakeClock()
    monkeypatch.setattr("extempo.comparing.measuring.clock", clock)
    return clock
