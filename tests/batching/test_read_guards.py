"""Whether one thing that a body reads is as it was."""

from __future__ import annotations

import math
from collections import deque

import numpy as np
import pytest

from extempo import nn
from extempo.batching.read_guards import ContainerGuard, ModuleGuard, alike


@pytest.mark.parametrize(
    ("a", "b", "answer"),
    [
        (1_000_000, 10**6, True),
        (1, 1.0, False),
        (1, True, False),
        (math.nan, float("nan"), True),
        (0.0, -0.0, False),
        ((1, "a"), (1, "a"), True),
        ((1,), (1, 2), False),
        ([1], [1], False),
        (np.float32(0.5), np.float32(0.5), True),
        (None, None, True),
    ],
)
def test_values_are_alike_if_one_can_stand_for_the_other(a, b, answer):
    assert alike(a, b) is answer


@pytest.mark.parametrize(
    ("container", "change"),
    [
        ([1, 2], lambda c: c.append(3)),
        ([1, 2], lambda c: c.reverse()),
        ({"a": 1}, lambda c: c.update(a=2)),
        ({"a": 1, "b": 2}, lambda c: c.update(a=c.pop("a"))),
        ({1}, lambda c: c.add(2)),
        (deque([1]), lambda c: c.popleft()),
        (bytearray(b"ab"), lambda c: c.reverse()),
        (np.zeros(3), lambda c: c.fill(1)),
        ([], lambda c: c.append(None)),
    ],
)
def test_a_changed_container_is_noticed(container, change):
    guard = ContainerGuard(container, "name")
    assert guard.same()
    change(container)
    assert not guard.same()


def test_an_equal_element_in_the_place_of_another_is_no_change():
    container = [(1, 2), 1_000_000]
    guard = ContainerGuard(container, "name")
    container[:] = [(1, int("2")), int("1000000")]
    assert guard.same()


def test_changed_attributes_of_a_module_are_named():
    module = nn.Linear(2, 2)
    guard = ModuleGuard(module)
    assert guard.same()
    assert list(guard.changes()) == []
    module.scale = 2.0
    assert not guard.same()
    assert list(guard.changes()) == ["Linear.scale"]
