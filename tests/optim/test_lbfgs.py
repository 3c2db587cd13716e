"""LBFGS: it solves what it should, counts what it does, and starts anew when its vector changes."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import optim


def rosenbrock(x):
    return 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2


def minimise(x, n_steps=20, **options):
    optimizer = optim.LBFGS([x], **options)
    calls = []

    def closure():
        optimizer.zero_grad()
        loss = rosenbrock(x)
        loss.backward()
        calls.append(loss.item())
        return loss

    for _ in range(n_steps):
        optimizer.step(closure)
    return optimizer, calls


def test_the_line_search_finds_the_minimum_of_a_curved_valley():
    x = ex.tensor([-1.5, 2.0], dtype=ex.float64, requires_grad=True)
    minimise(x, line_search_fn="strong_wolfe")
    assert ex.allclose(x, ex.ones(2, dtype=ex.float64))


def test_evaluations_and_iterations_are_counted_and_limited():
    x = ex.tensor([-1.5, 2.0], dtype=ex.float64, requires_grad=True)
    optimizer, calls = minimise(x, 1, max_iter=30, max_eval=7, line_search_fn="strong_wolfe")
    state = optimizer.state[x]
    assert state["func_evals"] == len(calls)
    assert len(calls) <= 8
    assert 0 < state["n_iter"] <= 7


def test_the_history_is_bounded():
    x = ex.tensor([-1.5, 2.0], dtype=ex.float64, requires_grad=True)
    optimizer, _ = minimise(x, 3, history_size=4, line_search_fn="strong_wolfe")
    assert len(optimizer.state[x]["old_dirs"]) == 4


def test_it_stops_where_the_gradient_vanishes():
    x = ex.ones(2, dtype=ex.float64, requires_grad=True)
    _, calls = minimise(x, 1)
    assert calls == [0.0]


def test_parameters_are_one_vector_and_may_lack_gradients():
    a, b = ex.tensor([3.0], requires_grad=True), ex.tensor([[5.0]], requires_grad=True)
    unused = ex.ones(2, requires_grad=True)
    optimizer = optim.LBFGS([a, unused, b])

    def closure():
        optimizer.zero_grad()
        loss = (a**2).sum() + 2 * (b**2).sum()
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)
    assert abs(a.item()) + abs(b.item()) < 1e-3
    assert unused.tolist() == [1.0, 1.0]


def test_the_search_leaves_parameters_alone_when_the_closure_fails():
    x = ex.tensor([2.0], requires_grad=True)
    optimizer = optim.LBFGS([x], line_search_fn="strong_wolfe")
    calls = []

    def closure():
        calls.append(1)
        if len(calls) == 2:
            raise RuntimeError("out of data")
        optimizer.zero_grad()
        loss = (x**2).sum()
        loss.backward()
        return loss

    with pytest.raises(RuntimeError, match="out of data"):
        optimizer.step(closure)
    assert x.item() == 2.0


def test_a_step_without_a_closure_and_a_second_group_are_refused():
    x = ex.ones(1, requires_grad=True)
    optimizer = optim.LBFGS([x])
    with pytest.raises(TypeError, match="closure"):
        optimizer.step()
    with pytest.raises(ValueError, match="one group"):
        optimizer.add_param_group({"params": [ex.ones(1)]})


def test_a_changed_vector_starts_a_new_history():
    x = ex.tensor([-1.5, 2.0], dtype=ex.float64, requires_grad=True)
    optimizer, _ = minimise(x, 2)
    new = ex.ones(3, dtype=ex.float64, requires_grad=True)
    optimizer.remap({x: (new, ([0, 1, -1],))})
    assert not optimizer.state
    assert optimizer.param_groups[0]["params"][0] is new


def test_a_straight_line_is_followed_ten_times_as_far():
    x = ex.zeros(1, requires_grad=True)
    optimizer = optim.LBFGS([x], max_iter=2, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = x.sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    assert x.item() == -10.0
