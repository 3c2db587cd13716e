"""Whether samples run in lockstep follows from counts: few samples, or ops without a rule, run as a loop."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn
from extempo.batching.lockstep.estimates import seconds
from extempo.batching.lockstep.lanes import Lanes
from extempo.core import costs


@pytest.fixture
def traced():
    """The program of a function, and what each of its samples is like."""

    def trace(fn, samples):
        batched = ex.batch(fn)
        batched(samples)
        ((program, _),) = batched._notes.programs
        sizes = program.sizes.of([[x.shape for x in samples]])
        return program, Lanes(len(samples), sizes)

    return trace


def sets(n):
    return [ex.ones(3 + i % 5, 4) for i in range(n)]


def test_more_samples_cost_a_loop_more_and_lockstep_the_same(traced):
    layer = nn.Linear(4, 4)

    def fn(x):
        return layer(x).tanh().sum(0)

    few, many = (seconds(*traced(fn, sets(n))) for n in (4, 64))
    assert few[0] == many[0]
    assert 16 * few[1] == pytest.approx(many[1])
    assert few[0] > few[1]
    assert many[0] < many[1]


def test_what_runs_one_by_one_makes_lockstep_dear(traced):
    def fn(x):
        return ((x @ x.T).cumprod(1) @ x).sum(0)

    together, looped = seconds(*traced(fn, sets(32)))
    assert together > looped


def test_turns_of_a_loop_count_by_the_longest_sample(traced):
    cell = nn.Linear(4, 4)

    def fn(x):
        h = ex.zeros(4)
        for row in x:
            h = (cell(h) + row).tanh()
        return h

    program, lanes = traced(fn, sets(8))
    short = seconds(program, lanes)
    (name,) = lanes.sizes
    sizes = lanes.sizes[name].copy()
    sizes[0] = 100
    long = seconds(program, Lanes(8, {name: sizes}))
    assert long[0] > 2 * short[0]
    assert long[1] > 2 * short[1]


def test_turns_of_a_recurrent_layer_count_by_the_longest_sample_in_lockstep_and_all_in_a_loop(traced):
    layer = nn.LSTM(4, 4)
    program, lanes = traced(lambda x: layer(x)[0].sum(0), sets(8))
    short = seconds(program, lanes)
    (name,) = lanes.sizes
    longer = seconds(program, Lanes(8, {name: lanes.sizes[name] + 10}))
    turn = costs.SEQUENCE_TURN[True]
    assert longer[0] - short[0] == pytest.approx(10 * turn)
    assert longer[1] - short[1] == pytest.approx(8 * 10 * turn)


def test_a_large_weight_is_read_for_each_sample_of_a_loop(traced):
    small, large = nn.Embedding(4, 4), nn.Embedding(4000, 4)
    samples = [ex.arange(3 + i % 5) % 3 for i in range(8)]
    few, many = (seconds(*traced(lambda x, table=table: table(x).sum(0), samples)) for table in (small, large))
    assert few[0] == many[0]
    assert many[1] - few[1] == pytest.approx(8 * 3996 * 16 * costs.LOOPED_WEIGHT_BYTE[True])


def test_gradients_of_arguments_cost_lockstep_something_for_each_sample(traced):
    plain = seconds(*traced(lambda x: x.tanh().sum(0), sets(8)))
    samples = [x.requires_grad_() for x in sets(8)]
    program, lanes = traced(lambda x: x.tanh().sum(0), samples)
    assert seconds(program, lanes)[0] > plain[0] + 8 * costs.LOOPED_OP[True]
    with ex.no_grad():
        assert seconds(program, lanes) == plain


def test_gradients_make_both_dearer(traced):
    layer = nn.Linear(4, 4)
    program, lanes = traced(lambda x: layer(x).sum(0), sets(8))
    with_gradients = seconds(program, lanes)
    with ex.no_grad():
        without = seconds(program, lanes)
    assert all(a > b for a, b in zip(with_gradients, without, strict=True))
