"""In-place writes into what a gradient reads: the same gradients as in eager mode, or the same refusal."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn

from .agreement import CALLS, agree, agree_on_calls, draw, error_of, grads


def mul_after_use(w, c):
    b = c * 1
    k = w * b
    b.mul_(0.5)
    return k


def mul_part_after_use(w, c):
    b = c * 1
    k = (w * b).exp()
    b[1:].mul_(0.5)
    return k, b


def mul_by_tracked(w, c):
    a = c * 1
    a.mul_(w)
    return a


def mul_by_recorded(w, c):
    a = c * 1
    view = a[1:]
    a.mul_(w * 2)
    return a, view


def mul_argument_by_recorded(w, c):
    c.mul_(w * 2)
    return c * 1


def mul_after_a_read(w, c):
    a = c * 1
    k = w * a
    k.sum().item()
    a.mul_(w * 2)
    return a, k


def write_detached_part(w, c):
    h = w * c
    d = h.detach()
    k = h.sin() * d
    d.zero_()
    return k


MIXED = [
    mul_after_use,
    mul_part_after_use,
    mul_by_tracked,
    mul_by_recorded,
    mul_argument_by_recorded,
    mul_after_a_read,
    write_detached_part,
]


@pytest.mark.parametrize("fn", MIXED, ids=lambda f: f.__name__)
def test_writes_into_untracked_values_that_gradients_read(fn):
    def total(w, c):
        result = fn(w, c)
        return sum(t.sum() for t in (result if isinstance(result, tuple) else (result,)) if t.requires_grad)

    agree_on_calls(total, lambda i: (draw(i, 4, grad=True), draw(i + 9, 4)), then=lambda loss: loss.backward())
    agree_on_calls(lambda w, c: total(w, c).backward(), lambda i: (draw(i, 4, grad=True), draw(i + 9, 4)))


def test_a_leaf_that_requires_grad_cannot_be_written():
    def scenario(wrap):
        def f(w, x):
            y = w * x
            w.add_(1.0)
            return y

        run = wrap(f)
        for i in range(CALLS):
            w = draw(0, 3, grad=True)
            yield error_of(run, w, draw(i, 3)), w

    agree(scenario)


def test_a_leaf_written_under_no_grad_between_two_uses():
    def scenario(wrap):
        w = draw(0, 3, grad=True)

        def f(x):
            a = w + x
            with ex.no_grad():
                w.mul_(0.5)
            b = w + x
            return (a + b).sum()

        run = wrap(f)
        for i in range(CALLS):
            loss = run(draw(i, 3))
            loss.backward()
            yield loss, w, w.grad

    agree(scenario)


def test_a_leaf_that_a_gradient_needs_is_written():
    def scenario(wrap):
        w = draw(0, 3, grad=True)

        def f(x):
            a = (w * w * x).sum()
            with ex.no_grad():
                w.mul_(0.5)
            return a

        run = wrap(f)
        for i in range(CALLS):
            loss = run(draw(i, 3))
            yield loss, w, error_of(loss.backward), w.grad

    agree(scenario)


def test_a_value_that_a_gradient_needs_is_written_after_the_call():
    def scenario(wrap):
        w = draw(0, 3, grad=True)

        def f(x):
            h = (x * w).exp()
            return h, (h * 2).sum()

        run = wrap(f)
        for i in range(CALLS):
            h, loss = run(draw(i, 3))
            h.detach().zero_()
            yield loss, h, error_of(loss.backward), w.grad

    agree(scenario)


def test_an_argument_is_overwritten_between_the_call_and_backward():
    def scenario(wrap):
        w = draw(0, 3, grad=True)
        run = wrap(lambda x: (x * w).sum())
        for i in range(CALLS):
            x = draw(i, 3)
            loss = run(x)
            x.zero_()
            yield loss, error_of(loss.backward), w.grad

    agree(scenario)


def test_resizing_and_set_data_inside():
    def scenario(wrap):
        w = nn.Parameter(draw(0, 3))

        def f(x):
            y = (w * x).sum()
            w.data = w.data * 0.5
            return y + (w * x).sum()

        run = wrap(f)
        for i in range(CALLS):
            loss = run(draw(i, 3))
            yield loss, w, error_of(loss.backward), w.grad

    agree(scenario)


@pytest.mark.parametrize("name", ["addcmul_", "addcdiv_", "logit_", "renorm_"])
@pytest.mark.parametrize("first", [True, False])
def test_a_value_is_overwritten_by_several_ops_that_read_it(name, first):
    """Each of them keeps what it read, however many ops the one method is made of."""
    args = {"logit_": lambda x: (0.1,), "renorm_": lambda x: (2, 0, 1.0)}.get(name, lambda x: (x, x))

    def scenario(wrap):
        w = draw(0, 3, 4, grad=True)

        def f(x, rows):
            more = rows * 2 if first else rows
            getattr(x, name)(*args(x))
            return (more @ x.T).sum()

        run = wrap(f)
        for i in range(CALLS):
            loss = run(w * draw(i, 3, 4), draw(i, 2, 4))
            loss.backward()
            yield loss, grads(w)

    agree(scenario)
