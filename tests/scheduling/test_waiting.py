"""Nobody waits for LLVM: until the kernels of a plan are compiled its steps run op by op, with the same bits."""

from __future__ import annotations

import threading

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="plans are native code")

import extempo as ex
from extempo.backends.llvm.plans import background, runtime
from extempo.backends.llvm.plans.background import settle
from extempo.backends.selection import native
from extempo.scheduling import pipeline
from extempo.scheduling import request as scheduling_request
from extempo.scheduling.request import Plan, Request, Unplannable, can_plan, plan

from .taping import check, record, run_plan, same_bits

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)


@pytest.fixture
def in_the_background(monkeypatch, no_kernels_on_disk):
    monkeypatch.setattr(pipeline, "WAITS", False)


@pytest.fixture
def held_back(monkeypatch):
    """The thread that compiles kernels does not, until it is let."""
    may = threading.Event()
    compiled = background.cluster_kernel

    def later(*arguments):
        assert may.wait(60)
        return compiled(*arguments)

    monkeypatch.setattr(background, "cluster_kernel", later)
    yield may
    may.set()


def draw(*shape):
    return ex.tensor(np.random.default_rng(0).normal(size=shape).astype(np.float32))


def request_of(fn, *arguments):
    tape, (result,) = record(fn, list(arguments))
    return tape, Request(tape.steps, 0, tape.leaves, frozenset(), (tape.place(result),))


def test_a_plan_is_complete_when_its_kernels_are_compiled(in_the_background, held_back):
    def unusual(x):
        return (((x.sin() + 1.25).cos() * x).atan() - x.exp()).sin()

    x = draw(5, 7)
    tape, request = request_of(unusual, x)
    made = plan(request, wait=False)
    assert isinstance(made, Plan)
    assert not made.is_complete
    held_back.set()
    settle()
    assert not made.completed(wait=False).is_complete  # how far LLVM is does not matter
    assert made.completed() is made
    assert made.is_complete
    same_bits(run_plan(made, tape, tape.steps)[0], unusual(x).numpy(), "the result")


def test_a_plan_can_be_waited_for(in_the_background):
    x = draw(3, 4)
    tape, request = request_of(lambda x: (x.cos() - x.sin()).cos(), x)
    made = plan(request, wait=False).completed()
    same_bits(run_plan(made, tape, tape.steps)[0], (x.cos() - x.sin()).cos().numpy(), "the result")
    assert plan(request, wait=False).is_complete  # a second one has nothing to wait for


def test_what_all_plans_share_is_there_before_the_first_plan(monkeypatch):
    monkeypatch.setattr(runtime, "_libraries", [])
    monkeypatch.setattr(scheduling_request, "_loaded", [])
    assert can_plan()
    assert len(runtime._libraries) == 1


def test_without_native_code_there_are_no_plans(monkeypatch):
    monkeypatch.setattr(scheduling_request, "native", lambda: None)
    assert not can_plan()


def test_whoever_wants_a_plan_that_is_due_waits_for_its_kernels(in_the_background, held_back):
    _, request = request_of(lambda x: (x.cos() * 1.375 - x.tanh()).sin(), draw(3, 4))
    made = plan(request, wait=False)
    assert made.take_llvm_seconds() > 0.0
    assert made.take_llvm_seconds() == 0.0  # those who share its kernels do not count them again
    made.be_due()
    threading.Timer(0.05, held_back.set).start()
    assert plan(request, wait=False).is_complete  # others find what they share
    assert made.completed(wait=False).is_complete


def test_a_kernel_that_cannot_be_compiled_is_a_reason_for_no_plan(in_the_background, monkeypatch):
    def fail(*args):
        raise RuntimeError("LLVM said no")

    monkeypatch.setattr(background, "cluster_kernel", fail)
    _, request = request_of(lambda x: (x.sin().cos() - 0.5).sin(), draw(2))
    made = plan(request, wait=False)
    ended = made.completed()
    assert isinstance(ended, Unplannable)
    assert "LLVM said no" in ended.reason


def test_a_compiled_function_runs_op_by_op_until_then(in_the_background, always_planned):
    w = draw(6, 6).requires_grad_()

    def eager(x):
        w.grad = None
        loss = ((x @ w).sin().cos() * (x @ w).cos()).mean()
        loss.backward()
        return loss.detach().numpy(), w.grad.numpy()

    compiled = ex.compile(eager)
    n_plans = []
    for i in range(8):
        x = draw(4, 6) * (i + 1.0)
        for got, expected, what in zip(compiled(x), eager(x), ("loss", "gradient"), strict=True):
            same_bits(got, expected, f"{what} of call {i}")
        n_plans.append(sum(f["plans"] for f in ex.compile.stats()["functions"] if "until_then" in f["name"]))
    assert n_plans[1] == 0
    assert n_plans[-1] > 0


def test_lengths_that_never_come_up_again_wait_once_for_the_kernels_they_share(in_the_background, always_planned):
    w = draw(5, 5).requires_grad_()

    def eager(x, n):
        w.grad = None
        for _ in range(n):
            x = ((x @ w).atan() * 0.75).cos()
        x.sum().backward()
        return w.grad.numpy()

    compiled = ex.compile(eager)
    for n in range(8, 16):
        same_bits(compiled(draw(3, 5), n), eager(draw(3, 5), n), f"the gradient of length {n}")
    (found,) = [f for f in ex.compile.stats()["functions"] if "never_come_up_again" in f["name"]]
    assert found["runs"] >= 4


def test_a_kernel_that_someone_waits_for_later_is_not_there_for_others_before(in_the_background):
    def shared(x):
        return ((x.cos() + 2.125).sin() * x).tanh()

    x = draw(4, 5)
    _, request = request_of(shared, x)
    first = plan(request, wait=False)
    settle()
    assert not plan(request, wait=False).is_complete
    assert first.completed().is_complete
    assert plan(request, wait=False).is_complete


def test_a_kernel_that_was_asked_for_by_what_is_gone_is_waited_for(in_the_background):
    x = draw(4, 5)
    _, request = request_of(lambda x: ((x.tan() + 2.25).cos() * x).sinh(), x)
    assert not plan(request, wait=False).is_complete
    assert plan(request, wait=False).is_complete


def test_many_slow_functions_are_more_than_one_kernel():
    def chain(x):
        for _ in range(40):
            x = (x * 0.5).tanh()
        return x.sum()

    (made,) = check(chain, [draw(3, 5).requires_grad_()])
    forward = [line for line in made.describe().splitlines() if "tanh" in line]
    assert len(forward) > 2
    assert max(line.count("tanh") for line in forward) < 20
