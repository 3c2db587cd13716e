"""Segments: what of a stretch of a trace must stay, the cache of all plans, and the counts of one function."""

from __future__ import annotations

import gc
import weakref

import pytest

from extempo.core import costs
from extempo.core.trace_tree import BackwardCost, TraceNode
from extempo.scheduling.request import BackwardRequest
from extempo.tracing.policy import new_policy
from extempo.tracing.segment import Counters, PlanCache, Segment, first_segment

from .agreement import draw, needs_native_code
from .by_hand import new_executor, tracing


def traced(fn, *args):
    with tracing(new_executor()) as executor:
        return executor.trace, fn(*args)


def segment_of(trace, **kwargs):
    return first_segment(trace, 0, trace.live_from(0), TraceNode(), **kwargs)


def new_segment():
    return Segment((), [], [], TraceNode(), None, frozenset())


def new_counters(said=None):
    return Counters("f", (lambda text: None) if said is None else said.append, new_policy())


@needs_native_code
def test_of_untracked_ops_only_what_is_live_stays():
    trace, _kept = traced(lambda x: x.exp().neg(), draw(0, 3))
    segment = segment_of(trace)
    assert (segment.wanted, segment.live, segment.tracked) == ((1,), [1], [])
    assert segment.frees_all


@needs_native_code
def test_of_tracked_ops_what_their_gradients_read_stays_too():
    trace, _kept = traced(lambda x: x.exp().neg().tanh(), draw(0, 3, grad=True))
    segment = segment_of(trace)
    assert (segment.wanted, segment.live, segment.tracked) == ((0, 2), [2], [2])  # exp and tanh read their results


@needs_native_code
def test_of_a_view_its_base_stays():
    trace, _kept = traced(lambda x: x.exp().t(), draw(0, 2, 3))
    assert segment_of(trace).wanted == (0,)


@needs_native_code
def test_a_backward_frees_what_it_passes_unless_the_graph_is_kept():
    trace, _kept = traced(lambda x: x.exp().sum(), draw(0, 3, grad=True))
    request = BackwardRequest(1, -2, None)
    freeing, keeping = segment_of(trace, backward=request), segment_of(trace, backward=request, keep=True)
    assert (freeing.wanted, freeing.freed) == ((1,), {0, 1})
    assert (keeping.wanted, keeping.freed) == ((0, 1), frozenset())
    asking = segment_of(trace, backward=BackwardRequest(1, -2, (-1,)))
    assert (asking.wanted, asking.freed) == ((1,), {0, 1})


@needs_native_code
def test_nothing_live_is_nothing_to_keep():
    trace, _ = traced(lambda x: x.exp() is None, draw(0, 3))
    segment = segment_of(trace)
    assert (segment.wanted, segment.live) == ((), [])


@pytest.mark.parametrize("name", ["plan", "waiting", "reason", "resizing"])
def test_a_segment_has_repeated_if_it_was_seen_twice_or_has_more_than_a_first_sight(name):
    segment = new_segment()
    assert not segment.has_repeated
    segment.seen = 1
    assert not segment.has_repeated
    setattr(segment, name, "something")
    assert segment.has_repeated
    setattr(segment, name, None)
    segment.seen = 2
    assert segment.has_repeated


def test_the_cache_of_plans_lets_the_oldest_quarter_go_and_keeps_none_alive(monkeypatch):
    cache = PlanCache()
    monkeypatch.setattr(PlanCache, "limit", 4)
    segments = [new_segment() for _ in range(5)]
    for segment in segments:
        segment.plan = "a plan"
        cache.add(segment)
    assert [segment.plan is None for segment in segments] == [True, False, False, False, False]
    assert (len(cache), cache.evicted) == (4, 1)
    gone = weakref.ref(segments.pop())
    del segment
    gc.collect()
    assert gone() is None
    assert len(cache) == 3


def test_a_reason_is_logged_once_and_counted_always():
    said = []
    counters = new_counters(said)
    for _ in range(3):
        counters.close("a hook")
        counters.no_plan("no kernel")
    assert counters.closed == {"a hook": 3}
    assert counters.unplannable == {"no kernel": 3}
    assert len(said) == 2


def test_what_is_noted_is_what_came_since():
    counters = new_counters()
    before = counters.noted()
    counters.new_steps += 3
    counters.wishes += 1
    counters.spent(0.5)
    done = counters.noted().since(before)
    assert (done.new_steps, done.n_learnt, done.planning_seconds, done.given_up) == (3, 4, 0.5, 0)


def test_nodes_of_a_trace_that_waits_for_a_plan_are_an_investment():
    counters = new_counters()
    counters.materialised(2, is_learning=True)
    assert counters.learning_seconds == costs.CLOSE + 2 * costs.MATERIALISED_NODE
    assert counters.traced_seconds == 0.0
    counters.materialised(2, is_learning=False)
    assert counters.traced_seconds == counters.learning_seconds


def test_a_backward_without_a_plan_takes_eager_time_and_says_what_a_plan_would_save():
    counters = new_counters()
    counters.ran_without_plan(BackwardCost(eager=5.0, planned=2.0))
    assert (counters.eager_seconds, counters.traced_seconds, counters.plannable_seconds) == (5.0, 5.0, 3.0)
