"""`autograd.grad` and `retain_graph` in static functions: planned, and eager's bits."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import autograd, nn

from ..agreement import draw, grads, needs_native_code
from .static_agreement import CALLS, agree, static


def _weights():
    return draw(1, 6, 6, grad=True), draw(2, 6, grad=True)


def test_gradients_of_leaves_and_of_what_is_on_the_way():
    def scenario(wrap):
        w, v = _weights()

        @wrap
        def step(x):
            h = (x @ w).tanh()
            loss = (h * v).exp().mean()
            first, again, inner = autograd.grad(loss, [w, w, h])
            return first + 1, again, inner, loss

        for i in range(CALLS):
            yield step(draw(i, 4, 6)), grads(w, v)

    agree(scenario)


def test_a_gradient_that_comes_in_and_one_of_an_argument():
    def scenario(wrap):
        w, _ = _weights()
        step = wrap(lambda x, g: autograd.grad([(x @ w).tanh()], [x, w], grad_outputs=[g * 2]))
        for i in range(CALLS):
            yield step(draw(i, 4, 6, grad=True), draw(i + 9, 4, 6))

    agree(scenario)


def test_what_is_used_again_after_its_gradient():
    def scenario(wrap):
        w, v = _weights()

        @wrap
        def step(x):
            h, u = (x @ w).tanh(), (v * v).exp()
            first = autograd.grad((h * u).sum(), h)
            return first, autograd.grad(u.sum() + w.mean(), [v, w])

        for i in range(CALLS):
            yield step(draw(i, 4, 6))

    agree(scenario)


def test_a_graph_that_is_kept():
    def scenario(wrap):
        w, v = _weights()

        @wrap
        def step(x):
            h = (x @ w).tanh()
            loss = (h * v).sum()
            first = autograd.grad(loss, [h, w], retain_graph=True)
            loss.backward(retain_graph=True)
            second = autograd.grad(h.exp().mean() + loss, w)
            return first, second, h.detach()

        for i in range(CALLS):
            yield step(draw(i, 4, 6)), grads(w, v)

    agree(scenario)


def test_inputs_that_are_not_used():
    def scenario(wrap):
        w, v = _weights()
        step = wrap(lambda x: autograd.grad((x @ w).exp().sum(), [w, v], materialize_grads=True))
        for i in range(CALLS):
            yield step(draw(i, 4, 6))

    agree(scenario)


def test_a_graph_that_began_outside():
    def scenario(wrap):
        w, v = _weights()
        step = wrap(lambda x, h: autograd.grad((x @ w).exp().mean() + (h * w).sum(), [w, h]))
        for i in range(CALLS):
            yield step(draw(i, 4, 6), draw(i, 6) * v)

    agree(scenario)


@needs_native_code
def test_a_gradient_is_planned_with_its_forward():
    model = nn.Linear(6, 6)

    @static
    def static_gradient(x):
        return autograd.grad(model(x).tanh().square().mean(), list(model.parameters()))

    for i in range(5):
        static_gradient(draw(i, 4, 6))
    (stats,) = [s for s in ex.compile.stats()["functions"] if s["name"].endswith("static_gradient")]
    assert (stats["plans"], stats["runs"]) == (1, 4)


IN_PLACE = {
    "addcdiv_": lambda y: y.addcdiv_(y, y, value=0.5),
    "addmm_": lambda y: y.addmm_(y, y),
    "addr_": lambda y: y.addr_(y[0], y[1]),
    "ldexp_": lambda y: y.ldexp_(y),
    "renorm_": lambda y: y.renorm_(2, 0, 1.0),
    "scatter_reduce_": lambda y: y.scatter_reduce_(0, ex.tensor([[0, 1, 0]]), y[:1].clone(), "prod"),
    "index_put_": lambda y: y.index_put_((ex.tensor([0]),), y[1] * 2),
}


@pytest.mark.parametrize("write", IN_PLACE.values(), ids=list(IN_PLACE))
def test_a_value_is_overwritten_by_several_ops_that_read_it(write):
    def scenario(wrap):
        w = draw(1, 3, 3, grad=True)

        @wrap
        def step(x):
            y = x * w
            (write(y) * x).sum().backward()
            return y

        for i in range(CALLS):
            w.grad = None
            yield step(draw(i, 3, 3)), grads(w)

    agree(scenario)
