"""Forks and kills at any moment, one case of each."""

from __future__ import annotations

import os

import pytest

from . import kills

pytestmark = [pytest.mark.alone, pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and signals")]


def test_no_child_of_a_storm_hangs():
    assert kills.case(0, 1) is None


@pytest.mark.slow
def test_a_killed_run_goes_on_with_the_same_bits():
    assert kills.case(0, 0) is None


def test_a_child_that_hangs_or_fails_is_told(monkeypatch):
    monkeypatch.setattr(kills, "_SECONDS_FOR_A_CHILD", 0.2)
    assert kills._ended(kills._forked([lambda: kills.time.sleep(60)])) == "a forked child hangs"
    assert kills._ended(kills._forked([lambda: os._exit(3)])) == "a forked child ended with 3"
    assert kills._ended(kills._forked([])) is None
