"""Planning is done in pieces, so that no call has to wait for all of it; loops are planned when they are met again."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="plans are native code")

import extempo as ex
from extempo.backends.llvm.plans.background import settle
from extempo.backends.selection import native
from extempo.core import costs
from extempo.scheduling import pipeline
from extempo.scheduling.request import Plan, Request, forget, plan_in_pieces, prospect
from extempo.tracing import compiled_function
from extempo.tracing.policy import AlwaysPlan

from .taping import record, run_plan, same_bits

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)


def draw(*shape):
    return ex.tensor(np.random.default_rng([7, *shape]).normal(size=shape).astype(np.float32) * 0.4)


def in_a_row(x, w):
    return ((x @ w).tanh() * 2.0).sum()


def loop(x, w):
    for _ in range(20):
        x = (x @ w).tanh() + 0.25
    return x.sum()


@pytest.mark.parametrize("fn", [in_a_row, loop])
def test_a_plan_that_is_made_piece_by_piece_has_the_same_bits(fn):
    forget()
    x, w = draw(3, 4), draw(4, 4)
    tape, (result,) = record(fn, [x, w])
    known = prospect(Request(tape.steps, 0, tape.leaves, frozenset(), (tape.place(result),)))
    n_times, found = 0, None
    while found is None:
        found = plan_in_pieces(known, True, lambda: False)
        n_times += 1
    assert n_times > 3
    assert isinstance(found, Plan)
    same_bits(run_plan(found, tape, tape.steps)[0], fn(x, w).numpy(), "the result")


@pytest.fixture
def always_recorded(always_planned):
    forget()


def stats_of(name):
    (found,) = [f for f in ex.compile.stats()["functions"] if name in f["name"]]
    return found


def test_a_call_plans_for_a_limited_time_and_the_next_one_goes_on(always_recorded, monkeypatch):
    def in_pieces(x, w):
        return ((x @ w).tanh() * 2.0 + (x @ w).sigmoid()).sum()

    compiled = ex.compile(in_pieces)
    x, w = draw(3, 4), draw(4, 4)
    compiled(x, w)
    # Time for about three pieces in each call.
    monkeypatch.setattr(AlwaysPlan, "planning_per_step", lambda self: 3 * costs.PLANNING_PIECE / 7)
    n_calls = 0
    while not stats_of("in_pieces")["plans"]:
        same_bits(compiled(x, w).numpy(), in_pieces(x, w).numpy(), "the result")
        n_calls += 1
    assert n_calls > 2


def step(w, xs):
    h = xs[0]
    for x in xs:
        h = (x @ w + h).tanh()
    loss = (h * h).sum()
    loss.backward()
    return loss.detach().numpy()


def test_the_third_length_of_a_loop_runs_as_a_plan_at_once(always_recorded):
    def third_length(w, xs):
        return step(w, xs)

    compiled = ex.compile(third_length)
    replays = []
    for n in (12, 20, 15, 30, 31):
        results, gradients = [], []
        for fn in (compiled, third_length):
            w = draw(4, 4).requires_grad_()
            results.append(fn(w, [draw(3, 4) * (i + 1.0) for i in range(n)]))
            gradients.append(w.grad.numpy())
        same_bits(*results, f"the loss of length {n}")
        same_bits(*gradients, f"the gradient of length {n}")
        replays.append(stats_of("third_length")["replays"])
        settle()
    assert replays == [1, 1, 1, 1, 1] or replays == [1, 2, 2, 2, 2]  # the second had to wait for LLVM


def test_what_was_planned_of_loops_is_forgotten_with_the_rest(always_recorded):
    def forgotten(w, xs):
        return step(w, xs)

    w, compiled = draw(4, 4).requires_grad_(), ex.compile(forgotten)
    for n in (12, 20):
        compiled(w, [draw(3, 4)] * n)
    assert ex.compile.stats()["caches"]["loops of plans"][0] > 0
    ex.compile.clear()
    assert ex.compile.stats()["caches"]["loops of plans"][0] == 0


def test_calls_run_eagerly_until_kernels_are_due(always_recorded, monkeypatch, no_kernels_on_disk):
    def waited_for(x):
        return ((x.sin() + 1.0625).cos() * x).sin()

    said = []
    monkeypatch.setattr(pipeline, "WAITS", False)
    monkeypatch.setattr(AlwaysPlan, "due", lambda self, n_kernels: self.calls + 4)
    with monkeypatch.context() as listening:
        listening.setattr(compiled_function, "log", said.append)
        compiled, x = ex.compile(waited_for), draw(5, 3)
    for _ in range(5):
        same_bits(compiled(x).numpy(), waited_for(x).numpy(), "the result")
        settle()  # that they are there does not matter
    assert stats_of("waited_for")["eager_calls"] == stats_of("waited_for")["waiting_calls"] == 3
    assert len([text for text in said if "LLVM makes the kernels of a plan" in text]) == 1
    same_bits(compiled(x).numpy(), waited_for(x).numpy(), "the result")
    assert stats_of("waited_for")["plans"] == 1
    assert stats_of("waited_for")["eager_calls"] == 3
