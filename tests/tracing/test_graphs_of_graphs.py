"""Gradients of gradients, functions with a backward of their own, checkpoints, saved-tensor hooks and transforms."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import autograd
from extempo.nn import functional as F
from extempo.utils.checkpoint import checkpoint

from .agreement import CALLS, agree, agree_on_calls, draw, grads, needs_native_code


def weights(i=0):
    return draw(i + 70, 4, 5, grad=True), draw(i + 71, 5, 2, grad=True)


@pytest.mark.parametrize("where", ["inside", "outside"])
def test_a_gradient_penalty(where):
    def scenario(wrap):
        w, v = weights()

        def penalty(x, score):
            (g,) = autograd.grad(score, x, create_graph=True)
            return (g.norm(2, 1) - 1).square().mean() + score * 0.1

        def f(x):
            score = ((x @ w).tanh() @ v).sum()
            return penalty(x, score) if where == "inside" else score

        run = wrap(f)
        for i in range(CALLS):
            x = draw(i, 3, 4, grad=True)
            loss = run(x)
            if where == "outside":
                loss = penalty(x, loss)
            loss.backward()
            yield loss, grads(w, v, x)

    agree(scenario)


def test_backward_of_a_gradient_inside():
    def scenario(wrap):
        w, v = weights()

        def f(x):
            y = ((x @ w).sigmoid() @ v).sum()
            g = autograd.grad(y, [w, v], create_graph=True)
            (y + sum(t.square().sum() for t in g)).backward()
            return y, g

        run = wrap(f)
        for i in range(CALLS):
            y, g = run(draw(i, 3, 4))
            yield y, g, grads(w, v)
            w.grad = v.grad = None

    agree(scenario)


def test_third_derivatives():
    def f(x):
        y = x.sin().exp().sum()
        for _ in range(3):
            (g,) = autograd.grad(y, x, create_graph=True)
            y = (g * x).sum()
        return y, g

    agree_on_calls(f, lambda i: (draw(i, 4, grad=True),), then=lambda r: r[0].backward())


def test_functions_with_their_own_backward():
    class Cube(autograd.Function):
        @staticmethod
        def forward(ctx, x, k):
            ctx.save_for_backward(x)
            ctx.k = k
            return x * x * x * k

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 3 * x * x * g * ctx.k, None

    def scenario(wrap):
        w, v = weights()

        def f(x):
            h = Cube.apply((x @ w).tanh(), 2.0)
            return (h @ v).sum()

        run = wrap(f)
        inside = wrap(lambda x: f(x).backward())
        for i in range(CALLS):
            loss = run(draw(i, 3, 4))
            loss.backward()
            inside(draw(i + 9, 3, 4))
            yield loss, grads(w, v)

    agree(scenario)


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("use_reentrant", [True, False])
def test_checkpoints(inside, use_reentrant):
    def scenario(wrap):
        w, v = weights()

        def f(x):
            h = checkpoint(lambda t: F.dropout((t @ w).tanh(), 0.3), x, use_reentrant=use_reentrant)
            loss = (h @ v).square().sum()
            if inside:
                loss.backward()
            return loss

        run = wrap(f)
        for i in range(CALLS):
            loss = run(draw(i, 3, 4, grad=True))
            if not inside:
                loss.backward()
            yield loss, grads(w, v)

    agree(scenario)


def test_a_compiled_function_inside_a_checkpoint():
    def scenario(wrap):
        w, v = weights()
        block = wrap(lambda t: (t @ w).tanh())
        for i in range(CALLS):
            h = checkpoint(block, draw(i, 3, 4, grad=True), use_reentrant=False)
            (h @ v).sum().backward()
            yield h, grads(w, v)

    agree(scenario)


@pytest.mark.parametrize("place", ["inside", "around"])
def test_saved_tensors_hooks(place):
    def scenario(wrap):
        w, v = weights()
        packed = []

        def pack(t):
            packed.append(tuple(t.shape))
            return t * 1

        hooks = lambda: autograd.graph.saved_tensors_hooks(pack, lambda t: t)  # noqa: E731 - a name for two uses

        def f(x):
            h = x @ w
            if place == "inside":
                with hooks():
                    h = (h.exp() * h).tanh()
            else:
                h = (h.exp() * h).tanh()
            return (h @ v).sum()

        run = wrap(f)
        for i in range(CALLS):
            if place == "around":
                with hooks():
                    loss = run(draw(i, 3, 4))
            else:
                loss = run(draw(i, 3, 4))
            loss.backward()
            yield loss, grads(w, v), packed

    agree(scenario)


def test_transforms_inside_and_around():
    def scenario(wrap):
        w = draw(3, 4, grad=True)

        def inside(x):
            per_row = ex.func.vmap(lambda r: (r * w).sin().sum())(x * 2)
            slope = ex.func.grad(lambda t: (t * t).sum())(x)
            return per_row.sum() + slope.mean()

        def plain(r):
            return (r * r).tanh().sum()

        run, around = wrap(inside), wrap(plain)
        for i in range(CALLS):
            x = draw(i, 3, 4)
            loss = run(x)
            loss.backward()
            yield loss, w.grad
            yield ex.func.vmap(around)(x), ex.func.grad(around)(x[0]), ex.func.jacrev(around)(x)

    agree(scenario)


@needs_native_code
def test_a_gradient_with_a_graph_does_not_run_the_tape_node_by_node():
    w = draw(0, 4, grad=True)

    def slope(x):
        for _ in range(50):
            x = (x * w).tanh()
        (g,) = ex.autograd.grad(x.sum(), w, create_graph=True)
        return (g * g).sum()

    run = ex.compile(slope)
    run(draw(1, 4)).backward()
    found = next(f for f in ex.compile.stats()["functions"] if f["name"].endswith("slope"))
    assert found["replays"] + found["runs"] < 10


def test_contributions_to_values_that_were_saved_are_added_in_order():
    """In a gradient with a graph the result of tanh and what gelu read are two tensors of one node."""

    def scenario(wrap):
        w = draw(0, 4, 4, grad=True)

        def f(x):
            y = F.gelu((x @ w).tanh())
            (g,) = autograd.grad(y.square().sum(), w, create_graph=True)
            penalty = (g * g).sum()
            penalty.backward()
            return y, g, penalty

        run = wrap(f)
        for i in range(2 * CALLS):
            yield run(draw(i, 4, 4)), grads(w)

    agree(scenario)
