"""Checks for nan that a guard puts in place: what is an op's own doing, and that nothing is left behind."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.batching.run import BatchExecutor
from extempo.dispatch import dispatcher
from extempo.errors import NonFiniteError
from extempo.inspect import checking
from extempo.tracing import executor


def test_a_nan_is_made_of_tensors_without_any():
    nan = float("nan")
    assert checking.is_made((ex.ones(2), 1.0))
    assert not checking.is_made((ex.tensor([nan]), 1.0))
    assert not checking.is_made((ex.ones(2), nan))
    assert not checking.is_made((1.0, 2))  # nothing was computed


def test_nothing_is_looked_at_while_paused():
    zero = ex.zeros(2)
    with ex.inspect.guard():
        with checking.paused():
            zero / zero
        with pytest.raises(NonFiniteError):
            zero / zero


def test_what_was_exchanged_is_put_back():
    places = [(dispatcher, "run_eager"), (executor, "replay"), (executor.TraceExecutor, "_flush")]
    places += [(executor, "_flush_known"), (BatchExecutor, "_fill")]
    before = [vars(owner)[name] for owner, name in places]
    with ex.inspect.guard():
        assert all(vars(owner)[name] is not b for (owner, name), b in zip(places, before, strict=True))
    assert [vars(owner)[name] for owner, name in places] == before
    assert (ex.zeros(2) / ex.zeros(2)).isnan().all()


def test_of_a_user_s_function_the_op_within_is_named():
    class Root(ex.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.sqrt()

        @staticmethod
        def backward(ctx, g):
            return g

    with pytest.raises(NonFiniteError, match="guard: sqrt"), ex.inspect.guard():
        Root.apply(ex.full((2,), -1.0, requires_grad=True))
