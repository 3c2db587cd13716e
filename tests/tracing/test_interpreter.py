"""Replaying a segment: eager's values, nothing kept that is not asked for, and what an op that fails leaves behind."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.core.trace_tree import TraceNode
from extempo.errors import ShapeError
from extempo.tracing import interpreter
from extempo.tracing.interpreter import FailedOp, arguments_of, array_at, replay
from extempo.tracing.segment import first_segment

from .agreement import draw, needs_native_code
from .by_hand import new_executor, tracing

pytestmark = needs_native_code


def fail(*args):
    raise AssertionError(args)


def traced(fn, *args):
    """(The trace of a function, its results): nothing has run yet."""
    with tracing(new_executor()) as executor:
        return executor.trace, fn(*args)


def replayed(trace, fail=fail):
    state = trace.cursor
    segment = first_segment(trace, 0, trace.live_from(0), TraceNode())
    return segment, replay(segment, trace, state, fail)


def test_a_replay_has_the_values_of_eager_mode():
    x, y = draw(0, 3, 4), draw(1, 4)

    def fn(x, y):
        return (x * 2.0 + y).tanh(), x.max(dim=1)

    trace, kept = traced(fn, x, y)
    segment, values = replayed(trace)
    total, (largest, places) = fn(x, y)
    assert [trace.type_of(place).shape for place in segment.wanted] == [(3, 4), (3,), (3,)]
    for found, expected in zip(values, (total, largest, places), strict=True):
        assert found.tobytes() == expected.numpy().tobytes()
    assert kept[0]._data is None  # that is for the executor to do


def test_what_is_not_needed_any_more_is_dropped_on_the_way(monkeypatch):
    trace, _kept = traced(lambda x: x.exp().neg().tanh(), draw(0, 3))
    n_values = []
    run_step = interpreter._run_step

    def counted(trace, step, values):
        run_step(trace, step, values)
        n_values.append(len(values))

    monkeypatch.setattr(interpreter, "_run_step", counted)
    replayed(trace)
    assert n_values == [1, 2, 2]


def test_an_error_is_told_with_the_values_before_it_and_raised(monkeypatch):
    trace, _kept = traced(lambda x: (x.exp(), x.exp().neg()), draw(0, 3))
    run_step, told = interpreter._run_step, []

    def failing(trace, step, values):
        if step.op.name == "neg":
            raise MemoryError("none left")
        run_step(trace, step, values)

    monkeypatch.setattr(interpreter, "_run_step", failing)
    with pytest.raises(MemoryError, match="none left"):
        replayed(trace, lambda *args: told.append(args))
    ((where, first, step, values, error),) = told
    assert (where, first, step.op.name, sorted(values)) == (trace, 0, "neg", [0, 1])
    assert str(error) == "none left"


def test_arguments_are_values_leaves_numbers_and_what_is_baked_in():
    x = draw(0, 4, grad=True)
    trace, _kept = traced(lambda x: (x * 2.5).exp()[1:3], x)
    multiplied, exponential, part = trace.makers
    assert arguments_of(trace, multiplied, {})[0] is x._data
    assert arguments_of(trace, multiplied, {})[1] == 2.5
    assert arguments_of(trace, exponential, {0: "value"}) == ["value"]
    assert arguments_of(trace, part, {1: "base"})[0] == "base"
    assert part.baked is not None


def test_the_array_of_a_view_is_made_from_that_of_its_base():
    trace, _kept = traced(lambda x: x.exp().t(), draw(0, 2, 3, grad=True))
    _, (base,) = replayed(trace)
    assert array_at(trace, 1, {0: base}).base is not None
    assert array_at(trace, 1, {0: base}).tobytes() == base.T.tobytes()


def test_a_failed_op_raises_its_error_each_time_it_is_asked():
    failed = FailedOp(ShapeError("no such shape"))
    for _ in range(2):
        with pytest.raises(ShapeError, match="no such shape") as caught:
            failed.read(ex.ones(1))
        assert caught.value is not failed.error
