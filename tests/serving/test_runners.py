"""Runners: results of the plain call, whoever runs beside it; samples that end early leave, errors stay alone."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.errors import IndexRangeError
from extempo.exporting.folding import fold_constants
from extempo.serving.runners import OneByOne, OpenRunner, Ticket, function_of, may_go_on_for_ever


def tickets_of(*inputs):
    return [Ticket([x], 10.0) for x in inputs]


def drained(runner, tickets):
    runner.start(tickets)
    n_steps = 0
    while runner.running:
        runner.step()
        n_steps += 1
        assert n_steps < 1000
    return n_steps


@pytest.mark.parametrize("kind", ["one by one", "open"])
def test_tickets_get_the_results_of_the_program(tagger, kind):
    function = function_of(fold_constants(tagger))
    runner = OneByOne(function) if kind == "one by one" else OpenRunner(function, 8)
    inputs = [ex.tensor(np.arange(n) % 10) for n in (3, 1, 7, 2)]
    tickets = tickets_of(*inputs)
    drained(runner, tickets)
    for x, ticket in zip(inputs, tickets, strict=True):
        (made,) = ticket.future.result(0)
        assert np.allclose(made, tagger(x).numpy(), atol=1e-6)


class Decided:
    """Paces that say what they are told to."""

    may_gain = False

    def __init__(self, is_alone):
        self.is_alone = is_alone
        self.noted = []

    def is_next_alone(self, n_waiting):
        return self.is_alone

    def note(self, n_samples, seconds):
        self.noted.append(n_samples)


@pytest.mark.parametrize(("is_alone", "noted"), [(True, [1, 1, 1]), (False, [3])])
def test_an_open_runner_goes_by_what_was_found_to_be_quicker(scaling, is_alone, noted):
    runner = OpenRunner(function_of(scaling), 8)
    runner._paces = Decided(is_alone)
    tickets = tickets_of(*[ex.full((n, 3), 0.5) for n in (1, 4, 2)])
    runner.start(tickets)
    together = []
    while runner.running:
        together.append(runner.step())
    assert together == noted == runner._paces.noted
    assert [ticket.future.result(0)[0].shape for ticket in tickets] == [(1, 3), (4, 3), (2, 3)]
    assert runner.step() == 0
    assert not runner.gathers


def test_a_ticket_can_be_ended_before_its_turn_came(scaling):
    runner = OpenRunner(function_of(scaling), 8)
    runner._paces = Decided(is_alone=True)
    first, second = tickets_of(ex.ones(1, 3), ex.ones(2, 3))
    runner.start([first, second])
    runner.end(second, TimeoutError("too long"))
    assert runner.step() == 1
    assert runner.running == []
    assert first.future.done()
    with pytest.raises(TimeoutError):
        second.future.result(0)


def test_an_index_out_of_range_is_the_error_of_its_sample_alone(tagger):
    runner = OpenRunner(function_of(fold_constants(tagger)), 8)
    good, bad, also_good = tickets_of(ex.tensor([1, 2]), ex.tensor([1, 77]), ex.tensor([3, 4, 5]))
    drained(runner, [good, bad, also_good])
    with pytest.raises(IndexRangeError):
        bad.future.result(0)
    assert np.allclose(good.future.result(0)[0], tagger(ex.tensor([1, 2])).numpy(), atol=1e-6)
    assert np.allclose(also_good.future.result(0)[0], tagger(ex.tensor([3, 4, 5])).numpy(), atol=1e-6)


def test_a_sample_with_nan_leaves_the_others_as_they_are(scaling):
    runner = OpenRunner(function_of(scaling), 8)
    good, bad = tickets_of(ex.ones(2, 3), ex.full((4, 3), float("nan")))
    drained(runner, [good, bad])
    assert good.future.result(0)[0].tolist() == [[2.0] * 3] * 2
    assert np.isnan(bad.future.result(0)[0]).all()


def test_a_sample_that_ends_early_leaves_and_a_new_one_joins(doubling):
    runner = OpenRunner(function_of(doubling), 8, calls_alone=False)
    long, short = tickets_of(ex.full((3,), 0.001), ex.full((3,), 30.0))
    runner.start([long, short])
    for _ in range(6):
        runner.step()
    assert short.future.done()
    assert not long.future.done()
    (joined,) = tickets_of(ex.full((3,), 20.0))
    runner.start([joined])
    for _ in range(5):
        runner.step()
    assert joined.future.done()
    assert not long.future.done()
    while runner.running:
        runner.step()
    assert int(long.future.result(0)[1]) == 16
    assert int(short.future.result(0)[1]) == 1
    assert int(joined.future.result(0)[1]) == 1


def test_a_sample_that_never_ends_can_be_ended(doubling):
    runner = OpenRunner(function_of(doubling), 8, calls_alone=False)
    endless, other = tickets_of(ex.full((3,), -1.0), ex.full((3,), 0.5))
    runner.start([endless, other])
    runner.step()
    runner.end(endless, TimeoutError("too long"))
    while runner.running:
        runner.step()
    with pytest.raises(TimeoutError):
        endless.future.result(0)
    assert int(other.future.result(0)[1]) == 7


def test_a_run_that_breaks_fails_its_tickets_and_is_replaced(scaling, monkeypatch):
    runner = OpenRunner(function_of(scaling), 8)
    tickets = tickets_of(ex.ones(1, 3), ex.ones(2, 3))
    runner.start(tickets)

    def broken():
        raise RuntimeError("out of order")

    monkeypatch.setattr(runner._run, "step", broken)
    runner.step()
    for ticket in tickets:
        with pytest.raises(RuntimeError, match="out of order"):
            ticket.future.result(0)
    later = tickets_of(ex.ones(1, 3), ex.ones(2, 3))
    drained(runner, later)
    assert all(ticket.future.result(0) for ticket in later)


def test_closing_fails_what_has_not_ended(doubling):
    runner = OpenRunner(function_of(doubling), 8, calls_alone=False)
    (endless,) = tickets_of(ex.full((3,), -1.0))
    runner.start([endless])
    runner.step()
    runner.close()
    with pytest.raises(ex.errors.GraphError, match="closed"):
        endless.future.result(0)


def test_programs_with_a_while_loop_may_go_on_for_ever(tagger, doubling):
    def grown(row):
        return ex.while_loop(lambda r: r.sum() < 9, lambda r: (r * 2,), (row,))

    inside = ex.program(lambda x: ex.map(grown, x), ex.ones(2, 3))
    assert may_go_on_for_ever(doubling)
    assert may_go_on_for_ever(inside)
    assert not may_go_on_for_ever(tagger)


def test_who_cancels_a_ticket_is_told_nothing(scaling):
    runner = OneByOne(function_of(scaling))
    (ticket,) = tickets_of(ex.ones(1, 3))
    ticket.future.cancel()
    drained(runner, [ticket])
    assert ticket.future.cancelled()
