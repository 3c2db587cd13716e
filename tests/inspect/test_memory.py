"""Memory of the process."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from extempo.inspect import memory


def test_memory_is_counted_and_the_peak_remembers():
    memory.reset_peak()
    before = memory.resident_bytes()
    assert before > 10 * 2**20
    held = np.ones(64 * 2**20, np.uint8)
    assert memory.resident_bytes() >= before + 32 * 2**20
    del held
    assert memory.peak_bytes() >= before + 32 * 2**20


@pytest.mark.skipif(not memory.reset_peak(), reason="this system cannot forget a peak")
def test_a_peak_can_be_forgotten():
    held = np.ones(128 * 2**20, np.uint8)
    peak = memory.peak_bytes()
    del held
    assert memory.reset_peak()
    assert memory.peak_bytes() < peak - 64 * 2**20


def test_systems_without_proc_and_without_resource(monkeypatch):
    monkeypatch.setattr(memory, "_STATUS", Path("/nowhere/at/all"))
    assert memory.peak_bytes() > 10 * 2**20
    monkeypatch.setitem(sys.modules, "resource", None)
    assert memory.peak_bytes() == memory.resident_bytes() == 0
