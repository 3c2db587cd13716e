"""`autograd.grad` and `retain_graph` in compiled functions: one plan with the forward, and eager's bits."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import autograd, nn

from .agreement import CALLS, agree, draw, error_of, grads, needs_native_code


def _loss(x, w, v):
    h = ex.tanh(x @ w + v)
    return (h * h).mean() + (h[:, :3] - v[:3]).abs().sum()


def test_gradients_of_leaves():
    def scenario(wrap):
        w, v = draw(1, 6, 6, grad=True), draw(2, 6, grad=True)

        @wrap
        def step(x):
            return autograd.grad(_loss(x, w, v), [w, v])

        for i in range(CALLS):
            yield step(draw(i, 4, 6)), grads(w, v)

    agree(scenario)


def test_products_of_a_gradient_that_came_through_a_transpose():
    """The way a product is summed depends on how its inputs lie."""

    def scenario(wrap):
        w, v = draw(1, 5, 40, grad=True), draw(2, 7, 40)

        @wrap
        def step(x):
            (g,) = autograd.grad(((x @ w.T) ** 2).sum(), w)
            (h,) = autograd.grad(w.T.exp().sum(), w)
            return g.stride(), g @ g.T, v @ g.T, v @ h.T

        for i in range(CALLS):
            yield step(draw(i, 6, 40))

    agree(scenario)


@needs_native_code
def test_a_gradient_is_planned_with_its_forward():
    w, v = draw(1, 6, 6, grad=True), draw(2, 6, grad=True)

    @ex.compile
    def planned_gradient(x):
        return autograd.grad(_loss(x, w, v), [w, v])

    for i in range(20):
        planned_gradient(draw(i, 4, 6))
    (stats,) = [s for s in ex.compile.stats()["functions"] if s["name"].endswith("planned_gradient")]
    assert stats["plans"] == 1
    assert stats["runs"] >= 15
    assert sum(stats["closed"].values()) <= 3


def test_what_is_not_asked_for_gets_none():
    def scenario(wrap):
        w, v = draw(1, 6, 6, grad=True), draw(2, 6, grad=True)

        @wrap
        def step(x):
            loss = _loss(x, w, v)
            return autograd.grad(loss, v), loss

        for i in range(CALLS):
            yield step(draw(i, 4, 6)), grads(w, v)

    agree(scenario)


def test_gradients_of_what_is_on_the_way():
    def scenario(wrap):
        w, v = draw(1, 6, 6, grad=True), draw(2, 6, grad=True)

        @wrap
        def step(x):
            h = x @ w
            y, (low, high) = h.exp(), h.aminmax(dim=1)
            part = y[:, 1:4]
            loss = (y * v).sum() + part.sin().sum() + (low * high).sum() + h.mean()
            return autograd.grad(loss, [part, h, w, y, low, h])

        for i in range(CALLS):
            yield step(draw(i, 4, 6, scale=0.3))

    agree(scenario)


def test_a_gradient_that_comes_in():
    def scenario(wrap):
        w = draw(1, 6, 6, grad=True)

        @wrap
        def step(x, g):
            h = x @ w
            return autograd.grad(h.tanh(), [h, w], grad_outputs=g), autograd.grad([x @ w], [w], [g.double()])

        for i in range(CALLS):
            yield step(draw(i, 4, 6), draw(9 + i, 4, 6))

    agree(scenario)


def test_inputs_that_are_not_used():
    def scenario(wrap):
        w, v, alone = draw(1, 6, 6, grad=True), draw(2, 6, grad=True), draw(3, 2, grad=True)
        plain = draw(4, 3)

        @wrap
        def unused(x, **options):
            return autograd.grad(_loss(x, w, v), [alone, w, plain, x], **options)

        for i in range(CALLS):
            x = draw(i, 4, 6)
            yield unused(x, allow_unused=True), unused(x, materialize_grads=True), error_of(unused, x)

        @wrap
        def alone_only(x, **options):
            return autograd.grad(_loss(x, w, v), alone, **options)

        for i in range(CALLS):
            yield alone_only(draw(i, 4, 6), allow_unused=True), error_of(alone_only, draw(i, 4, 6))

    agree(scenario)


def test_a_graph_that_is_kept():
    def scenario(wrap):
        w, v = draw(1, 6, 6, grad=True), draw(2, 6, grad=True)

        @wrap
        def step(x):
            h = (x @ w).tanh()
            first = autograd.grad((h * v).sum(), [h, v], retain_graph=True)
            other = (h * h).mean()
            second = autograd.grad(other, [w], retain_graph=True)
            third = autograd.grad(other + h.exp().sum(), [w, h])
            return first, second, third, h, error_of(autograd.grad, other, w)

        for i in range(CALLS):
            yield step(draw(i, 4, 6))

    agree(scenario)


def test_backward_twice():
    def scenario(wrap):
        w, v = draw(1, 6, 6, grad=True), draw(2, 6, grad=True)

        @wrap
        def step(x):
            loss = _loss(x, w, v)
            loss.backward(retain_graph=True)
            first = w.grad.clone()
            loss.backward()
            return first, loss, error_of(loss.backward)

        for i in range(CALLS):
            yield step(draw(i, 4, 6)), grads(w, v)
            w.grad = v.grad = None

    agree(scenario)


def test_what_a_gradient_did_not_pass_is_not_freed():
    def scenario(wrap):
        w, v = draw(1, 6, 6, grad=True), draw(2, 6, grad=True)

        @wrap
        def step(x):
            h, u = (x @ w).exp(), (v * v).exp()
            loss = (h * u).sum()
            first = autograd.grad(loss, h)
            rest = autograd.grad(h.sum(), w), autograd.grad(u.sum(), v)
            return first, rest, error_of(autograd.grad, loss, v)

        for i in range(CALLS):
            yield step(draw(i, 4, 6, scale=0.3))

    agree(scenario)


def test_a_part_that_was_freed_is_an_error_even_where_no_gradient_is_asked_of_it():
    def scenario(wrap):
        w, v = draw(1, 6, 6, grad=True), draw(2, 6, grad=True)

        @wrap
        def step(x):
            h = (x * v).exp()
            first = autograd.grad(h.sum(), v)
            return first, error_of(autograd.grad, (h @ w).sum(), w)

        for i in range(CALLS):
            yield step(draw(i, 4, 6))

    agree(scenario)


def test_a_graph_that_began_outside():
    def scenario(wrap):
        w, v = draw(1, 6, 6, grad=True), draw(2, 6, grad=True)

        @wrap
        def step(x, h, **options):
            loss = _loss(x, w, v) + (h * w.sum(0)).exp().mean()
            return autograd.grad(loss, [w, h, v], **options)

        for i in range(CALLS):
            before = (draw(i, 6) * v).sin()
            yield step(draw(i, 4, 6), before, retain_graph=True), autograd.grad(before.sum(), v)
            before = (draw(i, 6) * v).sin()
            yield step(draw(i, 4, 6), before), error_of(autograd.grad, before.sum(), v)

    agree(scenario)


def test_a_gradient_outside_of_the_function():
    def scenario(wrap):
        layer = nn.Linear(6, 6)
        with ex.no_grad():
            layer.weight.copy_(draw(1, 6, 6))
        run = wrap(layer)

        for i in range(CALLS):
            x = draw(i, 4, 6, grad=True)
            y = run(x)
            loss = (y * y).sum()
            yield autograd.grad(loss, [x, layer.weight], retain_graph=True), y
            yield autograd.grad(loss + y.exp().mean(), [y, layer.bias]), error_of(autograd.grad, loss, x)

    agree(scenario)


@pytest.mark.parametrize("lengths", [(20, 20, 20, 20), (12, 20, 31, 12, 40, 9)])
def test_gradients_of_long_loops(lengths):
    def scenario(wrap):
        w, v = draw(1, 6, 6, grad=True), draw(2, 6, grad=True)

        @wrap
        def step(x, n):
            h = first = x @ w
            for _ in range(n):
                h = (h @ w + v).tanh()
            middle = h
            for _ in range(2):
                h = h * v
            return autograd.grad(h.sum(), [w, first, middle])

        @wrap
        def of_one_weight(x, n):
            h = x
            for _ in range(n):
                h = (h @ w + v).tanh()
            return autograd.grad(h.sum(), v, retain_graph=True), autograd.grad(h.exp().mean(), [w])

        for i, n in enumerate(lengths):
            yield step(draw(i, 4, 6), n), of_one_weight(draw(i, 4, 6), n)

    agree(scenario)


def test_a_gradient_that_was_read_before_more_is_added_to_it():
    def scenario(wrap):
        w = draw(1, 6, grad=True)

        @wrap
        def step(x):
            loss, other = (x * w).sum(), (x * w).exp().sum()
            loss.backward()
            first = w.grad.clone()
            other.backward()
            return first

        for i in range(CALLS):
            yield step(draw(i, 6)), grads(w)
            w.grad = None

    agree(scenario)


def test_a_leaf_that_is_written_in_the_middle_has_its_gradients_added_in_order():
    def scenario(wrap):
        w = draw(1, 64, grad=True)

        @wrap
        def step(x):
            y = (x + w) * x + (w + x)
            with ex.no_grad():
                w.mul_(1.1)
            y = y + (w + x) * 3.0 + (w - x) * 0.37
            y.sum().backward()

        for i in range(CALLS):
            step(draw(i, 64))
            yield grads(w)
            w.grad = None

    agree(scenario)


@needs_native_code
def test_the_gradient_of_roll_is_planned_for_any_shift():
    w = draw(1, 6, grad=True)

    @ex.compile
    def rolled_back(x, k):
        return autograd.grad((w.roll(k, 0) * x).sum(), w)

    for i in range(20):
        k = i % 7 - 3
        (found,) = rolled_back(draw(i, 6), k)
        assert ex.equal(found, draw(i, 6).roll(-k, 0))
    (stats,) = [s for s in ex.compile.stats()["functions"] if s["name"].endswith("rolled_back")]
    assert (stats["plans"], stats["unplannable"]) == (1, {})
