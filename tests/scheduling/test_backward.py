"""Backward as nodes of a program: the engine's arithmetic, in the engine's order."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="plans are native code")

from extempo.backends.selection import native

from .programs import LSTM_CELL, lstm_cell
from .taping import draw, record, run_plan, same_bits, with_backward

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)


def test_the_parts_of_a_gradient_are_written_straight_into_it():
    tape, (y, *_) = record(lstm_cell, [draw(*shape) for shape in LSTM_CELL])
    made = with_backward(tape, y)
    assert "zero" not in made.describe()
    assert "copy" not in made.describe()


def test_two_leaves_with_one_gradient_get_an_array_each():
    tape, (y,) = record(lambda a, b: (a + b).tanh(), [draw(5, 4), draw(5, 4, seed=1)])
    _, first, second = run_plan(with_backward(tape, y), tape, tape.steps)
    same_bits(first, second, "gradient")
    assert not np.shares_memory(first, second)
