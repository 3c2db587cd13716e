"""What a block changes is put back, also when Ctrl-C comes as the block is entered or left."""

from __future__ import annotations

import gc
import operator
import sys
from collections import deque
from contextlib import ExitStack, suppress
from contextvars import ContextVar
from functools import partial

import pytest

import extempo as ex
from extempo import autograd, nn
from extempo.amp import autocasting
from extempo.autograd import engine
from extempo.core import effect_hooks
from extempo.core.context import CONTEXT
from extempo.core.interrupts import Scope, Undone, block, certainly, guarded
from extempo.nn.utils import parametrize
from extempo.random import use_generator
from extempo.train.modes import evaluating

interrupt_main = pytest.importorskip("_thread").interrupt_main


@pytest.fixture(autouse=True)
def _nobody_else_hears_the_collector():
    """Hypothesis measures collections by a callback in Python, in which CPython would lose an interrupt."""
    before, gc.callbacks[:] = list(gc.callbacks), []
    yield
    gc.callbacks[:] = before


MODEL = nn.Sequential(nn.Linear(1, 1), nn.Dropout(0.5))
BLOCKS = {
    "no_grad": ex.no_grad,
    "enable_grad": ex.enable_grad,
    "inference_mode": ex.inference_mode,
    "eager": ex.eager,
    "set_grad_enabled": partial(ex.set_grad_enabled, False),
    "saved_tensors_hooks": partial(autograd.graph.saved_tensors_hooks, id, id),
    "detect_anomaly": autograd.detect_anomaly,
    "set_detect_anomaly": partial(autograd.set_detect_anomaly, True),
    "autocast": partial(ex.amp.autocast, "cpu", ex.float16),
    "use_generator": partial(use_generator, ex.Generator()),
    "fork_rng": ex.random.fork_rng,
    "cached": parametrize.cached,
    "flags": partial(ex.backends.cudnn.flags, enabled=False),
    "evaluating": partial(evaluating, MODEL),
}
BLOCKS["watch"] = partial(effect_hooks.EffectHooks, lambda: [(Looked, "at", 2)])


class Looked:
    at = 1


def state():
    """All that blocks change."""
    found = [CONTEXT.get(), engine.BackwardEngine, autocasting._STATE.get(), ex.random.current_generator(), Looked.at]
    found += [ex.get_rng_state().tolist(), parametrize._cache.get(), ex.backends.cudnn.enabled, len(effect_hooks._on)]
    return found + [module.training for module in MODEL.modules()]


def just_before(call, *args):
    """Make an interrupt wait when the call begins: C code does one after the other, and looks for no signal."""
    deque(map(operator.call, [interrupt_main, partial(call, *args)]), maxlen=0)


@pytest.mark.parametrize("make", BLOCKS.values(), ids=list(BLOCKS))
def test_an_interrupt_on_leaving_a_block_finds_everything_put_back(make):
    before = state()
    made = make()
    made.__enter__()
    if make is ex.random.fork_rng:
        ex.rand(1)
    with pytest.raises(KeyboardInterrupt):
        just_before(made.__exit__, None, None, None)
    assert state() == before


@pytest.mark.parametrize("make", BLOCKS.values(), ids=list(BLOCKS))
def test_an_interrupt_on_entering_a_block_finds_nothing_changed(make):
    before = state()
    made = make()
    with pytest.raises(KeyboardInterrupt):
        just_before(made.__enter__)
    assert state() == before


@pytest.mark.parametrize("make", BLOCKS.values(), ids=list(BLOCKS))
@pytest.mark.parametrize("side", ["__enter__", "__exit__"])
def test_an_interrupt_after_any_call_of_a_c_function_leaves_nothing_behind(make, side):
    """That is where CPython looks for signals, and where it tells a profiler, which raises one here."""
    before, at, raised = state(), 0, True
    while raised:
        made = make()
        if side == "__enter__":
            raised = raises_after(at, made.__enter__)
        else:
            made.__enter__()
            raised = raises_after(at, made.__exit__, None, None, None)
        if side == "__enter__" and not raised:
            made.__exit__(None, None, None)
        assert state() == before, f"after call {at}"
        at += 1


def raises_after(n_calls, call, *args):
    """Interrupt it after so many calls of C functions; false if there are fewer."""
    left, here = n_calls, sys._getframe().f_code

    def profile(frame, event, arg):
        nonlocal left
        if event == "c_return" and frame.f_code is not here:
            left -= 1
            if left == -1:
                raise KeyboardInterrupt

    try:
        sys.setprofile(profile)
        call(*args)
    except KeyboardInterrupt:
        pass
    finally:
        sys.setprofile(None)
    return left < 0


def test_a_mode_is_put_back_where_one_object_is_entered_twice():
    once, outside = ex.no_grad(), CONTEXT.get()
    with once:
        inside = CONTEXT.get()
        once.__enter__()
        with pytest.raises(KeyboardInterrupt):
            just_before(once.__exit__, None, None, None)
        assert CONTEXT.get() is inside
    assert CONTEXT.get() is outside


def test_blocks_go_into_an_exit_stack_and_around_functions():
    with ExitStack() as stack:
        stack.enter_context(ex.no_grad())
        stack.enter_context(ex.random.fork_rng())
        assert not ex.is_grad_enabled()
    assert ex.is_grad_enabled()

    @ex.set_grad_enabled(False)
    def inside():
        return ex.is_grad_enabled()

    assert ex.is_grad_enabled()
    assert not inside()


def test_errors_pass_through_blocks_as_through_those_of_contextlib():
    @block
    def suppressing():
        with suppress(KeyError):
            yield 3

    with suppressing() as given:
        raise KeyError
    assert given == 3
    with pytest.raises(ValueError, match="this"), suppressing():
        raise ValueError("this")


def test_what_is_put_back_is_put_back_again_after_an_interrupt():
    done = []
    with pytest.raises(KeyboardInterrupt):
        just_before(certainly, done.append, 1)
    assert done == [1]


def test_a_guarded_function_must_begin_with_something_to_try():
    with pytest.raises(AssertionError, match="must begin with try"):

        @guarded
        def late():
            found = [str(x) for x in range(3)]
            try:
                return found
            finally:
                found.clear()


def test_a_scope_may_be_entered_again():
    class Deeper(Scope[int]):
        _variable = ContextVar("depth", default=0)

        def _inner(self, before):
            return before + 1

    scope = Deeper()
    with scope, scope:
        assert Deeper._variable.get() == 2
    assert Deeper._variable.get() == 0


def test_a_block_that_fails_half_way_is_undone():
    class Half(Undone):
        steps = ()

        def _begin(self):
            self.steps += ("begun",)
            raise KeyboardInterrupt

        def _end(self):
            self.steps += ("undone",)

    half = Half()
    with pytest.raises(KeyboardInterrupt):
        half.__enter__()
    assert half.steps == ("begun", "undone")
    half.__exit__(None, None, None)
    assert half.steps[-1] == "undone"
