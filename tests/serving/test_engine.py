"""The engine: what comes together runs together, queues are bounded, and what was accepted is finished."""

from __future__ import annotations

import threading

import pytest

import extempo as ex
from extempo.serving.engine import Engine
from extempo.serving.metrics import Metrics
from extempo.serving.refusals import BadRequest
from extempo.serving.runners import OneByOne, Ticket
from extempo.serving.settings import Limits


class Held:
    """A runner that goes on when it is told to, and notes how many it was given at a time."""

    gathers = True

    def __init__(self):
        self.running = []
        self.started = []
        self.go = threading.Event()

    def start(self, tickets):
        self.started.append(len(tickets))
        self.running += tickets

    def step(self):
        self.go.wait(30)
        running, self.running = self.running, []
        for ticket in running:
            ticket.give(ticket.tensors)
        return len(running)

    def end(self, ticket, error):
        self.running.remove(ticket)
        ticket.fail(error)

    def close(self):
        pass


@pytest.fixture
def engine():
    made = Engine(Limits(max_batch=4, max_wait=0.02, max_queue=6, timeout=20), Metrics(), lambda text: None)
    made.start()
    yield made
    made.close()


def x():
    return [ex.ones(1)]


def test_what_comes_within_the_wait_runs_together(engine):
    runner = Held()
    runner.go.set()
    lane = engine.open_lane("m", runner)
    tickets = engine.submit(lane, [x(), x(), x()])
    for ticket in tickets:
        assert ticket.future.result(30)[0].tolist() == [1.0]
    assert runner.started == [3]


def test_no_more_run_together_than_allowed(engine):
    runner = Held()
    lane = engine.open_lane("m", runner)
    tickets = engine.submit(lane, [x() for _ in range(6)])
    runner.go.set()
    for ticket in tickets:
        ticket.future.result(30)
    assert runner.started == [4, 2]


def test_a_batch_waits_longer_while_others_come_where_a_step_takes_long():
    engine = Engine(Limits(max_wait=0.002), Metrics(), lambda text: None)
    lane = engine.open_lane("m", Held())

    def due_at(*arrivals):
        lane.waiting.clear()
        for arrived in arrivals:
            ticket = Ticket(x(), 1.0)
            ticket.arrived = arrived
            lane.waiting.append(ticket)
        return engine._due_at(lane)

    assert due_at() is None
    assert due_at(10.0) == due_at(10.0, 10.0015) == pytest.approx(10.002)
    lane.stepped_at, lane.step_seconds = 10.0, 0.1
    assert due_at(9.95) == pytest.approx(10.002)  # it came during the step, and may be the only one
    assert due_at(9.95, 10.01) == pytest.approx(10.012)
    assert due_at(9.95, 10.024) == pytest.approx(10.025)  # a quarter of the step, and no more
    lane.step_seconds = 0.0004
    assert due_at(9.95, 9.99) == pytest.approx(10.0001)
    assert due_at(*[9.0] * 64) == 0.0
    lane.runner.gathers = False
    assert due_at(9.0) == 0.0  # nobody gains by waiting


def test_a_full_queue_refuses_and_loses_nothing(engine):
    runner = Held()
    lane = engine.open_lane("m", runner)
    accepted = engine.submit(lane, [x() for _ in range(4)])
    while len(lane.waiting):  # until they have started
        pass
    accepted += engine.submit(lane, [x() for _ in range(6)])
    with pytest.raises(BadRequest, match="at most 6") as caught:
        engine.submit(lane, [x()])
    assert caught.value.status == 429
    assert caught.value.headers["Retry-After"] == "1"
    assert engine.numbers() == {"m": (6, 4)}
    runner.go.set()
    for ticket in accepted:
        ticket.future.result(30)


def test_closing_finishes_what_was_accepted_and_takes_nothing_new():
    engine = Engine(Limits(max_batch=2, max_wait=10.0), Metrics(), lambda text: None)
    engine.start()
    runner = Held()
    runner.go.set()
    lane = engine.open_lane("m", runner)
    tickets = engine.submit(lane, [x()])  # would wait for others for 10 s
    engine.close()
    assert tickets[0].future.done()
    assert not engine.is_alive
    with pytest.raises(BadRequest, match="shutting down"):
        engine.submit(lane, [x()])


def test_a_lane_that_leaves_finishes_first(engine):
    runner = Held()
    lane = engine.open_lane("m", runner)
    (ticket,) = engine.submit(lane, [x()])
    engine.leave(lane)
    runner.go.set()
    ticket.future.result(30)
    other = engine.open_lane("other", runner)
    engine.submit(other, [x()])[0].future.result(30)  # the engine has gone through its lanes once more
    assert "m" not in engine.numbers()


@pytest.mark.alone
def test_samples_that_waited_too_long_are_refused():
    engine = Engine(Limits(max_batch=1, max_wait=0.0, timeout=0.05), Metrics(), lambda text: None)
    engine.start()
    runner = Held()
    lane = engine.open_lane("m", runner)
    first, second = engine.submit(lane, [x(), x()])
    threading.Timer(0.2, runner.go.set).start()
    first.future.result(30)
    with pytest.raises(BadRequest, match=r"longer than 0\.05 s") as caught:
        second.future.result(30)
    assert caught.value.status == 504
    engine.close()


def test_a_runner_that_fails_stops_no_other_model(engine):
    class Broken(Held):
        def start(self, tickets):
            raise RuntimeError("no")

    broken, good = engine.open_lane("broken", Broken()), engine.open_lane("good", OneByOne(lambda tensors: tensors))
    (lost,) = engine.submit(broken, [x()])
    with pytest.raises(RuntimeError, match="no"):
        lost.future.result(30)
    assert engine.submit(good, [x()])[0].future.result(30)[0].tolist() == [1.0]
