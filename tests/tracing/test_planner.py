"""Getting a segment its plan: if that is decided, in pieces, once, and with a reason where there is none."""

from __future__ import annotations

import pytest

from extempo.core.trace_tree import TraceNode
from extempo.scheduling.request import Unplannable
from extempo.tracing import planner
from extempo.tracing.planner import SegmentPlanner, op_by_op
from extempo.tracing.policy import new_policy
from extempo.tracing.segment import PLANS, Counters, first_segment

from .agreement import draw, needs_native_code
from .by_hand import new_executor, tracing

pytestmark = needs_native_code


class Wishes:
    """A segment of two ops, and a planner that decides as it is told."""

    def __init__(self, decision=True):
        self.asked = []
        self.decision = decision
        self.counters = Counters("f", lambda text: None, new_policy())
        self.planner = SegmentPlanner(self.counters, self.decide)
        with tracing(new_executor()) as executor:
            self.result = draw(0, 3).exp().neg()
        self.trace = executor.trace
        self.state = self.trace.cursor
        self.segment = first_segment(self.trace, 0, self.trace.live_from(0), TraceNode())

    def decide(self, segment, n_ops, is_range=False, is_loop=False):
        self.asked.append(n_ops)
        return self.decision

    def wish(self):
        self.planner.wish_for_plan(self.segment, self.trace, self.state)

    def plan(self):
        self.planner.plan(self.segment, self.trace, self.state)


def test_a_plan_is_made_if_that_is_decided():
    wishes = Wishes()
    wishes.wish()
    assert wishes.asked == [2]
    assert wishes.segment.plan is not None
    assert wishes.segment in set(PLANS)
    assert (wishes.counters.plans, wishes.counters.wishes) == (1, 1)
    assert wishes.counters.planning_seconds > 0.0


def test_and_not_otherwise():
    wishes = Wishes(decision=False)
    wishes.wish()
    assert (wishes.asked, wishes.segment.plan, wishes.counters.plans) == ([2], None, 0)
    assert not op_by_op(wishes.segment, 2)


def test_a_call_that_has_planned_enough_does_not_even_ask():
    wishes = Wishes()
    wishes.counters.patience = lambda n_ops: 0.0
    wishes.wish()
    assert (wishes.asked, wishes.segment.plan, wishes.counters.wishes) == ([], None, 1)


def test_what_cannot_be_planned_has_a_reason_and_is_not_tried_again(monkeypatch):
    wishes = Wishes()
    monkeypatch.setattr(planner, "plan_in_pieces", lambda *args: Unplannable("it is too odd"))
    wishes.wish()
    assert wishes.segment.reason == "it is too odd"
    assert wishes.counters.unplannable == {"it is too odd": 1}
    wishes.wish()
    assert wishes.asked == [2]


def test_a_plan_that_is_begun_is_gone_on_with_and_not_decided_anew(monkeypatch):
    wishes = Wishes()
    plan_in_pieces, begun = planner.plan_in_pieces, []

    def interrupted(known, wait, goes_on):
        begun.append(known)
        return None if len(begun) == 1 else plan_in_pieces(known, wait, goes_on)

    monkeypatch.setattr(planner, "plan_in_pieces", interrupted)
    wishes.wish()
    assert wishes.segment.waiting is begun[0]
    assert wishes.segment.plan is None
    wishes.wish()
    assert begun[0] is begun[1]
    assert wishes.asked == [2]
    assert (wishes.segment.waiting, wishes.segment.plan is None) == (None, False)


@pytest.mark.parametrize("seconds", [0.0, 1e9])
def test_pieces_are_made_as_long_as_there_is_time(seconds):
    time = planner._PlanningTime(seconds)
    assert time.goes_on() == (seconds > 0.0)
    assert time.seconds > 0.0


def test_a_plan_that_may_take_its_time_is_there_at_once():
    wishes = Wishes(decision=False)
    wishes.counters.patience = lambda n_ops: 0.0
    wishes.plan()
    assert wishes.segment.plan is not None
    assert wishes.asked == []
