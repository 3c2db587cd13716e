"""Plans of long loops are made from those of short ones, and are the same to the bit."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="plans are native code")

import extempo as ex
from extempo.backends.selection import native

from .loops import CASES, LSTM, draw, inputs, lstm
from .taping import check

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)

F = ex.nn.functional


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("n", [20, 21, 40])
def test_a_long_loop_has_eager_bits(name, n, rolled):
    fn, shapes, shape, expected = CASES[name]
    arguments = [draw(*s, seed=i) for i, s in enumerate(shapes)]
    check(fn, [*arguments, *inputs(n, *shape)])
    assert rolled == [expected]


def test_only_forward(rolled):
    arguments = [draw(*s, seed=i, requires_grad=False) for i, s in enumerate(LSTM)]
    check(lstm, [*arguments, *inputs(30, 2, 4)])
    assert rolled == [True]


def test_inputs_with_gradients_are_planned_as_they_are(rolled):
    arguments = [draw(*s, seed=i) for i, s in enumerate(LSTM)]
    check(lstm, [*arguments, *inputs(20, 2, 4, requires_grad=True)])
    assert rolled == [False]


def test_states_that_are_needed_later_are_planned_as_they_are(rolled):
    def stacked(w, u, h, *xs):
        states = []
        for x in xs:
            h = (x @ w + h @ u).tanh()
            states.append(h)
        return (ex.stack(states) ** 2).sum()

    check(stacked, [draw(4, 3), draw(3, 3), draw(2, 3), *inputs(20, 2, 4)])
    assert rolled == [False]


MOVES = [
    lambda x, h, c, w, u, b, number: h @ u,
    lambda x, h, c, w, u, b, number: x @ w,
    lambda x, h, c, w, u, b, number: h * number + c,
    lambda x, h, c, w, u, b, number: h.tanh() * c.sigmoid(),
    lambda x, h, c, w, u, b, number: ex.cat([h[:, 2:], c[:, :2]], 1),
    lambda x, h, c, w, u, b, number: F.softmax(h + c, -1),
    lambda x, h, c, w, u, b, number: F.layer_norm(h, (4,)) + b,
    lambda x, h, c, w, u, b, number: h - c.mean(0),
    lambda x, h, c, w, u, b, number: h.relu() + h.sum(1, keepdim=True) * 0.1,
    lambda x, h, c, w, u, b, number: (h.T @ c) @ u.T,
    lambda x, h, c, w, u, b, number: h.T.reshape(2, 8).reshape(4, 4) * c,
]


@pytest.mark.parametrize("seed", range(40))
def test_a_random_loop_has_eager_bits(seed, rolled):
    rng = np.random.default_rng(seed)
    choices = rng.integers(0, 11, rng.integers(3, 9)).tolist()
    numbers = rng.normal(size=len(choices)).tolist()

    def body(x, h, c, w, u, b):
        for choice, number in zip(choices, numbers, strict=True):
            h, c = MOVES[choice](x, h, c, w, u, b, number), h
        return h.tanh(), c.tanh()

    def fn(w, u, b, h, c, *xs):
        total = (h * 0).sum()
        for x in xs:
            h, c = body(x, h, c, w, u, b)
            if seed % 3 == 0:
                total = total + h.sum() * 0.5
        return total + (h * c).sum()

    shapes = [(3, 4), (4, 4), (4,), (4, 4), (4, 4)]
    arguments = [draw(*s, seed=i) for i, s in enumerate(shapes)]
    check(fn, [*arguments, *inputs(int(rng.integers(17, 40)), 4, 3)])
