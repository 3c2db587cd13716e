"""Loops of programs by native calls, one for each turn: the results of plain Python, whatever bodies give and carry."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
import extempo.nn.functional as F
from extempo.exporting import planned_loops
from extempo.exporting.planned_loops import planned_scan, planned_while
from extempo.func.tree import leaves
from extempo.scheduling.request import can_plan

pytestmark = pytest.mark.skipif(not can_plan(), reason="there are no plans without native code")


def bits(tree):
    return [(t._type, np.ascontiguousarray(t.numpy()).tobytes()) for t in leaves(tree)]


@pytest.fixture
def native_loops(monkeypatch):
    """How many loops ran natively."""
    counts = []

    def counting(fn):
        def run(*args):
            made = fn(*args)
            if made is not None:
                counts.append(fn.__name__)
            return made

        return run

    for name, fn in (("planned_scan", planned_scan), ("planned_while", planned_while)):
        monkeypatch.setattr(f"extempo.exporting.runner.{name}", counting(fn))
    return counts


def rnn(x):
    return ex.scan(lambda h, row: ((h + row).tanh(), (h * row).exp()), ex.zeros(3), x)


def same_state_out(x):
    def step(h, row):
        h = (h + row).sigmoid()
        return h, h

    return ex.scan(step, ex.zeros(3), x)


def several(x):
    def step(carry, rows):
        (a, b, kept), (row, number) = carry, rows
        return ((a + row) * kept, b * 0.5 + number, kept), {"y": a - row, "z": (b + number).exp(), "again": a - row}

    return ex.scan(step, (ex.zeros(3), ex.ones(()), ex.full((3,), 0.5)), (x, x.sum(1)))


def backwards(x):
    return ex.scan(lambda h, row: (h + row, h * 2), ex.ones(3), x, reverse=True)


def swapped(x):
    def step(carry, row):
        a, b = carry
        return (b, a + row), a * 1

    return ex.scan(step, (ex.zeros(3), ex.ones(3)), x)


def mapped(x):
    return ex.map(lambda row: (row.exp().sum(), row * 2), x)


def nested(x):
    return ex.map(lambda row: ex.scan(lambda c, v: ((c + v).tanh(), c * v), ex.tensor(0.5), row), x)


def transposed(x):
    return ex.scan(
        lambda c, row: ((c + row).T.tanh(), c.T * 1), ex.zeros(3, 3), x.unsqueeze(1).expand(x.shape[0], 3, 3)
    )


def counted(x):
    return ex.while_loop(
        lambda y, n, kept: (y.abs().sum() < 50) & (n < 20),
        lambda y, n, kept: (y * kept + 1, n + 1, kept),
        (x, ex.tensor(0), x * 0 + 1.5),
    )


LOOPS = [rnn, same_state_out, several, backwards, swapped, mapped, nested, transposed, counted]


@pytest.mark.parametrize("fn", LOOPS, ids=lambda fn: fn.__name__)
def test_loops_give_the_bits_of_plain_python(fn, native_loops):
    program = ex.program(fn, ex.randn(4, 3), dynamic={"x": {0: "n"}})
    for n in (0, 1, 2, 7, 30):
        for x in (ex.randn(n, 3), ex.randn(3, n).T, ex.randn(2 * n, 3)[::2]):
            with ex.eager():
                expected = program(x)
            for _ in range(3):
                assert bits(program(x)) == bits(expected)
    assert native_loops or fn in (nested, transposed)


def test_a_turn_that_fails_raises_the_error_of_its_op_and_the_loop_works_again(native_loops):
    def fn(tokens, table):
        return ex.scan(lambda h, token: ((h + F.embedding(token, table)).tanh(), h), ex.zeros(4), tokens)

    table = ex.randn(5, 4)
    program = ex.program(fn, (ex.tensor([1, 2, 3]), table), dynamic={"tokens": {0: "n"}})
    good, bad = ex.tensor([1, 2, 3, 4, 0]), ex.tensor([1, 2, 9, 4, 0])
    program(good, table)
    expected = program(good, table)
    for _ in range(3):
        with pytest.raises(IndexError):
            program(bad, table)
        assert bits(program(good, table)) == bits(expected)
    assert native_loops


def test_results_of_loops_own_their_memory(native_loops):
    program = ex.program(same_state_out, ex.randn(4, 3), dynamic={"x": {0: "n"}})
    x = ex.randn(6, 3)
    expected = bits(program(x))
    for _ in range(4):
        last, states = program(x)
        assert bits((last, states)) == expected
        last.add_(1)
        assert bits(states) == expected[1:]
        states.add_(1)
    assert native_loops


def test_a_body_that_is_more_than_one_plan_is_no_native_loop():
    program = ex.program(lambda x: ex.map(lambda row: row.sort()[0] * 2, x), ex.randn(4, 3))
    for _ in range(3):
        program(ex.randn(4, 3))
    (body,) = program._runner._inner.values()
    with pytest.raises(ValueError, match="not one plan"):
        planned_loops.PlannedBody(body, {})
