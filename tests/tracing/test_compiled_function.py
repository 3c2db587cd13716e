"""A compiled function: what its calls have in common, executors that serve again, and what it says and forgets."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import extempo as ex
from extempo.core.context import CONTEXT
from extempo.core.trace_tree import TraceNode
from extempo.tracing import compiled_function
from extempo.tracing.compiled_function import CompiledFunction, kind_of_call

from .agreement import draw, needs_native_code


def test_calls_are_of_a_kind_if_their_arguments_are_of_the_same_types():
    x, y, wide = draw(0, 3), draw(1, 3), draw(0, 4)
    assert kind_of_call((x, 2), {}) == kind_of_call((y, 3), {})
    for other in ((wide, 2), (x, 2.0), (x.double(), 2), (x,), (x, 2, None)):
        assert kind_of_call((x, 2), {}) != kind_of_call(other, {})
    assert kind_of_call((x,), {"scale": 2}) == kind_of_call((y,), {"scale": 3})
    assert kind_of_call((x,), {"scale": 2}) != kind_of_call((x,), {"shift": 2})


def test_of_a_list_the_length_and_the_first_members_count():
    tensors = [draw(k, 3) for k in range(6)]
    assert kind_of_call((tensors,), {}) == kind_of_call(([*tensors[:5], "other"],), {})
    assert kind_of_call((tensors,), {}) != kind_of_call((tensors[:5],), {})
    assert kind_of_call((tensors,), {}) != kind_of_call((tuple(tensors),), {})
    assert kind_of_call(([],), {}) == kind_of_call(([],), {})
    hash(kind_of_call((tensors,), {"names": ("a", "b")}))


@needs_native_code
def test_an_executor_serves_the_next_call_if_nothing_of_the_last_one_is_left():
    seen = []

    def fn(x):
        seen.append(id(CONTEXT.get().recording))
        return x * 2.0

    made = CompiledFunction(fn, "f")
    for _ in range(3):
        made.run(draw(0, 3))
    assert len(set(seen)) == 1
    assert len(made._spare) == 1


@needs_native_code
def test_an_executor_whose_trace_has_escaped_does_not_serve_again():
    w = draw(0, 3, grad=True)
    made = CompiledFunction(lambda x: x * w, "f")
    result = made.run(draw(1, 3))
    assert made._spare == []
    assert result._source.is_left
    result.sum().backward()
    assert np.array_equal(w.grad.numpy(), draw(1, 3).numpy())


@needs_native_code
def test_a_function_and_its_executors_do_not_keep_each_other_alive():
    gc.collect()
    gc.disable()
    try:
        made = CompiledFunction(lambda x: x + 1.0, "f")
        made.run(draw(0, 3))
        gone = weakref.ref(made)
        del made
        assert gone() is None
    finally:
        gc.enable()


@needs_native_code
def test_what_is_forgotten_is_learnt_again():
    made = CompiledFunction(lambda x: x.exp() + 1.0, "f")
    for _ in range(3):
        made.run(draw(0, 3))
    before = made.counters.new_steps
    assert before == 2
    made.forget()
    assert made.root.edges() == TraceNode().edges()
    assert made._n_new() == 0
    assert made.run(draw(0, 3)).tolist() == (draw(0, 3).exp() + 1.0).tolist()
    assert made.counters.new_steps == 2 * before


@pytest.mark.parametrize("within", ["eager", "another function", "vmap"])
def test_a_call_steps_aside_where_someone_else_runs_the_ops(within):
    made = CompiledFunction(lambda x: x * 2.0, "f")
    x = draw(0, 3)
    if within == "eager":
        with ex.eager():
            made.run(x)
    elif within == "another function":
        CompiledFunction(lambda x: made.run(x), "outer").run(x)
    else:
        ex.func.vmap(made.run)(x)
    assert made.traced_calls == 0


def test_an_error_leaves_nobody_tracing():
    def fn(x):
        raise ValueError("no")

    before = CONTEXT.get()
    with pytest.raises(ValueError, match="no"):
        CompiledFunction(fn, "f").run(draw(0, 3))
    assert CONTEXT.get() is before


def test_what_is_logged_goes_to_standard_error_for_who_asked(monkeypatch, capsys):
    compiled_function.log("nothing")
    monkeypatch.setattr(compiled_function, "_LOG", True)
    compiled_function.log("f: evicted")
    assert capsys.readouterr().err == "extempo compile: f: evicted\n"
