"""Copies of a loop's window: each reads what is its own, and keeps what is needed later."""

from __future__ import annotations

import pytest

pytest.importorskip("llvmlite", reason="plans are native code")

from extempo.backends.selection import native

from .loops import LSTM, draw, inputs, lstm
from .taping import check

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)


def test_steps_that_ran_before_are_read_from_what_was_kept(rolled):
    arguments = [draw(*s, seed=i) for i, s in enumerate(LSTM)]
    check(lstm, [*arguments, *inputs(30, 2, 4)], cut=51)
    assert len(rolled) == 2


def test_numbers_are_those_of_their_step(rolled):
    def fn(w, h, *xs):
        for i, x in enumerate(xs):
            h = (x @ w + h * (0.5 + i / 64)).tanh() + i / 8
        return (h * 0.75).sum()

    check(fn, [draw(4, 3), draw(2, 3), *inputs(33, 2, 4)])
    assert rolled == [True]


def test_what_comes_before_and_after_a_loop_reads_its_ends(rolled):
    def fn(w, u, h, *xs):
        h = (h @ u).relu() * 0.5
        first = h
        for x in xs:
            h = (x @ w + h @ u).tanh()
            last, first = h, first
        return ((h + last) * 3.0 + first).sum() + (w.sum() * 0.125).tanh()

    check(fn, [draw(4, 3), draw(3, 3), draw(2, 3), *inputs(25, 2, 4)])
    assert rolled == [True]
