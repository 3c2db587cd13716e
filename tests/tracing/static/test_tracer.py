"""Arguments, results, writes and views of static functions, and other functions around and inside them."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import NamedTuple

import pytest

import extempo as ex
from extempo import nn
from extempo.errors import IndexRangeError, ShapeError

from ..agreement import draw, grads, needs_native_code, whole
from .static_agreement import CALLS, agree, mlp, static


def test_numbers_are_read_anew_where_they_go_into_ops():
    def scenario(wrap):
        run = wrap(lambda x, a, b, *, c: ((x * a + b).relu() - c / (x.abs() + 1), a, 2 * x))
        for i in range(CALLS):
            yield run(draw(i, 4), 0.5 * i, i, c=1.5 - i)

    agree(scenario)


def test_nested_arguments_by_name_and_by_place():
    class Batch(NamedTuple):
        x: ex.Tensor
        weight: float

    def scenario(wrap):
        def f(parts, batch, *, more, flag=True):
            a, (b, factor) = parts
            total = a + b * factor + batch.x * batch.weight
            return {"total": total, "parts": [a, (b, more["z"])], "n": 3, "text": "x", "flag": flag, "batch": batch}

        run = wrap(f)
        for i in range(CALLS):
            x = draw(i, 3)
            yield run([x, (draw(i + 9, 3), float(i))], Batch(x, 2.0 * i), more={"z": draw(i + 20, 2)})

    agree(scenario)


def test_results_that_are_arguments_or_tensors_from_outside():
    w = draw(1, 3)
    run = static(lambda x: (x, w, x * 1, x[1:], w[0]))
    for i in range(CALLS):
        x = draw(i, 3)
        same, outside, _, part, first = run(x)
        assert same is x
        assert outside is w
        part.zero_()
        first.fill_(float(i))
        assert x[1:].tolist() == [0, 0]
        assert w[0].item() == i


def test_results_of_different_calls_do_not_share_memory():
    def make(x):
        zeros = ex.zeros(3)
        zeros += x
        return zeros, ex.ones(3), x * 2

    run = static(make)
    results = [run(ex.full((3,), float(i))) for i in range(4)]
    for i, (a, b, c) in enumerate(results):
        assert a.tolist() == [i] * 3
        assert b.tolist() == [1] * 3
        assert c.tolist() == [2 * i] * 3
        b.zero_()


def test_writes_in_place():
    def scenario(wrap):
        counter = ex.zeros((), dtype=ex.int64)
        history = ex.zeros(4, 3)
        w = draw(0, 3, grad=True)

        def step(x, out):
            counter.add_(1)
            y = x * w
            y.relu_()
            y = y + 1
            y[0] = 5.0
            with ex.no_grad():
                history[1:] = history[:-1].clone()
                history[0] = y
                out.copy_(y * 2)
            y.sum().backward()
            x.mul_(0.5)
            return y, counter

        run = wrap(step)
        for i in range(CALLS):
            x, out = draw(i, 3), ex.zeros(3)
            yield run(x, out), x, out, history, counter, w.grad

    agree(scenario)


def test_layers_that_write_in_place():
    def scenario(wrap):
        model = mlp(4, 6, 6, 2, inplace=True)

        def step(x):
            loss = model(x).square().mean()
            loss.backward()
            return loss

        run = wrap(step)
        for i in range(CALLS):
            yield run(draw(i, 3, 4)), grads(*model.parameters())

    agree(scenario)


def test_views_and_loops_over_an_argument():
    def scenario(wrap):
        w = draw(0, 3, 3, grad=True)

        def scan(x, h):
            for t in range(x.shape[0]):
                h = (x[t] + h @ w).tanh()
            h.sum().backward()
            return h.detach(), x.T[1:, ::2]

        run = wrap(scan)
        for i in range(CALLS):
            yield run(draw(i, 5, 2, 3), draw(i + 9, 2, 3)), w.grad

    agree(scenario)


def test_ops_that_only_run_eagerly():
    def scenario(wrap):
        w = draw(0, 4, 4, grad=True)

        def f(x):
            y = ex.linalg.inv(x @ w + 10 * ex.eye(4))
            z = ex.sort(y.sum(0)).values
            z.sum().backward()
            return z, ex.digamma(x)

        run = wrap(f)
        for i in range(CALLS):
            yield run(draw(i, 4, 4)), w.grad

    agree(scenario)


def test_integers_and_other_dtypes():
    def scenario(wrap):
        table = nn.Embedding(7, 3)

        def f(words, x):
            h = table(words) * x.unsqueeze(-1)
            h.sum().backward()
            return h.argmax(-1), (words * 2) % 5, h.double().mean(), x.half()

        run = wrap(f)
        for i in range(CALLS):
            yield run(whole(i, 4, high=7), draw(i, 4)), table.weight.grad

    agree(scenario)


def test_no_grad_inside():
    def scenario(wrap):
        w = draw(0, 3, grad=True)

        def f(x):
            with ex.no_grad():
                target = (x * w).tanh()
            loss = ((x * w).sin() - target).square().sum()
            loss.backward()
            return loss, target.requires_grad

        run = wrap(f)
        for i in range(CALLS):
            yield run(draw(i, 3)), w.grad

    agree(scenario)


def test_vmap_inside():
    def scenario(wrap):
        run = wrap(lambda x, y: ex.func.vmap(lambda a, b: (a * b).sum())(x, y))
        for i in range(CALLS):
            yield run(draw(i, 3, 4), draw(i + 9, 3, 4))

    agree(scenario)


def test_nested_compiled_functions_become_part_of_the_outer_one():
    def scenario(wrap):
        inner = wrap(lambda x: x * 2 + 1)
        other = ex.compile(lambda x: x.exp())
        outer = wrap(lambda x: inner(other(x)) + inner(x))
        for i in range(CALLS):
            yield outer(draw(i, 3)), inner(draw(i, 3))

    agree(scenario)


def test_a_static_function_in_a_dynamic_one():
    inner = static(lambda x: x * 2 + 1)
    outer = ex.compile(lambda x: inner(x).sum())
    for n in (2, 3, 2, 5):
        assert outer(ex.ones(n)).item() == 3 * n


def test_eager_steps_aside():
    run = static(lambda x: float(x.sum()))
    with ex.eager():
        assert run(ex.ones(3)) == 3.0
        assert run(ex.ones(4)) == 4.0


@needs_native_code
def test_an_error_in_a_later_call_names_the_line_and_changes_nothing():
    table = nn.Embedding(5, 2)
    total = ex.zeros(2)

    @static
    def look(words):
        total.add_(1)
        return table(words).sum(0)  # the line

    look(ex.tensor([0, 1]))
    with pytest.raises((IndexRangeError, IndexError)) as caught:
        look(ex.tensor([0, 9])).tolist()
    assert "test_tracer.py" in "".join(getattr(caught.value, "__notes__", []))
    assert total.tolist() == [2, 2]
    assert look(ex.tensor([0, 1])).shape == (2,)


def test_an_error_in_the_first_call_is_that_of_eager_and_the_next_call_records():
    run = static(lambda x: x @ ex.ones(3, 2))
    with pytest.raises(ShapeError):
        run(ex.ones(2, 4))
    assert run(ex.ones(2, 3)).tolist() == [[3, 3], [3, 3]]


@pytest.mark.alone
def test_threads_share_a_static_function():
    w = draw(0, 4, 4)
    run = static(lambda x: (x @ w).tanh() + x)
    results = {}

    def work(i):
        results[i] = [run(draw(i + 10 * k, 3, 4)).tolist() for k in range(20)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for i in range(4):
        assert results[i] == [((x := draw(i + 10 * k, 3, 4)) @ w).tanh().add(x).tolist() for k in range(20)]


def test_a_tensor_that_becomes_its_own_view():
    def scenario(wrap):
        w = draw(0, 1, 3, grad=True)

        def f(x):
            y = x * w
            y.squeeze_(0).unsqueeze_(1).transpose_(0, 1)
            y.square().sum().backward()
            return y, y * 2

        run = wrap(f)
        for i in range(CALLS):
            yield run(draw(i, 1, 3)), w.grad

    agree(scenario)


def test_a_weight_that_the_collector_was_told_to_leave_alone_is_read_anew_at_each_call():
    told = """
import gc
import extempo as ex
weight = ex.ones(3, requires_grad=True)
gc.freeze()
static = ex.compile(lambda x: (x * weight).sum(), static=True)
for n in range(1, 4):
    static(ex.ones(3)).backward()
    assert weight.grad.tolist() == [1, 1, 1]
    weight.grad = None
    weight.requires_grad_(False).add_(1).requires_grad_(True)
"""
    subprocess.run([sys.executable, "-c", told], check=True)
