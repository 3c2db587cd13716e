"""What nobody needs is not computed, and what is seen through views only is computed as these."""

from __future__ import annotations

import pytest

pytest.importorskip("llvmlite", reason="plans are native code")

import extempo as ex
from extempo.backends.selection import native
from extempo.scheduling.pipeline import Planner
from extempo.scheduling.request import Plan, Request, plan

from .taping import draw, record

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)

F = ex.nn.functional


def test_what_nobody_needs_is_not_computed():
    tape, (y, _) = record(lambda x: ((x * 2).sum(), (x @ x.T).exp()), [draw(5, 4)])
    made = plan(Request(tape.steps, 0, tape.leaves, frozenset(), (tape.place(y),)))
    assert isinstance(made, Plan)
    assert "matmul" not in made.describe()
    assert made.n_instructions == 2


def nodes_of(fn, *arguments, outputs=1):
    """The nodes that are needed for the first results."""
    tape, results = record(fn, [*arguments])
    planner = Planner(Request(tape.steps, 0, tape.leaves, frozenset(), tuple(map(tape.place, results[:outputs]))))
    return planner.program, planner.needed(planner.all_nodes())[1]


def test_what_may_fail_runs_even_if_nobody_reads_it():
    _, nodes = nodes_of(lambda x: ((x * 2).sum(), F.embedding(ex.tensor([0, 9]), x)), draw(5, 4))
    assert [node[5] for node in nodes] == [False, False, True]


def test_a_value_that_is_read_through_views_is_computed_as_these():
    program, nodes = nodes_of(lambda x: (y := x * 2)[:2].exp() + y[3:].exp(), draw(5, 4))
    first, second, *_ = nodes
    assert first[1] is second[1]  # the product, once for each view
    assert [program.types[node[3][0]].shape for node in nodes] == [(2, 4)] * 5


def test_a_value_that_is_also_read_as_a_whole_is_computed_once():
    program, nodes = nodes_of(lambda x: ((y := x * 2)[:2].exp(), y), draw(5, 4), outputs=2)
    assert [program.types[node[3][0]].shape for node in nodes] == [(5, 4), (2, 4)]


def test_views_that_overlap_are_not_worth_computing_twice():
    program, nodes = nodes_of(lambda x: (y := x * 2)[:4].exp() + y[1:].exp(), draw(5, 4))
    assert program.types[nodes[0][3][0]].shape == (5, 4)
