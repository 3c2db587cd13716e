"""Results lie in memory as they do in eager mode: `see` shows the strides of every tensor."""

import numpy as np
import pytest

import extempo as ex
import extempo.nn.functional as F

from .agreement import CALLS, agree_on_calls, draw, grads, needs_native_code
from .static import static_agreement

LOOKS = {
    "transposed": lambda x: x.transpose(0, 1),
    "permuted": lambda x: x.permute(2, 0, 1),
    "sliced": lambda x: x[::2],
    "permuted and sliced": lambda x: x.permute(1, 2, 0)[:, 1:],
    "expanded": lambda x: x[:1].expand(4, 3, 5),
}


def chain(x):
    a = x.exp()
    b = a * 2 + x.sigmoid()
    return a, b, b.transpose(0, 1).relu(), b.sum(0), b.clone(), b.double(), F.gelu(b).reshape(-1), ex.where(b > 1, a, 0)


@pytest.mark.parametrize("look", LOOKS)
def test_what_is_computed_of_a_leaf(look):
    agree_on_calls(chain, lambda i: (LOOKS[look](draw(i, 4, 3, 5)),))


@pytest.mark.parametrize("look", LOOKS)
def test_what_is_computed_of_a_view_inside(look):
    agree_on_calls(lambda x: chain(LOOKS[look](x + 1)), lambda i: (draw(i, 4, 3, 5),))


@pytest.mark.parametrize("look", LOOKS)
def test_gradients(look):
    def fn(x, w):
        y = LOOKS[look](x.tanh())
        z = (y.exp() * y + y) @ w
        loss = (z * z).mean()
        loss.backward()
        return y, z, loss

    def make(i):
        n = LOOKS[look](ex.empty(4, 3, 5)).shape[-1]
        return draw(i, 4, 3, 5, grad=True), draw(i + 9, n, 2, grad=True)

    agree_on_calls(fn, make)


def test_gradients_of_leaves_that_lie_transposed():
    def make(i):
        x = draw(i, 4, 3).T.clone()
        assert x.stride() == (1, 3)
        return x.requires_grad_(), draw(i, 4, 2, grad=True)

    def fn(x, w):
        ((x.exp() * 2) @ w).sum().backward()

    agree_on_calls(fn, make)


def test_asked_gradients():
    def fn(x, w):
        y = x.T.exp() * w
        return ex.autograd.grad((y * y).sum(), (x, w, y))

    agree_on_calls(fn, lambda i: (draw(i, 3, 4, grad=True), draw(i, 4, 3, grad=True)))


def test_operands_that_lie_differently():
    def fn(x, y, row, column):
        return x.T + y, y + x.T, x.T * row, row * x.T, column + x.T * y, ex.where(x.T > 0, y, row)

    agree_on_calls(fn, lambda i: (draw(i, 3, 4), draw(i, 4, 3), draw(i, 3), draw(i, 4, 1)))


def test_the_same_function_of_tensors_that_lie_differently():
    looks = [lambda x: x, lambda x: x.T.contiguous().T, lambda x: x.repeat(2, 2)[:3, ::2], lambda x: x[:1].expand(3, 4)]
    agree_on_calls(lambda x: (x.exp() + 1, x.T * 2), lambda i: (looks[i % 4](draw(i, 3, 4)),), calls=4 * CALLS)


def test_values_that_are_read_on_the_way():
    def fn(x):
        y = x.T.exp()
        seen = y.sum().item() > 0
        z = y * 2 + seen
        return y, z, z.T.sigmoid(), y.is_contiguous(), z.stride()

    agree_on_calls(fn, lambda i: (draw(i, 3, 4),))


def test_a_view_that_would_take_a_copy_is_refused():
    agree_on_calls(lambda x: x.T.exp().view(-1), lambda i: (draw(i, 3, 4),))
    agree_on_calls(lambda x: x.T.exp().reshape(-1), lambda i: (draw(i, 3, 4),))


def test_a_loop():
    def fn(x, w):
        h = x.T.tanh()
        for _ in range(30):
            h = (h @ w).tanh().T.exp().T * 0.1 + h
        loss = h.sum()
        loss.backward()
        return h, loss

    agree_on_calls(fn, lambda i: (draw(i, 3, 4, grad=True), draw(i, 3, 3, grad=True)))


def test_sizes_that_are_new():
    def fn(x, w):
        h = (x.transpose(0, 1).exp() * w).transpose(0, 1)
        loss = (h.sigmoid() @ w).mean()
        loss.backward()
        return h, h.transpose(0, 1) + 1

    def make(i):
        return draw(i, 5 + 3 * i, 2, 4, grad=True), draw(i, 4, grad=True)

    agree_on_calls(fn, make, calls=12)


@pytest.mark.parametrize("seed", range(12))
def test_random_expressions(seed):
    rng = np.random.default_rng(seed)
    moves = rng.integers(0, 8, size=12).tolist()

    def fn(x, y, w):
        values = [x, y]
        for i, move in enumerate(moves):
            a, b = values[-1], values[(i * 7) % len(values)]
            b = b if b.shape == a.shape else b.T
            step = [
                lambda a, b: a.T, lambda a, b: a * b, lambda a, b: b + a.tanh(), lambda a, b: (a @ w).sigmoid(),
                lambda a, b: ex.maximum(a, b.T.exp().T), lambda a, b: a - b.mean(0), lambda a, b: a.clone().T,
                lambda a, b: ex.where(a > b, a, 0.5),
            ][move]  # fmt: skip
            values.append(step(a, b))
        loss = (values[-1] * values[-2 if values[-1].shape == values[-2].shape else -1]).sum()
        loss.backward()
        return values[2:]

    agree_on_calls(fn, lambda i: tuple(draw(i + 5 * k, 4, 4, grad=True) for k in range(3)))


@needs_native_code
@pytest.mark.parametrize("look", LOOKS)
def test_static_functions(look):
    def scenario(wrap):
        def step(x, w):
            y = LOOKS[look](x).exp()
            (y * w).sum().backward()
            return y, y + 1

        run = wrap(step)
        for i in range(CALLS):
            x, w = draw(i, 4, 3, 5, grad=True), draw(i, 5, grad=True)[: LOOKS[look](ex.empty(4, 3, 5)).shape[-1]]
            yield run(x, w), grads(x)

    static_agreement.agree(scenario)
