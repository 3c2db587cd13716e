"""From a recorded call to its script: every flush keeps what later actions read, and slots are let go when read."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.tracing.static.backwards import PlannedBackward
from extempo.tracing.static.script import Effect
from extempo.tracing.static.static_function import StaticFunction
from extempo.tracing.static.trace_actions import Extend, FlushNow, Leave

from ..agreement import draw, needs_native_code

pytestmark = needs_native_code


def actions_of(fn, *args):
    """What a later call does."""
    made = StaticFunction(fn, "fn", print, steps_aside=False)
    made.run(*args)
    (script,) = made._scripts
    return script._actions


def kinds(actions):
    return [type(action) for action in actions]


def test_a_result_without_a_graph_is_one_stretch_and_one_flush():
    actions = actions_of(lambda x: (x * 2.0).tanh() + x, ex.ones(3))
    assert kinds(actions) == [Extend, FlushNow]
    (handle,) = actions[1].handles
    assert handle.place == 2  # nobody reads what is on the way


def test_a_value_that_a_later_write_reads_is_kept_by_the_flush_before_it():
    buffer = ex.zeros(3)

    def fn(x):
        y = x * 2.0
        buffer.copy_(y.exp())
        return y + buffer

    actions = actions_of(fn, ex.ones(3))
    flush = actions[1]
    assert type(flush) is FlushNow
    assert len(flush.found.wanted) == 2  # what is written, and y


def test_a_backward_is_planned_with_its_forward():
    w = draw(0, 3, grad=True)

    def fn(x):
        w.grad = None
        (x * w).tanh().sum().backward()

    actions = actions_of(fn, ex.ones(3))
    (backward,) = [action for action in actions if isinstance(action, PlannedBackward)]
    assert backward.finds_all
    assert FlushNow not in kinds(actions)


def test_a_backward_that_no_plan_can_do_is_what_it_was(monkeypatch):
    monkeypatch.setattr(PlannedBackward, "finds_all", False)
    w = draw(0, 3, grad=True)

    def fn(x):
        w.grad = None
        (x * w).tanh().sum().backward()

    *_, flush, backward = actions_of(fn, ex.ones(3))
    assert type(flush) is FlushNow
    assert (type(backward), backward.name) == (Effect, "backward")


def test_tracked_results_stay_on_the_tape_for_a_backward_outside():
    w = draw(0, 3, grad=True)
    assert kinds(actions_of(lambda x: (x * w).sum(), ex.ones(3)))[-1] is Leave


@pytest.mark.parametrize("is_returned", [False, True])
def test_slots_are_let_go_after_their_last_reader_unless_they_are_returned(is_returned):
    buffer = ex.zeros(3)

    def fn(x):
        y = x * 2.0
        buffer.copy_(y)
        buffer.add_(1.0)
        return y if is_returned else None

    actions = actions_of(fn, ex.ones(3))
    stretch = next(action for action in actions if isinstance(action, Extend))
    (handle,) = stretch.handles
    dropping = [action for action in actions if handle.slot in action.drops]
    assert [type(action) for action in dropping] == ([] if is_returned else [Effect])
