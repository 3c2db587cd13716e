"""What may be invested in plans, and when: by counts and sizes, the same in every run."""

from __future__ import annotations

import ast
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import extempo
import extempo as ex
from extempo.backends.selection import native
from extempo.core import costs
from extempo.tracing.compiled_function import CompiledFunction, entry_of
from extempo.tracing.policy import (
    AT_ONCE,
    KNOWN_AFTER,
    MOST_WAITING,
    OFTEN,
    SOON,
    AlwaysPlan,
    CountingPolicy,
    NeverPlan,
    choose,
)

needs_native_code = pytest.mark.skipif(native() is None, reason="without native code compiled functions run eagerly")


@pytest.fixture(autouse=True)
def counting():
    """The policy that users have."""
    before = choose(CountingPolicy)
    yield
    choose(before)


# ---- the account


def in_debt(n_calls, planned=0.6):
    """The policy of a function that repeats itself, and whose first plans have cost more than it may invest."""
    policy = CountingPolicy()
    for call in range(1, n_calls + 1):
        policy.eager_next()
        if call > n_calls - 4:
            policy.traced_call(1.0, 1.0, planned, n_steps=100, n_new=0, planning=20.0, learnt=True)
        else:
            policy.eager_call()
    policy._total, policy._missed = float(n_calls), 0.0
    return policy


@pytest.mark.parametrize("n_calls", [SOON - 2, SOON + 2, OFTEN - 2, OFTEN + 2])
def test_other_lengths_of_a_loop_that_has_a_plan_are_invested_in_sooner(n_calls):
    policy = in_debt(n_calls)
    policy._invested = 8.0 + 0.1 * n_calls + 1.0  # what is free, the allowance, and more
    assert policy.allows_plan(100) == (n_calls > OFTEN)
    assert policy.allows_plan(0) == (n_calls > SOON)


def test_nothing_is_lent_for_a_range_of_sizes():
    for allowed, ask in ((True, CountingPolicy.allows_plan), (False, CountingPolicy.allows_range)):
        policy = in_debt(OFTEN + 2)
        policy._invested = 8.0 + 0.1 * OFTEN + 1.0
        assert ask(policy, 100) is allowed


def test_nothing_is_lent_to_a_function_that_plans_hardly_make_faster():
    much, little = in_debt(OFTEN + 2, planned=0.6), in_debt(OFTEN + 2, planned=0.97)
    for policy in (much, little):
        policy._invested = 8.0 + 0.1 * OFTEN + 1.0
    assert much.allows_plan(100)
    assert not little.allows_plan(100)
    assert much.seconds_at_once() == pytest.approx((2 + AT_ONCE) * much.eager_mean, rel=1e-4)
    assert little.seconds_at_once() == pytest.approx(2 * little.eager_mean, rel=1e-4)


def test_nothing_is_planned_where_plans_would_take_longer():
    policy = CountingPolicy()
    policy.eager_next()
    policy.traced_call(5e-6, 300e-6, 12e-6, n_steps=5, n_new=5, planning=0.0, learnt=True)
    assert not policy.pays
    assert not policy.allows_plan(5)


def test_what_plans_would_have_saved_may_be_invested():
    policy = CountingPolicy()
    for _ in range(KNOWN_AFTER):
        policy.eager_next()
        policy.traced_call(200e-6, 600e-6, 60e-6, n_steps=200, n_new=0, planning=0.0, learnt=True)
    cost = costs.PLAN + 200 * costs.PLANNED_OP
    policy._invested = 12 * policy.eager_mean
    n_calls = 0
    while not policy.allows_plan(200):
        policy.eager_call()
        n_calls += 1
    assert n_calls <= cost / 140e-6 + 10  # about as many calls as make up for it


def test_before_it_is_known_what_a_call_takes_it_may_take_what_it_takes():
    assert CountingPolicy().seconds_at_once() == float("inf")
    assert CountingPolicy().new_steps_allowed() == 1_000_000


def test_attempts_of_what_does_not_pay_become_rare():
    policy, traced = CountingPolicy(), []
    for call in range(10_000):
        if policy.rests:
            policy.rests -= 1
        elif not policy.eager_next():
            policy.traced_call(5e-6, 12e-6, 12e-6, n_steps=5, n_new=0, planning=0.0, learnt=False)
            traced.append(call)
    assert len(traced) < 20
    assert policy.aside


