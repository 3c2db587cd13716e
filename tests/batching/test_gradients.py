"""The backward of a run: one node, whose gradients go through the batches in reverse."""

from __future__ import annotations

import functools
import gc

import numpy as np
import pytest

import extempo as ex
from extempo.backends.selection import native

from .agreement import check, close, draw, rows


def test_second_derivatives_are_refused_with_advice():
    w = draw(0, 2).requires_grad_()
    (y,) = ex.batch(lambda x: (x * w * w).sum())(rows(1, 2))
    with pytest.raises(ex.errors.UnsupportedError, match="debug=True"):
        ex.autograd.grad(y, w, create_graph=True)


def test_hooks_see_the_gradient_of_their_sample():
    w = draw(0, 3).requires_grad_()

    def both(batch):
        seen = {}

        def run(x, i):
            y = x * w
            y.register_hook(lambda g: seen.__setitem__(i, g.tolist()))
            return (y * y).sum() * (i + 1)

        w.grad = None
        sum(batch(run)(rows(4, 3), range(4))).backward()
        return seen, w.grad.numpy().copy()

    seen, gradient = both(ex.batch)
    expected, expected_gradient = both(lambda fn: ex.batch(fn, debug=True))
    assert seen.keys() == expected.keys()
    for i in seen:
        np.testing.assert_allclose(seen[i], expected[i], rtol=1e-5)
    np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-5)


def test_functions_with_gradients_of_their_own():
    class Cube(ex.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 3 * x * x * g

    w = draw(0, 3).requires_grad_()
    check(lambda x: (Cube.apply(x * w) * 2).sum(), rows(4, 3), parameters=[w])


def test_gradients_of_tensors_from_outside():
    x, memory = draw(0, 6, 3).requires_grad_(), draw(1, 80, 80).requires_grad_()

    def both(batch):
        state = (memory * 0.1).tanh()  # has a history of its own, and is large

        def run(row):
            return (row.sum() * state[:3, :3] @ row).sum() + (state @ state[0]).sum() * row[0]

        x.grad = memory.grad = None
        sum(batch(run)(x)).backward()
        return x.grad.numpy().copy(), memory.grad.numpy().copy()

    for a, b in zip(both(ex.batch), both(lambda fn: ex.batch(fn, debug=True)), strict=True):
        close(a, b, "gradient")


def test_a_weight_that_is_written_before_backward():
    w = draw(0, 3).requires_grad_()
    got = ex.batch(lambda x: (x * w).tanh().sum())(rows(3, 3))
    with ex.no_grad():
        w.mul_(2)
    with pytest.raises(ex.errors.OverwrittenError):
        sum(got).backward()


def test_backward_twice():
    w = draw(0, 3).requires_grad_()
    loss = sum(ex.batch(lambda x: (x * w).tanh().sum())(rows(3, 3)))
    loss.backward(retain_graph=True)
    once = w.grad.numpy().copy()
    loss.backward()
    np.testing.assert_allclose(w.grad.numpy(), 2 * once, rtol=1e-5)
    with pytest.raises(ex.errors.GraphFreedError):
        loss.backward()


def test_what_a_result_was_not_computed_from_has_no_gradient():
    """Though it shares batches with what has one."""
    used, unused = ([draw(i, 3).requires_grad_() for i in range(k, k + 4)] for k in (0, 10))

    def run(a, b):
        y, _ = (a * 2.0).tanh(), (b * 2.0).tanh()
        return y.sum() + (b * 1.0).detach().sum()

    check(run, used, unused, parameters=[*used, *unused])
    assert all(t.grad is not None for t in used)
    assert all(t.grad is None for t in unused)


def test_what_a_level_of_a_loop_was_not_computed_from_has_no_gradient():
    first, others = ([draw(i, 3).requires_grad_() for i in range(k, k + 3)] for k in (0, 10))

    def run(a, b):
        x, y = a, b
        for _ in range(9):
            x, y = (x * 1.5).tanh(), (y * 1.5).tanh()
        return x.sum()

    check(run, first, others, parameters=[*first, *others])


def _counted(x, cell, more):
    h = ex.zeros(32)
    for row in x:
        h = cell(row, h)
        if more(h).item() > 1e9:
            break
    return h.sum()


@pytest.mark.skipif(native() is None, reason="memory is counted by the native pool")
def test_the_last_backward_keeps_nothing_of_what_it_has_been_through():
    memory = native().memory
    cell, more = ex.nn.GRUCell(32, 32), ex.nn.Linear(32, 1)
    batched = ex.batch(functools.partial(_counted, cell=cell, more=more))
    found = {}
    for keep in (False, True, False, True, False, True):  # the first calls run in other ways
        for p in cell.parameters():
            p.grad = None
        gc.collect()
        before = memory.stats()["bytes_in_use"]
        loss = sum(batched([draw(i, 12, 32) for i in range(16)]))
        memory.reset_peak()
        loss.backward(retain_graph=keep)
        peak = memory.stats()["peak_bytes_in_use"] - before
        found[keep] = peak, [p.grad.numpy().copy() for p in cell.parameters()]
        del loss
    (kept, expected), (let_go, got) = found[True], found[False]
    assert let_go < 0.9 * kept
    for a, b in zip(got, expected, strict=True):
        close(a, b, "gradients")
