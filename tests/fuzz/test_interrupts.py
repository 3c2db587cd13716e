"""The fuzzer of interrupts, a few cases of each kind of loop."""

from __future__ import annotations

import pytest

from . import interrupts

pytestmark = pytest.mark.alone  # half of the interrupts are real signals

_CASES = 20  # of each


@pytest.mark.parametrize("place", range(len(interrupts.LOOPS)), ids=list(interrupts.LOOPS))
def test_interrupts_arrive_and_leave_everything_as_it_was(place):
    numbers = [place + i * len(interrupts.LOOPS) for i in range(_CASES)]
    assert [wrong for number in numbers if (wrong := interrupts.case(0, number))] == []
