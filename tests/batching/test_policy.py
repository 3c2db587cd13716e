"""Whether a call runs in batches or as a loop: by counts and costs, and by the policy of the process."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

import extempo as ex
from extempo import nn
from extempo.batching.layers import LayerForm
from extempo.batching.policy import ASIDE, LONGEST_ASIDE, Outlook, outlooks_of, run_cost
from extempo.batching.sizes.forms import SizedKind, no_function
from extempo.core import costs
from extempo.tracing.policy import AlwaysPlan, CountingPolicy, NeverPlan, choose


@pytest.fixture(autouse=True)
def counting(_always_batched):
    """The policy that users have."""
    before = choose(CountingPolicy)
    yield
    choose(before)


def batch_of(n_calls, n_ops=1, tracked=False, alone=False):
    kind = SimpleNamespace(n_ops=n_ops, tracked=(False, tracked), alone=alone)
    return SimpleNamespace(kind=kind), range(n_calls), 0


SMALL, LARGE = [batch_of(2)], [batch_of(50, n_ops=10)]


def test_a_batch_costs_its_calls_and_itself_once_and_a_loop_every_op():
    batched, looped = run_cost([batch_of(8, n_ops=3), batch_of(5, tracked=True)], 7)
    assert batched == pytest.approx(
        7 * costs.SAMPLE + 8 * costs.BATCHED_CALL[0] + costs.BATCH[0] + 5 * costs.BATCHED_CALL[1] + costs.BATCH[1]
    )
    assert looped == pytest.approx(8 * 3 * costs.LOOPED_OP[0] + 5 * costs.LOOPED_OP[1])


def test_calls_that_cannot_run_as_one_are_batches_of_their_own():
    together, apart = run_cost([batch_of(8)], 1), run_cost([batch_of(8, alone=True)], 1)
    assert apart[0] - together[0] == pytest.approx(7 * costs.BATCH[0])
    assert apart[1] == together[1]


def test_a_run_without_batches_does_not_lead_to_loops():
    outlook = Outlook()
    outlook.ran([], 5)
    assert outlook.batches_next()


def test_batches_that_do_not_pay_are_tried_ever_less_often_until_one_does():
    outlook, asides = Outlook(), []
    for _ in range(5):
        outlook.ran(SMALL, 2)
        asides.append(outlook.calls_aside)
        while outlook.calls_aside:
            assert not outlook.batches_next()
        assert outlook.batches_next()
    assert asides == [ASIDE, 2 * ASIDE + 1, 4 * ASIDE + 3, LONGEST_ASIDE, LONGEST_ASIDE]
    outlook.ran(LARGE, 5)
    assert outlook.batches_next()
    outlook.ran(SMALL, 2)
    assert outlook.calls_aside == ASIDE


@pytest.mark.parametrize(("policy", "batches"), [(AlwaysPlan, True), (NeverPlan, False)])
def test_policies_of_tests_do_not_compare(policy, batches):
    choose(policy)
    outlook = Outlook()
    assert outlook.batches_next() is batches
    outlook.ran(SMALL if batches else LARGE, 2)
    assert outlook.batches_next() is batches


def test_what_is_known_of_a_function_outlives_the_object_that_batches_it():
    def fn(x):
        return x

    assert outlooks_of(fn) is outlooks_of(fn)
    layer = nn.Linear(2, 2)
    assert outlooks_of(layer.forward) is outlooks_of(nn.Linear(3, 3).forward)
    assert outlooks_of(len.__call__) == {}  # which nothing can refer to weakly


def test_batches_of_one_are_noticed():
    ops = [ex.sin, ex.cos, ex.tanh, ex.sigmoid, ex.exp, ex.atan, ex.relu, ex.abs]
    plain = []

    def run(x, i):
        for k in range(6):  # every sample on its own path
            x = ops[(i * 3 + k * (i + 1)) % len(ops)](x * 0.5)
            plain.append(x._data is not None)
            x.sum().item()
        return x

    def path(x, i):
        return run(x, i)

    batched = ex.batch(path)
    batched(ex.ones(4, 3), range(4))
    for left in range(batched.stats()["aside"], 0, -1):
        assert batched.stats()["aside"] == left
        plain.clear()
        ex.batch(path)(ex.ones(4, 3), range(4))  # it is the function that is known, not this object
        assert all(plain)
    plain.clear()
    ex.batch(path)(ex.ones(4, 3), range(4))  # tries again
    assert not any(plain)
    plain.clear()
    ex.batch(path)(ex.ones(20, 3), range(20))  # so many samples have not been tried
    assert not any(plain)


def test_large_batches_pay():
    layer = nn.LSTMCell(3, 4)
    batched = ex.batch(lambda x: layer(x, (ex.zeros(4), ex.zeros(4)))[0])
    batched(ex.ones(8, 3))
    assert batched.stats()["aside"] == 0


@pytest.mark.alone
def test_the_environment_chooses_between_batches_and_loops():
    code = (
        "import extempo as ex\n"
        "together = ex.batch(lambda x: x * 2 + 1)\n"
        "for _ in range(3): together([ex.ones(2)])\n"
        "print(together.stats()['launches'] > 0)\n"
    )
    env = {**os.environ, "EXTEMPO_POLICY": "never"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "False", done.stderr


def test_a_layer_on_sequences_of_several_sizes_costs_its_ops():
    kind = SizedKind("layer", no_function, (), (), (False,), (), n_ops=100)
    kind.form = LayerForm
    batched, looped = run_cost([(SimpleNamespace(kind=kind), range(4), 0)], 4)
    assert batched > 100 * costs.SIZED_LAYER_OP[0]
    assert looped == pytest.approx(400 * costs.LOOPED_OP[0])
