"""Loops whose turns have one shape run by the plans of ex.batch, with what they read in any form."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn
from extempo.batching.lockstep.loops import LoopBody

from .loops_beside import alike, check, ragged, weight


def _levels(batched):
    """Of each loop whether its turns run as levels."""
    ((program, _),) = batched._notes.programs
    return [step.cache.levels is not None for step in program.steps.steps if isinstance(step.cache, LoopBody)]


def test_a_cell_runs_as_levels():
    ex.manual_seed(0)
    cell = nn.LSTMCell(3, 4)

    def fn(x):
        h, c = ex.zeros(4), ex.zeros(4)
        for row in x:
            h, c = cell(row, (h, c))
        return h, c

    assert _levels(check(fn, ragged(3), parameters=cell.parameters())) == [True]


def test_what_turns_give_is_stacked():
    w, u = weight(3, 4), weight(4, 4)

    def fn(x):
        h, states = ex.zeros(4), []
        for row in x:
            h = ex.tanh(row @ w + h @ u)
            states.append(h * 2)
        return ex.stack(states), h

    assert _levels(check(fn, ragged(3), parameters=[w, u])) == [True]


def test_values_of_each_sample_and_values_that_all_share_are_read():
    w, u = weight(3, 4), weight(4, 4)

    def fn(x, y):
        scaled = u * 0.5
        h, own = ex.zeros(4), ex.tanh(y @ w)
        for row in x:
            h = ex.tanh(row @ w + h @ scaled + own * h)
        return h

    assert _levels(check(fn, ragged(3), alike(5, 3), parameters=[w, u])) == [True]


def test_a_state_that_begins_with_a_weight_or_a_value_of_the_sample():
    w, u, first = weight(3, 4), weight(4, 4), weight(4, seed=9)

    def from_weight(x):
        h = first
        for row in x:
            h = ex.tanh(row @ w + h @ u)
        return h

    def from_sample(x):
        h = x.sum(0) @ w
        for row in x:
            h = ex.tanh(row @ w + h @ u)
        return h

    check(from_weight, ragged(3), parameters=[w, u, first])
    check(from_sample, ragged(3), parameters=[w, u])
    check(from_sample, [x.requires_grad_() for x in ragged(3)], parameters=[w, u])


def test_one_tensor_as_two_states():
    w = weight(3, 4)

    def fn(x):
        a = b = ex.ones(4)
        for row in x:
            a, b = ex.tanh(row @ w + b), a * 0.5 + row @ w
        return a, b

    check(fn, ragged(3), parameters=[w])


def test_a_state_that_no_weight_reaches_has_no_gradient():
    w = weight(3, 4)

    def fn(x):
        total, h = ex.zeros(3), ex.zeros(4)
        for row in x:
            total = total + row
            h = ex.tanh(row @ w + h)
        return total * 2, h

    check(fn, ragged(3), parameters=[w])


def test_integers_are_carried():
    w = weight(3, 4)

    def fn(x):
        n, h = ex.tensor(0), ex.zeros(4)
        for row in x:
            n = n + 1
            h = ex.tanh(row @ w + h * n)
        return n * 2, h

    check(fn, ragged(3), parameters=[w])


def test_the_same_weights_without_gradients_and_with_them():
    w, u = weight(3, 4), weight(4, 4)

    def fn(x):
        h = ex.zeros(4)
        for row in x:
            h = ex.tanh(row @ w + h @ u)
        return h

    batched = ex.batch(fn)
    samples = ragged(3)
    expected = [fn(x).detach() for x in samples]
    for mode in (ex.enable_grad, ex.no_grad, ex.enable_grad, ex.inference_mode):
        with mode():
            for a, b in zip(batched(samples), expected, strict=True):
                assert ex.allclose(a, b, atol=1e-5)
    check(fn, samples, parameters=[w, u])
    w.requires_grad_(False)
    check(fn, samples, parameters=[w, u])


def test_a_training_step_after_the_other_sees_new_weights():
    ex.manual_seed(0)
    cell, head = nn.GRUCell(3, 4), nn.Linear(4, 2)
    parameters = [*cell.parameters(), *head.parameters()]

    def fn(x):
        h = ex.zeros(4)
        for row in x:
            h = cell(row, h)
        return head(h)

    optimizer = ex.optim.SGD(parameters, lr=0.1)
    for _ in range(4):
        batched = check(fn, ragged(3), parameters=parameters)
        optimizer.zero_grad()
        sum((y * y).sum() for y in batched(ragged(3))).backward()
        optimizer.step()


@pytest.mark.parametrize("dtype", [ex.float64, ex.float32])
def test_other_dtypes(dtype):
    w = weight(3, 4).detach().to(dtype).requires_grad_()

    def fn(x):
        h = ex.zeros(4, dtype=dtype)
        for row in x:
            h = ex.tanh(row @ w + h)
        return h

    check(fn, [x.to(dtype) for x in ragged(3)], parameters=[w])


def test_hundreds_of_turns():
    w = weight(3, 4)

    def fn(x):
        h = ex.zeros(4)
        for row in x:
            h = ex.tanh(row @ w * 0.1 + h * 0.9)
        return h

    check(fn, ragged(3, lengths=[300, 1, 120]), parameters=[w])
