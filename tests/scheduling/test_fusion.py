"""Elementwise nodes become clusters, the same few whatever the number of steps."""

from __future__ import annotations

import pytest

pytest.importorskip("llvmlite", reason="plans are native code")

from extempo.backends.selection import native
from extempo.scheduling.request import Plan, Request, plan

from .programs import LSTM_CELL, lstm_cell
from .taping import draw, record, with_backward

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)


def test_a_chain_of_elementwise_ops_is_one_instruction():
    tape, (y,) = record(lambda x, b: ((x + b).tanh() * x.sigmoid() - b).exp(), [draw(5, 4), draw(4)])
    made = plan(Request(tape.steps, 0, tape.leaves, frozenset(), (tape.place(y),)))
    assert isinstance(made, Plan)
    assert (made.n_instructions, made.n_fused, made.arena_bytes) == (1, 5, 0)


def test_clusters_do_not_depend_on_the_number_of_steps():
    def unrolled(length):
        def fn(x, h, c, w, u, b):
            for _ in range(length):
                _, h, c = lstm_cell(x, h, c, w, u, b)
            return (h * h).sum()

        tape, (y,) = record(fn, [draw(*shape) for shape in LSTM_CELL])
        return set(with_backward(tape, y).describe().splitlines())

    assert unrolled(7) == unrolled(30)
