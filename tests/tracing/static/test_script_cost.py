"""What a call of a static function is taken to cost: by plans, and op by op."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.backends.selection import native
from extempo.core import costs
from extempo.tracing.static import static_function
from extempo.tracing.static.script_cost import script_cost
from extempo.tracing.static.trace_actions import Extend

pytestmark = pytest.mark.skipif(native() is None, reason="without native code compiled functions run eagerly")


def actions_of(fn, *arguments, monkeypatch):
    """The script that is made of a call."""
    found = []

    def noting(actions):
        found.append(list(actions))
        return script_cost(actions)

    with monkeypatch.context() as patch:
        patch.setattr(static_function, "script_cost", noting)
        run = ex.compile(fn, static=True)
        for _ in range(2):
            run(*arguments)
    return found[-1]


def cost_of(fn, *arguments, monkeypatch):
    return script_cost(actions_of(fn, *arguments, monkeypatch=monkeypatch))


def test_a_script_without_ops_costs_the_call():
    assert script_cost([]) == (costs.STATIC_CALL, 0.0)


def test_small_functions_are_cheaper_op_by_op_and_long_ones_by_plans(monkeypatch):
    def chain(n):
        def run(x):
            for _ in range(n):
                x = (x * 2.0).tanh()
            return x

        return cost_of(run, ex.ones(4), monkeypatch=monkeypatch)

    by_plans, op_by_op = chain(1)
    assert by_plans > op_by_op
    by_plans, op_by_op = chain(60)
    assert by_plans < op_by_op


def test_large_tensors_are_cheaper_by_plans(monkeypatch):
    small, large = (cost_of(lambda x: (x * 2.0).tanh() + x, ex.ones(n), monkeypatch=monkeypatch) for n in (4, 1 << 20))
    assert small[0] > small[1]
    assert large[0] < large[1]


def test_a_backward_adds_to_both(monkeypatch):
    w = ex.ones(4, requires_grad=True)

    def forward(x):
        return (x * w).tanh().sum().detach()

    def step(x):
        w.grad = None
        loss = (x * w).tanh().sum()
        loss.backward()
        return loss.detach()

    without, with_backward = (cost_of(fn, ex.ones(4), monkeypatch=monkeypatch) for fn in (forward, step))
    assert with_backward[0] >= without[0] - costs.PLAN_RUN + costs.PLANNED_BACKWARD
    assert with_backward[1] >= without[1] + costs.EAGER_ENGINE


def test_a_step_of_several_results_counts_once(monkeypatch):
    actions = actions_of(lambda x: x.max(0), ex.ones(8, 4), monkeypatch=monkeypatch)
    (step, again) = [step for action in actions if isinstance(action, Extend) for step in action.makers]
    assert step is again
    op_by_op = costs.overhead_of(step.op, step.tracked) + costs.work_of(step.op, step.kinds, step.type)
    assert script_cost(actions)[1] == pytest.approx(op_by_op)
