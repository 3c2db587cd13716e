"""Objects that live are found by their class."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

import extempo as ex
from extempo.core.live_objects import is_frozen, live_objects


def test_live_objects_are_those_of_a_class_and_of_those_below_it():
    x, weight = ex.ones(3), ex.nn.Parameter(ex.ones(2))
    found = live_objects(ex.Tensor)
    assert any(t is x for t in found)
    assert any(t is weight for t in found)
    assert all(isinstance(t, ex.Tensor) for t in found)
    assert not any(t is x for t in live_objects(ex.nn.Parameter))


def test_what_is_gone_is_not_found():
    class Once:
        pass

    once = Once()
    assert live_objects(Once) == [once]
    del once
    assert live_objects(Once) == []


def test_an_object_is_frozen_that_was_there_before_the_collector_was_told_to_leave_all_alone():
    told = """
import gc
from extempo.core.live_objects import is_frozen
before = [1]
assert not is_frozen(before)
gc.freeze()
after = [2]
assert is_frozen(before) and not is_frozen(after) and not is_frozen(3)
"""
    subprocess.run([sys.executable, "-c", told], check=True)


@pytest.mark.alone
def test_other_threads_can_finish_the_tuples_they_are_making():
    refused = []
    done = threading.Event()

    def make_tuples():
        while not done.is_set():
            try:
                tuple(i for i in range(200))
            except SystemError as error:
                refused.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    other = threading.Thread(target=make_tuples)
    other.start()
    try:
        for _ in range(50):
            live_objects(ex.Tensor)
            is_frozen(refused)
    finally:
        done.set()
        other.join()
        sys.setswitchinterval(interval)
    assert not refused
