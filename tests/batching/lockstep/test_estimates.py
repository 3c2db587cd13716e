"""Whether samples run in lockstep follows from counts: few samples, or ops without a rule, run as a loop."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn
from extempo.batching.lockstep import programs
from extempo.batching.lockstep.estimates import seconds
from extempo.batching.lockstep.lanes import Lanes


@pytest.fixture
def traced(monkeypatch):
    """The program of a function, and what each of its samples is like."""
    monkeypatch.setattr(programs, "_CALLS_BEFORE", 0)

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
        return ((x @ x.T).softmax(1) @ x).sum(0)

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


def test_gradients_make_both_dearer(traced):
    layer = nn.Linear(4, 4)
    program, lanes = traced(lambda x: layer(x).sum(0), sets(8))
    with_gradients = seconds(program, lanes)
    with ex.no_grad():
        without = seconds(program, lanes)
    assert all(a > b for a, b in zip(with_gradients, without, strict=True))