def test_kernels_are_due_after_as_many_calls_as_llvm_takes():
    policy = CountingPolicy()
    policy.calls, policy.eager_mean, policy.mean_steps = 7, 1e-3, 500
    assert policy.due(20e-3) == 7 + round(20e-3 / (1e-3 + 500 * costs.BODY_OP))
    policy.eager_mean, policy.mean_steps = 1e-6, 1
    assert policy.due(20e-3) == 7 + MOST_WAITING
    assert policy.due(0.0) == 7
    assert CountingPolicy().due(20e-3) == 20  # a call may take a millisecond, while nothing is known
    assert AlwaysPlan().due(20e-3) == 0


def test_a_call_plans_for_two_calls_worth_with_their_python():
    policy = CountingPolicy()
    for _ in range(KNOWN_AFTER):
        policy.eager_next()
        policy.traced_call(1e-3, 1e-3, 0.5e-3, n_steps=100, n_new=0, planning=0.0, learnt=True)
    assert 100 * policy.planning_per_step() == pytest.approx(2 * (1e-3 + 100 * costs.BODY_OP))


@needs_native_code
def test_kernels_that_were_paid_for_are_due_in_time_and_tried_where_no_more_can_be_invested():
    made = CompiledFunction(lambda x: x * 2.0 + 1.0, "f")
    x, due = ex.ones(3), []
    plan = SimpleNamespace(be_due=lambda: due.append(made.policy.calls + 1))
    made.policy.aside = made.policy.was_slower = True
    made.counters.waiting = [(4, plan)]
    for _ in range(3):
        made.run(x)
    assert (due, made.policy.calls, made.waiting_calls) == ([], 3, 3)
    made.run(x)
    assert (due, made.policy.aside) == ([4], False)
    assert made.counters.new_steps > 0


def test_a_loop_that_was_met_at_another_length_is_planned_if_that_takes_no_longer_than_calls():
    policy = CountingPolicy()
    policy.eager_next()
    policy.traced_call(2e-3, 20e-3, 1e-3, n_steps=500, n_new=500, planning=0.0, learnt=True)
    assert policy.to_invest < 0
    assert not policy.allows_plan(100)
    assert not policy.allows_plan(1_000, is_loop=True)
    assert policy.allows_plan(100, is_loop=True)
    assert not policy.allows_plan(100, is_loop=True)  # of others only what can be afforded


def test_a_function_that_rests_does_not_record():
    made = CompiledFunction(lambda x: x * 2.0 + 1.0, "f")
    made.policy.aside, made.policy.rests = True, 5
    entry_of(made)(ex.ones(3))
    assert (made.policy.rests, made.counters.new_steps) == (4, 0)


EAGER, BY_PLAN, FIRST, AGAIN, PLANNING = 1e-3, 0.6e-3, 6e-3, 3e-3, 2e-3  # seconds of a call of 100 steps


def seconds_of(calls):
    """What calls take in all: each has a kind of arguments and a structure."""
    policy, n_seen, total, n_by_plan = CountingPolicy(), {}, 0.0, 0
    for kind, structure in calls:
        if policy.rests:
            policy.rests -= 1
            policy.calls += 1
            total += EAGER
            continue
        if not policy.runs_by_plans:
            policy.met.call(kind)
        if policy.eager_next():
            policy.eager_call()
            total += EAGER
            continue
        seen = n_seen.get(structure, 0)
        n_seen[structure] = min(seen + 1, 1)
        if seen == 2:
            n_seen[structure] = 2
            policy.traced_call(EAGER, BY_PLAN, BY_PLAN, 100, 0, 0.0, learnt=False)
            total += BY_PLAN
            n_by_plan += 1
        elif seen and policy.allows_plan(100):
            policy.traced_call(EAGER, AGAIN, BY_PLAN, 100, 0, PLANNING, learnt=True)
            total += AGAIN + PLANNING
            n_seen[structure] = 2
        else:
            n_new = 0 if seen else 100
            took = AGAIN if seen else FIRST
            policy.traced_call(EAGER, took, BY_PLAN, 100, n_new, 0.0, learnt=True)
            total += took
    return total, n_by_plan


@pytest.mark.parametrize("n_kinds", [2, 9, 20])
def test_a_function_of_some_lengths_gets_its_plans(n_kinds):
    rng = random.Random(0)
    lengths = [rng.randrange(n_kinds) for _ in range(4_000)]
    total, n_by_plan = seconds_of([(length, length) for length in lengths])
    assert n_by_plan > 2_000
    assert total < 0.9 * 4_000 * EAGER


