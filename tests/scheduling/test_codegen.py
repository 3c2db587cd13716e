"""Instructions: what they read at each run, what they never write, and whom they blame."""

from __future__ import annotations

import pytest

pytest.importorskip("llvmlite", reason="plans are native code")

import extempo as ex
from extempo.backends.selection import native
from extempo.scheduling.request import Plan, Request, plan

from .programs import LSTM_CELL, lstm_cell
from .taping import check, draw, record, run_plan, same_bits, with_backward

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)

F = ex.nn.functional


def test_numbers_and_starts_are_read_at_each_run():
    def scaled(x, factor, first):
        return (x[first : first + 2] * factor).tanh().sum()

    x = draw(5, 4)
    tape, (y,) = record(lambda x: scaled(x, 2.0, 1), [x], fixed_starts=False)
    made = with_backward(tape, y)
    for factor, first in ((2.0, 1), (-0.5, 3), (7, 0)):
        x.grad = None
        expected = scaled(x, factor, first)
        expected.backward()
        tape.numbers = [first, float(factor)]
        value, gradient = run_plan(made, tape, tape.steps)
        same_bits(value, expected.detach().numpy(), "value")
        same_bits(gradient, x.grad.numpy(), "gradient")


def test_a_start_out_of_range_names_its_step():
    tape, (y,) = record(lambda x: (x[1:3] * 2).sum(), [draw(5, 4)], fixed_starts=False)
    made = plan(Request(tape.steps, 0, tape.leaves, frozenset(), (tape.place(y),)))
    assert isinstance(made, Plan)
    assert made.run(list(tape.arrays), [4, *tape.numbers[1:]]) == 0


def test_an_index_out_of_range_is_found_even_if_nobody_reads_the_result():
    rows = ex.tensor([0, 9])
    tape, (y, _) = record(lambda x: ((x * 2).sum(), F.embedding(rows, x)), [draw(5, 4)])
    made = plan(Request(tape.steps, 0, tape.leaves, frozenset(), (tape.place(y),)))
    assert isinstance(made, Plan)
    arrays = [tape.arrays[-1 - ref] for ref in made.inputs]
    assert made.run(arrays, tape.numbers) == 2


def test_inputs_are_never_written():
    arguments = [draw(*shape) for shape in LSTM_CELL]
    before = [a.detach().numpy().copy() for a in arguments]
    check(lstm_cell, arguments)
    for a, b in zip(arguments, before, strict=True):
        same_bits(a.detach().numpy(), b, "input")
