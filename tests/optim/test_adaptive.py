"""Step sizes by element: Adagrad, Adadelta, RMSprop and Rprop, step by step."""

from __future__ import annotations

import math

import pytest

from extempo import optim

from .updates import G, run


def test_adagrad_sums_squares():
    values, _ = run(optim.Adagrad, G, lr=0.1, lr_decay=0.5, initial_accumulator_value=0.25)
    x, total, expected = 1.0, 0.25, []
    for t, g in enumerate(G):
        total += g * g
        x -= 0.1 / (1 + 0.5 * t) * g / (math.sqrt(total) + 1e-10)
        expected.append(x)
    assert values == pytest.approx(expected)


def test_rmsprop_centered_with_momentum():
    values, _ = run(optim.RMSprop, G, lr=0.1, alpha=0.9, centered=True, momentum=0.5)
    x, v, m, velocity, expected = 1.0, 0.0, 0.0, 0.0, []
    for g in G:
        v, m = 0.9 * v + 0.1 * g * g, 0.9 * m + 0.1 * g
        velocity = 0.5 * velocity + g / (math.sqrt(v - m * m) + 1e-8)
        x -= 0.1 * velocity
        expected.append(x)
    assert values == pytest.approx(expected)


def test_adadelta():
    values, _ = run(optim.Adadelta, G, rho=0.8, eps=1e-3)
    x, v, d, expected = 1.0, 0.0, 0.0, []
    for g in G:
        v = 0.8 * v + 0.2 * g * g
        delta = math.sqrt(d + 1e-3) / math.sqrt(v + 1e-3) * g
        d = 0.8 * d + 0.2 * delta * delta
        x -= delta
        expected.append(x)
    assert values == pytest.approx(expected)


def test_rprop_waits_one_step_after_a_change_of_sign():
    values, state = run(optim.Rprop, [1.0, 1.0, -1.0, -1.0], lr=0.1)
    assert values == pytest.approx([0.9, 0.9 - 0.12, 0.78, 0.78 + 0.06])
    assert state["step_size"].item() == pytest.approx(0.06)
