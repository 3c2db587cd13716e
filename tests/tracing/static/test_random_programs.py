"""Random programs as static functions: the same bits as eager, call after call."""

from __future__ import annotations

import random

import pytest

import extempo as ex
from extempo import nn, optim
from extempo.errors import OverwrittenError
from extempo.nn import functional as F

from ..agreement import draw, grads
from .static_agreement import agree, state

CALLS = 4
N_PROGRAMS = 60


class Program:
    """A body made of random moves, the same for a seed, on tensors of one shape."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        names = [name for name in dir(self) if name.startswith("move_")]
        self.moves = [(self.rng.choice(names), self.rng.random()) for _ in range(self.rng.randint(4, 20))]
        self.weights = [draw(seed + i, 3, 3, grad=True) for i in range(3)]
        self.buffers = [draw(seed + 5, 3, 3)]
        self.layer = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.3), nn.BatchNorm1d(3))
        self.optimizer = optim.SGD([*self.weights, *self.layer.parameters()], lr=0.01, momentum=0.5)

    def body(self, x, y, factor):
        values = [x, y, *self.weights, *self.buffers]
        for name, seed in self.moves:
            rng = random.Random(seed)
            first, second = (values[rng.choice([-1, -2, -3, -4, *range(len(values))])] for _ in range(2))
            made = getattr(self, name)(rng, first, second, factor)
            if name == "move_backward":
                values = [v if v.is_leaf else v.detach() for v in values]
            values += made
        loss = (values[-1] * values[-2]).sum()
        if loss.requires_grad:
            loss.backward()
        return {"last": values[-1], "more": [values[-3], factor, loss]}

    def move_function(self, rng, a, b, factor):
        return [getattr(a, rng.choice(["tanh", "sin", "relu", "sigmoid", "abs", "neg"]))()]

    def move_operator(self, rng, a, b, factor):
        return [rng.choice([ex.add, ex.sub, ex.mul, ex.maximum])(a, b).clamp(-3, 3)]

    def move_number(self, rng, a, b, factor):
        return [rng.choice([lambda: a * factor, lambda: factor - a, lambda: 2 - a, lambda: a / 3])().tanh()]

    def move_product(self, rng, a, b, factor):
        return [(a @ b).tanh()]

    def move_reduce(self, rng, a, b, factor):
        return [rng.choice([lambda: a.sum(0, keepdim=True) - b, lambda: a.softmax(1), lambda: a.amax(0) * b])().tanh()]

    def move_several(self, rng, a, b, factor):
        values, places = a.max(1, keepdim=True)
        return [values + b, b - places]

    def move_view(self, rng, a, b, factor):
        ways = [lambda: a.T, lambda: a[0].expand(3, 3), lambda: a[:, [0, 2, 1]], lambda: a.T.reshape(3, 3)]
        return [rng.choice(ways)()]

    def move_write(self, rng, a, b, factor):
        return [rng.choice([lambda: (a * 1).sub_(b), lambda: (a * 1).relu_()])().clamp(-3, 3)]

    def move_write_part(self, rng, a, b, factor):
        c = a + 0
        c[rng.randrange(3)] = b[0]
        return [c]

    def move_write_buffer(self, rng, a, b, factor):
        with ex.no_grad():
            self.buffers[0].mul_(0.5).add_(a.detach() * 0.1)
        return []

    def move_fill(self, rng, a, b, factor):
        c = ex.zeros(3, 3)
        c += a.detach()
        c[1] = 2.0
        return [c, b + ex.tensor([1.0, 2.0, 3.0])]

    def move_eager(self, rng, a, b, factor):
        return [rng.choice([lambda: ex.cumsum(a, 0), lambda: ex.sort(a, 1).values])().tanh()]

    def move_random(self, rng, a, b, factor):
        return [rng.choice([lambda: a * ex.rand(3, 3), lambda: F.dropout(a, 0.5), lambda: b + ex.randn(3, 3)])().tanh()]

    def move_layer(self, rng, a, b, factor):
        return [self.layer(a)]

    def move_no_grad(self, rng, a, b, factor):
        with ex.no_grad():
            return [(a * b).cos()]

    def move_backward(self, rng, a, b, factor):
        loss = (a * b).sum()
        if loss.requires_grad:
            loss.backward()
        return [loss.detach().tanh() + b.detach()]

    def move_step(self, rng, a, b, factor):
        rng.choice([self.optimizer.zero_grad, self.optimizer.step])()
        return []


@pytest.mark.parametrize("seeds", [range(i, i + 10) for i in range(0, N_PROGRAMS, 10)])
def test_random_programs_agree(seeds):
    def scenario(wrap, seed):
        ex.manual_seed(seed)
        program = Program(seed)
        run = wrap(program.body)
        for i in range(CALLS):
            x, y = draw(i, 3, 3), draw(i + 50, 3, 3)
            try:
                result = run(x, y, 0.5 + i)
            except OverwrittenError as error:
                result = type(error).__name__
            yield result, x, y, program.buffers, state(program.layer), grads(*program.weights)
            if i == 2:
                program.optimizer.step()

    for seed in seeds:
        agree(scenario, seed)
