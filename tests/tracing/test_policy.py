"""What may be invested in plans, and when."""

from __future__ import annotations

import random

import pytest

import extempo as ex
from extempo.tracing.api import CompiledFunction
from extempo.tracing.policy import AT_ONCE, OFTEN, SOON, CountingPolicy, TracingCost

AS_USERS_RUN_IT = True


def in_debt(n_calls):
    """An account of a function that repeats itself, and whose first plans have cost more than it may invest."""
    account = CountingPolicy()
    for call in range(1, n_calls + 1):
        account.eager_next()
        if call > n_calls - 4:
            account.recorded_call(1.0, n_steps=100, n_new=0, planning=4.0, learnt=True)
        else:
            account.eager_call(1.0)
    return account


@pytest.mark.parametrize("n_calls", [SOON - 2, SOON + 2, OFTEN - 2, OFTEN + 2])
def test_other_lengths_of_a_loop_that_has_a_plan_are_invested_in_sooner(n_calls):
    account = in_debt(n_calls)
    assert account.allows_plan(100) == (n_calls > OFTEN)
    assert account.allows_plan(0) == (n_calls > SOON)


def test_nothing_is_lent_for_a_range_of_sizes():
    assert in_debt(OFTEN + 2).allows_plan(100)
    assert not in_debt(OFTEN + 2).allows_range(100)


def test_nothing_is_lent_to_a_function_that_runs_in_many_small_parts():
    accounts = []
    for n_runs in (1, 200):
        account = CountingPolicy()
        for call in range(1, OFTEN + 3):
            account.eager_next()
            if call > OFTEN - 2:
                account.recorded_call(1e-3, 800, n_new=0, planning=8e-3, learnt=True, n_runs=n_runs)
            else:
                account.eager_call(1e-3)
        accounts.append(account)
    few, many = accounts
    assert few.allows_plan(100)
    assert not many.allows_plan(100)
    assert few.seconds_at_once() == pytest.approx((2 + AT_ONCE) * few.eager_mean)
    assert many.seconds_at_once() <= 2 * many.eager_mean


def test_before_an_eager_call_was_timed_a_call_may_take_what_it_takes():
    assert CountingPolicy().seconds_at_once() == float("inf")
    assert CountingPolicy().new_steps_allowed() == 1_000_000


def test_what_eager_calls_take_is_asked_again_while_no_plans_run():
    account = CountingPolicy()
    n_eager = 0
    for _ in range(64):
        if account.eager_next():
            n_eager += 1
            account.eager_call(1.0 if account.calls < 8 else 0.5)  # long calls, that are slow at first
        else:
            account.recorded_call(0.6, n_steps=20, n_new=5, planning=0.0, learnt=True)
    assert account.eager_mean == pytest.approx(0.5, rel=0.05)
    assert n_eager > 10


class Waiting:
    """A plan whose kernels are being compiled."""

    is_compiled = False
    waited = 0

    def wait(self, seconds):
        self.waited += 1


def test_kernels_that_were_paid_for_are_waited_for_and_tried_where_no_more_can_be_invested():
    if ex.backends.stats()["backend"] == "numpy":
        pytest.skip("records with native kernels only")
    made = CompiledFunction(lambda x: x * 2.0 + 1.0, "f")
    x = ex.ones(3)
    made.account.aside, made.account.rests = True, 5
    plan = made.counters.waiting = Waiting()
    made.run(x)
    made.run(x)
    assert (plan.waited, made.account.rests, made.account.calls) == (2, 5, 2)
    plan.is_compiled = True
    made.run(x)
    assert (made.account.aside, made.account.rests) == (False, 0)
    assert plan.waited == 2


def test_a_function_that_rests_does_not_record():
    made = CompiledFunction(lambda x: x * 2.0 + 1.0, "f")
    made.account.aside, made.account.rests = True, 5
    made.run(ex.ones(3))
    assert (made.account.rests, made.counters.new_steps) == (4, 0)


EAGER, BY_PLAN, FIRST, AGAIN, PLANNING = 1e-3, 0.6e-3, 12e-3, 3e-3, 8e-3  # seconds of a call of 100 steps


def seconds_of(calls, monkeypatch):
    """What calls take in all: each has a kind of arguments and a structure."""
    monkeypatch.setattr(TracingCost, "seconds_per_step", TracingCost.seconds_per_step)
    account, n_seen, total, n_by_plan = CountingPolicy(), {}, 0.0, 0
    for kind, structure in calls:
        if account.rests:
            account.rests -= 1
            account.calls += 1
            total += EAGER
            continue
        if not account.runs_by_plans:
            account.met.call(kind)
        if account.eager_next():
            account.eager_call(EAGER)
            total += EAGER
            continue
        seen = n_seen.get(structure, 0)
        n_seen[structure] = min(seen + 1, 1)
        if seen == 2:
            account.recorded_call(BY_PLAN, 100, 0, 0.0, learnt=False)
            total += BY_PLAN
            n_by_plan += 1
        elif seen and account.allows_plan(100):
            account.recorded_call(AGAIN, 100, 0, PLANNING, learnt=True)
            total += AGAIN + PLANNING
        else:
            account.recorded_call(AGAIN if seen else FIRST, 100, 0 if seen else 100, 0.0, learnt=True)
            total += AGAIN if seen else FIRST
        if seen and account._wanted == 0.0:
            n_seen[structure] = 2
    return total, n_by_plan


@pytest.mark.parametrize("n_kinds", [2, 9, 20])
def test_a_function_of_some_lengths_gets_its_plans(n_kinds, monkeypatch):
    rng = random.Random(0)
    lengths = [rng.randrange(n_kinds) for _ in range(4_000)]
    total, n_by_plan = seconds_of([(length, length) for length in lengths], monkeypatch)
    assert n_by_plan > 2_000
    assert total < 0.9 * 4_000 * EAGER


@pytest.mark.parametrize("n_kinds", [1, 9, 4_000])
def test_a_function_that_never_does_the_same_costs_little(n_kinds, monkeypatch):
    calls = [(k % n_kinds, k) for k in range(4_000)]
    total, n_by_plan = seconds_of(calls, monkeypatch)
    assert n_by_plan == 0
    assert total < 1.1 * 4_000 * EAGER  # the allowance
    early, _ = seconds_of(calls[:60], monkeypatch)
    assert early < 60 * EAGER + 4 * FIRST
