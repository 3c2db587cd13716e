"""The Adam family, step by step."""

from __future__ import annotations

import math

import pytest

import extempo as ex
from extempo import optim

from .updates import G, run


@pytest.mark.parametrize("amsgrad", [False, True])
@pytest.mark.parametrize("decoupled", [False, True])
def test_adam(amsgrad, decoupled):
    values, state = run(
        optim.Adam, G, lr=0.1, betas=(0.8, 0.9), weight_decay=0.05, amsgrad=amsgrad, decoupled_weight_decay=decoupled
    )
    x, m, v, largest, expected = 1.0, 0.0, 0.0, 0.0, []
    for t, g in enumerate(G, 1):
        if decoupled:
            x -= 0.1 * 0.05 * x
        else:
            g += 0.05 * x
        m, v = 0.8 * m + 0.2 * g, 0.9 * v + 0.1 * g * g
        largest = max(largest, v)
        size = math.sqrt((largest if amsgrad else v) / (1 - 0.9**t)) + 1e-8
        x -= 0.1 * m / (1 - 0.8**t) / size
        expected.append(x)
    assert values == pytest.approx(expected)
    assert ex.equal(state["step"], ex.tensor(3.0))
    assert set(state) == {"step", "exp_avg", "exp_avg_sq"} | ({"max_exp_avg_sq"} if amsgrad else set())


def test_a_first_beta_of_zero_keeps_no_trace_of_earlier_gradients():
    _, state = run(optim.Adam, [1e9, 0.125], betas=(0.0, 0.9))
    assert state["exp_avg"].item() == 0.125


def test_adamax():
    values, _ = run(optim.Adamax, G, lr=0.1, betas=(0.8, 0.9))
    x, m, u, expected = 1.0, 0.0, 0.0, []
    for t, g in enumerate(G, 1):
        m, u = 0.8 * m + 0.2 * g, max(0.9 * u, abs(g) + 1e-8)
        x -= 0.1 / (1 - 0.8**t) * m / u
        expected.append(x)
    assert values == pytest.approx(expected)


def test_radam_is_plain_momentum_until_the_variance_is_known():
    values, _ = run(optim.RAdam, G * 3, lr=0.1, betas=(0.8, 0.9))
    x, m, v, expected = 1.0, 0.0, 0.0, []
    longest = 2 / (1 - 0.9) - 1
    for t, g in enumerate(G * 3, 1):
        m, v = 0.8 * m + 0.2 * g, 0.9 * v + 0.1 * g * g
        length = longest - 2 * t * 0.9**t / (1 - 0.9**t)
        update = m / (1 - 0.8**t)
        if length > 5:
            r = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
            update *= math.sqrt(r) * math.sqrt(1 - 0.9**t) / (math.sqrt(v) + 1e-8)
        x -= 0.1 * update
        expected.append(x)
    assert values == pytest.approx(expected)
