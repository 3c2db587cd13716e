"""The update formulas, by hand, in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest

import extempo as ex
from extempo import optim


def run(cls, gradients, start=1.0, **options):
    p = ex.tensor([start], dtype=ex.float64, requires_grad=True)
    optimizer = cls([p], **options)
    values = []
    for g in gradients:
        p.grad = ex.tensor([g], dtype=ex.float64)
        optimizer.step()
        values.append(p.item())
    return values, optimizer.state[p]


G = [0.5, -0.25, 2.0]


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


def test_asgd_averages_from_t0_on():
    values, state = run(optim.ASGD, [1.0] * 6, lr=0.1, lambd=0.0, t0=2)
    assert values == pytest.approx([1 - 0.1 * t for t in range(1, 7)], rel=1e-6)
    average, weight = 0.0, 1.0
    for t, x in enumerate(values, 1):
        average = x if weight == 1.0 else average + (x - average) * weight
        weight = 1 / max(1, t - 2)
    assert state["ax"].item() == pytest.approx(average, rel=1e-6)


def test_maximize_goes_the_other_way():
    for cls in (optim.SGD, optim.Adam, optim.RMSprop, optim.Rprop, optim.Adagrad, optim.Adamax, optim.NAdam):
        up, _ = run(cls, G, maximize=True)
        down, _ = run(cls, [-g for g in G])
        assert up == down


def test_the_step_count_is_a_tensor_of_the_default_dtype():
    p = ex.ones(1, requires_grad=True)
    p.grad = ex.ones(1)
    optimizer = optim.Adam([p])
    optimizer.step()
    step = optimizer.state[p]["step"]
    assert isinstance(step, ex.Tensor)
    assert step.dtype is ex.float32
    assert step.shape == ()


def test_half_precision_is_rounded_once_per_step():
    p = ex.tensor([1.0], dtype=ex.bfloat16, requires_grad=True)
    p.grad = ex.tensor([1.0], dtype=ex.bfloat16)
    optimizer = optim.Adam([p], lr=0.01)
    optimizer.step()
    assert p.item() == ex.tensor(0.99).to(ex.bfloat16).item()
    assert optimizer.state[p]["exp_avg"].dtype is ex.bfloat16


def test_huge_and_tiny_gradients_raise_no_warning():
    for cls in (optim.Adam, optim.Adagrad, optim.RMSprop, optim.Adadelta):
        values, _ = run(cls, [1e300, 0.0, 1e-300, np.inf])
        assert len(values) == 4
