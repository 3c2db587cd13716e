"""The trace tree: edges and nodes, what a node remembers, and what a traced op says of itself."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.core import costs, trace_tree
from extempo.core.op import REGISTRY
from extempo.core.trace_tree import NO_EVENTS, NUMBER, BackwardCost, LeafKind, TraceNode, TraceOp, ViewLayout
from extempo.core.types import TensorType
from extempo.dispatch.dispatcher import signature_of

VECTOR = TensorType((3,), ex.float32)


def traced(name="tanh", refs=(-1,), kinds=(VECTOR,), place=0, needs=0, grad=True, leaves=(), **parts):
    op = REGISTRY[name]
    signature = signature_of(op, (), kinds, {})
    given = {"view": None, "baked": None, "where": None, "cut": None, **parts}
    return TraceOp(op, {}, refs, kinds, signature, place, needs, grad, leaves, **given)


def test_an_edge_leads_to_a_node_that_counts_what_it_adds():
    root = TraceNode()
    leaf = LeafKind(VECTOR, None, True)
    step = root.add(traced("mul", (-1, NUMBER), (VECTOR, float), leaves=(leaf,)))
    node = step.following
    assert (node.n_places, node.n_leaves, node.n_numbers, node.n_run) == (1, 1, 1, 0)
    assert node.steps() == [step]
    assert node.eager_seconds > node.planned_seconds > 0.0


def test_the_edge_that_was_taken_last_comes_first_and_none_is_lost():
    root = TraceNode()
    first, second, third = (root.add(traced(name)) for name in ("tanh", "exp", "neg"))
    assert root.edges() == [third, first, second]
    root.take(first)
    assert root.edges() == [first, second, third]
    root.take(first)
    assert root.edges() == [first, second, third]
    assert TraceNode().edges() == ()


def test_a_node_remembers_so_many_edges_and_no_more(monkeypatch):
    monkeypatch.setattr(trace_tree, "MOST_EDGES", 2)
    root = TraceNode()
    steps = [root.add(traced()) for _ in range(5)]
    assert root.edges() == [steps[4], steps[2], steps[3]]


def test_the_oldest_event_is_forgotten_when_there_are_too_many(monkeypatch):
    monkeypatch.setattr(trace_tree, "MOST_EVENTS", 2)
    root, other = TraceNode(), TraceNode()
    for key in "abc":
        assert root.remember(key, key.upper()) == key.upper()
    assert root.events == {"b": "B", "c": "C"}
    assert other.events is NO_EVENTS
    assert NO_EVENTS == {}


def test_after_a_segment_everything_has_run_and_after_a_close_the_trace_is_empty():
    node = TraceNode().add(traced()).following
    run = node.after_flush()
    assert (run.n_run, run.n_places) == (1, 1)
    assert run.steps() == node.steps()
    assert run.planned_seconds == node.planned_seconds + costs.PLAN_RUN
    cost = BackwardCost.of(node.steps())
    empty = node.new_trace(cost)
    assert (empty.n_run, empty.n_places, empty.steps()) == (0, 0, [])
    assert empty.eager_seconds == node.eager_seconds + cost.eager


@pytest.mark.parametrize(
    ("needs", "grad", "name", "expected"),
    [(1, True, "tanh", True), (0, True, "tanh", False), (1, False, "tanh", False), (1, None, "tanh", False)],
)
def test_an_op_is_tracked_if_an_input_is_and_gradients_are_traced(needs, grad, name, expected):
    assert traced(name, needs=needs, grad=grad).tracked is expected


def test_gradients_end_at_a_detach():
    assert not traced("detach", needs=1).tracked


def test_an_op_that_needs_no_gradient_reads_nothing_for_one():
    assert traced("tanh", needs=0).read_positions == ()
    assert traced("tanh", needs=1).read_positions == (0,)  # its result
    assert traced("exp", needs=1, grad=False).read_positions == traced("exp", needs=1).read_positions


def test_strides_are_those_of_the_view_or_of_the_order():
    matrix = TensorType((2, 3), ex.float32)
    assert traced(kinds=(matrix,)).strides is None
    assert traced(kinds=(matrix,), order=(1, 0)).strides == (4, 8)
    assert traced(kinds=(matrix,), view=ViewLayout((0, 4), 8)).strides == (0, 4)


def test_the_same_op_of_another_size_keeps_all_but_types():
    step = traced("tanh", needs=1)
    larger = TensorType((9,), ex.float32)
    made = step.resized({}, (larger,), larger, (), None, lambda s: signature_of(s.op, (), s.kinds, s.attrs))
    assert made.type == larger
    assert (made.op, made.refs, made.needs, made.tracked, made.packed) == (step.op, step.refs, 1, True, step.packed)
    assert made.signature.type == larger
    assert made.signature is made.signature
