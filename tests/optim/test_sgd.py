"""Gradient descent and its average, step by step."""

from __future__ import annotations

import pytest

from extempo import optim

from .updates import G, run


def test_sgd_with_momentum_starts_from_the_first_gradient_undamped():
    values, _ = run(optim.SGD, G, lr=0.1, momentum=0.9, dampening=0.5)
    x, velocity, expected = 1.0, None, []
    for g in G:
        velocity = g if velocity is None else 0.9 * velocity + 0.5 * g
        x -= 0.1 * velocity
        expected.append(x)
    assert values == pytest.approx(expected)


def test_nesterov_looks_ahead():
    values, _ = run(optim.SGD, G, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1)
    x, velocity, expected = 1.0, 0.0, []
    for g in G:
        g += 0.1 * x
        velocity = 0.9 * velocity + g
        x -= 0.1 * (g + 0.9 * velocity)
        expected.append(x)
    assert values == pytest.approx(expected)


def test_asgd_averages_from_t0_on():
    values, state = run(optim.ASGD, [1.0] * 6, lr=0.1, lambd=0.0, t0=2)
    assert values == pytest.approx([1 - 0.1 * t for t in range(1, 7)], rel=1e-6)
    average, weight = 0.0, 1.0
    for t, x in enumerate(values, 1):
        average = x if weight == 1.0 else average + (x - average) * weight
        weight = 1 / max(1, t - 2)
    assert state["ax"].item() == pytest.approx(average, rel=1e-6)