@pytest.mark.parametrize("n_kinds", [1, 9, 4_000])
def test_a_function_that_never_does_the_same_costs_little(n_kinds):
    calls = [(k % n_kinds, k) for k in range(4_000)]
    total, n_by_plan = seconds_of(calls)
    assert n_by_plan == 0
    assert total < 1.1 * 4_000 * EAGER  # the allowance
    early, _ = seconds_of(calls[:60])
    assert early < 60 * EAGER + 5 * FIRST


# ---- what calls take, from the trace tree


def figures_of(fn, *args, calls=4):
    """Seconds that a call takes (eagerly, by plans) according to the trace tree."""
    before = choose(AlwaysPlan)
    made = CompiledFunction(fn, "f")
    choose(before)
    for _ in range(calls):
        made.run(*args)
    return made.policy.eager_mean, made.policy._planned_mean


@needs_native_code
def test_a_call_of_more_ops_takes_longer_and_gains_more():
    w = ex.rand(4, 4, requires_grad=True)

    def step(x, n):
        w.grad = None
        for _ in range(n):
            x = (x @ w).tanh()
        x.sum().backward()

    few, many = figures_of(step, ex.rand(2, 4), 1), figures_of(step, ex.rand(2, 4), 30)
    assert many[0] > 5 * few[0]
    assert few[0] - few[1] < many[0] - many[1]
    assert many[1] < 0.7 * many[0]


@needs_native_code
def test_the_figures_of_a_call_go_on_where_a_trace_was_closed():
    w = ex.rand(4, requires_grad=True)

    def closing(x):
        y = (x * w).tanh().sigmoid()
        assert y.grad_fn is not None
        return (y * y).sum().item()

    def plain(x):
        y = (x * w).tanh().sigmoid()
        return (y * y).sum().item()

    closed, open_ = figures_of(closing, ex.rand(4)), figures_of(plain, ex.rand(4))
    assert closed[0] == pytest.approx(open_[0], rel=0.2)
    assert closed[1] > open_[1] + costs.CLOSE


@needs_native_code
def test_sizes_count():
    small, large = (figures_of(lambda x: (x * 2.0 + 1.0).exp(), ex.ones(n)) for n in (4, 1 << 20))
    assert small[1] > small[0]
    assert large[1] < large[0]


@needs_native_code
def test_what_comes_after_a_compiled_model_returned_is_part_of_its_figures():
    model = ex.nn.Linear(4, 2)
    before = choose(AlwaysPlan)
    made = CompiledFunction(model, "f")
    choose(before)
    x, forward = ex.rand(3, 4), []
    for _ in range(6):
        model.zero_grad()
        loss = made.run(x).square().sum()
        forward.append(made.policy.eager_mean)
        loss.backward()
    assert made.policy.eager_mean > 2 * forward[0]


# ---- which policy


@needs_native_code
@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize(("policy", "planned"), [(AlwaysPlan, True), (NeverPlan, False)])
def test_policies_of_tests(policy, planned, static):
    before = choose(policy)
    run = ex.compile(lambda x: (x * 3.0).tanh() + 1.5, static=static)
    choose(before)
    n_runs = ex.compile.stats()["runs"]
    for _ in range(6):
        assert run(ex.zeros(2)).tolist() == [1.5, 1.5]
    assert (ex.compile.stats()["runs"] > n_runs) is planned


PROGRAM = """
import sys, threading, time
import numpy as np
import extempo as ex
from extempo import nn, optim
if sys.argv[1] == "busy":
    real = time.perf_counter
    time.perf_counter = time.time = time.monotonic = lambda: 50 * real()
    def spin():
        while True:
            sum(range(1000))
    threading.Thread(target=spin, daemon=True).start()
ex.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = optim.SGD(model.parameters(), lr=0.01)
rng = np.random.default_rng(0)
@ex.compile
def step(xs):
    h = 0.0
    for x in xs:
        h = h + model(x).sigmoid().mean() * 1.0625
        if h.item() > 2.0:
            break
    optimizer.zero_grad()
    h.backward()
    optimizer.step()
    return h.item()
@ex.compile
def tiny(x):
    return x * 2
fixed = ex.compile(lambda x: (x @ x).exp().sum(), static=True)
for i in range(250):
    step([ex.ones(2, 6)] * int(rng.integers(1, 7)))
    tiny(ex.ones(3))
    fixed(ex.ones(4, 4))
import json
stats = ex.compile.stats()
print(json.dumps([{k: v for k, v in f.items()} for f in stats["functions"]]))
"""


