"""Loops of unknown length: what they carry, what they append, and ranges that values bound."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.errors import ExportError

OPEN = {"x": {0: "n"}}


def test_a_loop_carries_what_a_step_changes_and_reads_the_rest():
    def fn(x):
        h, scale, seen = ex.zeros(2), ex.ones(2) * 2, 0
        for row in x:
            h = h + row * scale
            seen += 1
        return h * seen

    program = ex.program(fn, ex.ones(3, 2), dynamic=OPEN)
    (loop,) = [n for n in program.graph if n.op.name == "scan"]
    assert loop.attrs["n_carried"] == 2
    assert program(ex.ones(5, 2)).tolist() == [50, 50]


def test_a_variable_that_another_carried_one_decides_about_is_carried():
    def fn(x):
        n, late = 0, ex.zeros(())
        for row in x:
            n = n + 1
            if n > 2:
                late = late + row.sum()
        return late

    program = ex.program(fn, ex.ones(3, 2), dynamic=OPEN)
    assert [float(program(ex.ones(n, 2))) for n in (1, 2, 3, 6)] == [0, 0, 2, 8]


def test_a_range_that_a_value_bounds_is_counted():
    def fn(x, n):
        total = ex.zeros(())
        for i in range(n):
            total = total + x[i] * i
        for i in range(2, -1, (-1)):
            total = total * 2 + i
        return total

    program = ex.program(fn, (ex.ones(5), ex.tensor(3)))
    for n in (0, 1, 5):
        assert float(program(ex.ones(5), ex.tensor(n))) == float(fn(ex.ones(5), n))


def test_lists_in_a_counted_loop_and_unlike_appends_are_refused():
    def counted(x, n):
        found = []
        for i in range(n):
            found.append(x[i])
        return ex.stack(found)

    def unlike(x):
        found = []
        for row in x:
            found.append(row)
            found.append(row.sum())
        return found[0]

    with pytest.raises(ExportError, match="the list `found` grows in this `while` loop"):
        ex.program(counted, (ex.ones(5), ex.tensor(3)))
    with pytest.raises(ExportError, match="`found` must get as many tensors at every step of this loop"):
        ex.program(unlike, ex.ones(3, 2), dynamic=OPEN)
