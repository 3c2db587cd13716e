"""The execution context: who runs ops and whether they are tracked, for each thread, task and generator."""

from __future__ import annotations

import asyncio
import threading

import pytest

import extempo as ex
from extempo.core.context import CONTEXT, ExecutionContext, Swap, end_trace, set_context, switch


def test_a_context_with_changes_is_another_object():
    before = CONTEXT.get()
    other = before.but(grad=False, quiet=True)
    assert (other.grad, other.quiet, other.inference) == (False, True, before.inference)
    assert before.grad
    assert other is not before


def test_a_block_puts_back_what_held_before_also_when_it_raises():
    before = CONTEXT.get()
    inner = before.but(quiet=True)
    with Swap(inner):
        assert CONTEXT.get() is inner
    assert CONTEXT.get() is before
    with pytest.raises(ZeroDivisionError), Swap(inner):
        1 / 0  # noqa: B018 - raising is what it is for
    assert CONTEXT.get() is before


def test_a_decorated_function_may_call_itself():
    @ex.no_grad()
    def depth(n):
        assert not ex.is_grad_enabled()
        return 0 if n == 0 else 1 + depth(n - 1)

    assert depth(3) == 3
    assert ex.is_grad_enabled()


def test_every_form_of_a_decorator_decorates():
    def enabled():
        return ex.is_grad_enabled(), ex.is_inference_mode_enabled()

    assert ex.no_grad(enabled)() == ex.no_grad()(enabled)() == (False, False)
    assert ex.inference_mode(enabled)() == ex.inference_mode()(enabled)() == (False, True)
    with ex.no_grad():
        assert ex.enable_grad(enabled)() == (True, False)
        assert ex.inference_mode(False)(enabled)() == (True, False)
    assert ex.set_grad_enabled(False)(enabled)() == (False, False)
    assert enabled() == (True, False)


def test_a_generators_context_holds_while_it_runs_and_not_while_its_consumer_does():
    @ex.no_grad()
    def generator():
        got = []
        try:
            while True:
                got.append((yield ex.is_grad_enabled()))
        except KeyError:
            yield "caught", ex.is_grad_enabled()
        return got

    run = generator()
    assert next(run) is False
    assert ex.is_grad_enabled()
    assert run.send("sent") is False
    assert run.throw(KeyError) == ("caught", False)
    with pytest.raises(StopIteration) as end:
        next(run)
    assert end.value.value == ["sent"]
    assert ex.is_grad_enabled()


def test_threads_and_tasks_have_contexts_of_their_own():
    found = []
    with ex.no_grad():
        thread = threading.Thread(target=lambda: found.append(ex.is_grad_enabled()))
        thread.start()
        thread.join()
    assert found == [True]

    async def task(enabled):
        with ex.set_grad_enabled(enabled):
            await asyncio.sleep(0)
            return ex.is_grad_enabled()

    async def both():
        return await asyncio.gather(task(False), task(True))

    assert asyncio.run(both()) == [False, True]


def test_set_context_stays_until_it_is_set_again():
    before = CONTEXT.get()
    try:
        set_context(before.but(inference=True))
        assert ex.is_inference_mode_enabled()
    finally:
        set_context(before)
    assert not ex.is_inference_mode_enabled()


def test_a_trace_is_closed_before_someone_looks_at_every_op():
    closed = []

    class Recording:
        def close(self, why):
            closed.append(why)

    end_trace(CONTEXT.get())
    end_trace(ExecutionContext(True, False, None, False, recording=Recording()))
    assert len(closed) == 1
    assert "vmap" in closed[0]


def test_one_switch_can_be_entered_again():
    quiet = switch(quiet=True)
    for _ in range(2):
        with quiet.again():
            assert CONTEXT.get().quiet
        assert not CONTEXT.get().quiet