@pytest.mark.alone
@needs_native_code
def test_a_program_does_the_same_on_a_quiet_and_on_a_busy_machine(tmp_path):
    found = []
    for how in ("quiet", "busy"):
        cache = str(tmp_path / how)  # LLVM has all to do, in both
        env = {**os.environ, "EXTEMPO_CACHE_DIR": cache, "EXTEMPO_COMPILE_WAIT": "", "EXTEMPO_POLICY": "auto"}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, how], env=env, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout))
    assert found[0] == found[1]
    (step,) = [f for f in found[0] if f["name"] == "step"]
    assert step["plans"] > 0
    assert step["waiting_calls"] > 0


CLOCKS = {  # who may look at one, and why nothing that a program does depends on that
    "backends/llvm/ir/machine.py": "counts what LLVM took, for `stats()`",
    "backends/llvm/threads/pool.py": "says which clock native threads use; what they share depends on sizes alone",
    "backends/selection.py": "files that are newer than this process are not what it has loaded",
    "core/locks.py": "how long a fork waits at most for others that import",
    "data/iteration.py": "the user's timeout",
    "data/pool.py": "how long workers may take to end",
    "inspect/tracing.py": "measures",
    "memory/tracking.py": "measures",
    "train/callbacks.py": "how often a file is flushed",
    "distributed/collectives.py": "the user's timeout",
    "distributed/groups.py": "the user's timeout",
    "distributed/launcher.py": "how long processes may take to end",
    "distributed/mpi.py": "the user's timeout",
    "distributed/transfers.py": "the user's timeout",
    "profiling/api.py": "measures",
    "profiling/recording.py": "measures",
    "profiling/sampling.py": "measures",
    "compat/torch_namespace/tensorboard.py": "names a folder by the time, as PyTorch does",
    "train/progress.py": "shows progress",
    "train/tensorboard.py": "writes the time",
    "train/trainer.py": "tells how long training took",
    "comparing/measuring.py": "measures",
    "cli/demo.py": "times steps",
    "exporting/quantizing.py": "its report measures, if asked, what rounded weights take",
    "serving/app.py": "tells how long requests took, and ends those that take too long",
    "serving/engine.py": "waits for others to join a batch; what is computed does not depend on who did",
    "serving/gate.py": "tells how long requests took",
    "serving/models.py": "tells when a model was read",
    "serving/runners.py": "notes when requests came, for those that wait too long",
    "studio_server/api.py": "tells how long iterations took, and bounds how much of them goes into looking",
    "studio_server/app.py": "bounds how often a page may write",
    "studio_server/session.py": "tells how long iterations took",
    "studio_server/watching.py": "tells how long iterations took, and bounds how much of them goes into looking",
    "learn/session.py": "lessons measure, and say so",
    "serialization/leaves.py": "dates are values that files hold; no clock is asked",
}


def looks_at_a_clock(file):
    for node in ast.walk(ast.parse(file.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
        names += [node.module] if isinstance(node, ast.ImportFrom) and node.module and not node.level else []
        if {"time", "timeit", "datetime", "perf_counter"} & set(names):
            return True
    return False


def test_nothing_that_decides_looks_at_a_clock():
    root = Path(extempo.__file__).parent
    found = {str(file.relative_to(root)) for file in root.rglob("*.py") if looks_at_a_clock(file)}
    assert found == set(CLOCKS)


@pytest.mark.alone
@needs_native_code
@pytest.mark.parametrize(("name", "planned"), [("always", True), ("never", False), ("sometimes", False)])
def test_the_environment_chooses_a_policy(name, planned):
    code = (
        "import extempo as ex\n"
        "f = ex.compile(lambda x: x * 2 + 1)\n"
        "for _ in range(5): f(ex.ones(2))\n"
        "print(ex.compile.stats()['runs'] > 0)\n"
    )
    env = {**os.environ, "EXTEMPO_POLICY": name}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == str(planned)
    assert ("EXTEMPO_POLICY=sometimes is unknown; known are auto, always, never" in done.stderr) is (
        name == "sometimes"
    )
