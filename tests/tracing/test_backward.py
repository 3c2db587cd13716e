"""Backward in every place and number: inside, outside, twice, in parts, with graphs of graphs."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo import autograd, nn
from extempo.nn import functional as F
from extempo.tracing.backward import _share_a_node, backward_by_plan

from .agreement import CALLS, agree, agree_on_calls, draw, error_of, grads, needs_native_code, whole
from .by_hand import new_executor, tracing


def two_layers(x, w, v):
    return ((x @ w).tanh() @ v).square().mean()


def weights(i=0):
    return draw(i + 70, 4, 5, grad=True), draw(i + 71, 5, 2, grad=True)


def test_backward_inside():
    def f(x, w, v):
        loss = two_layers(x, w, v)
        loss.backward()
        return loss

    agree_on_calls(f, lambda i: (draw(i, 3, 4), *weights(i)))


def test_backward_outside():
    agree_on_calls(two_layers, lambda i: (draw(i, 3, 4), *weights(i)), then=lambda loss: loss.backward())


def test_the_loss_is_computed_outside():
    def scenario(wrap):
        w, v = weights()
        run = wrap(lambda x: (x @ w).relu() @ v)
        for i in range(CALLS):
            scores = run(draw(i, 6, 4))
            loss = F.cross_entropy(scores, whole(i, 6, high=2)) + 0.01 * w.square().sum()
            loss.backward()
            yield loss, scores, grads(w, v)

    agree(scenario)


def test_gradients_accumulate_over_calls():
    def scenario(wrap):
        w, v = weights()

        def f(x):
            loss = two_layers(x, w, v)
            loss.backward()
            return loss

        run = wrap(f)
        for i in range(8):
            yield run(draw(i, 3, 4)), grads(w, v)

    agree(scenario)


def test_a_gradient_that_the_user_keeps_is_not_changed_later():
    def scenario(wrap):
        w, v = weights()
        run = wrap(lambda x: two_layers(x, w, v).backward())
        kept = []
        for i in range(6):
            run(draw(i, 3, 4))
            kept.append((w.grad, v.grad.clone()))
            if i % 2:
                w.grad = v.grad = None
        yield kept

    agree(scenario)


def test_two_losses_one_after_another():
    def scenario(wrap):
        w, v = weights()

        def f(x):
            a = (x @ w).sin().sum()
            a.backward()
            b = ((x @ w).cos() @ v).sum()
            b.backward()
            return a, b

        run = wrap(f)
        for i in range(CALLS):
            yield run(draw(i, 3, 4)), grads(w, v)

    agree(scenario)


def test_two_losses_over_a_shared_encoder():
    def scenario(wrap):
        w, v = weights()
        encode = wrap(lambda x: (x @ w).tanh())
        for i in range(CALLS):
            h = encode(draw(i, 3, 4))
            first, second = (h @ v).square().sum(), h.abs().mean()
            if i % 2:
                (first + second).backward()
            else:
                first.backward(retain_graph=True)
                second.backward()
            yield first, second, grads(w, v)

    agree(scenario)


def test_two_losses_with_encoder_and_heads_all_compiled():
    def scenario(wrap):
        w, v = weights()
        encode, head, other = (
            wrap(lambda x: (x @ w).tanh()),
            wrap(lambda h: (h @ v).sum()),
            wrap(lambda h: h.exp().mean()),
        )
        for i in range(CALLS):
            h = encode(draw(i, 3, 4))
            loss = head(h) + other(h)
            loss.backward()
            yield loss, h, grads(w, v)

    agree(scenario)


def test_two_outputs_differentiated_one_by_one_share_a_freed_part():
    def scenario(wrap):
        w, v = weights()

        def f(x):
            h = (x @ w).tanh()
            return (h @ v).sum(), h.exp().sum()

        run = wrap(f)
        for i in range(CALLS):
            a, b = run(draw(i, 3, 4))
            a.backward()
            yield a, error_of(b.backward), b, grads(w, v)

    agree(scenario)


@pytest.mark.parametrize("inside", [True, False])
def test_backward_twice_is_refused(inside):
    def scenario(wrap):
        w, v = weights()

        def f(x):
            loss = two_layers(x, w, v)
            if inside:
                loss.backward()
            return loss

        run = wrap(f)
        for i in range(CALLS):
            loss = run(draw(i, 3, 4))
            if not inside:
                loss.backward()
            yield error_of(loss.backward), grads(w, v)

    agree(scenario)


@pytest.mark.parametrize("inside", [True, False])
def test_backward_twice_with_retain_graph(inside):
    def scenario(wrap):
        w, v = weights()

        def f(x):
            loss = two_layers(x, w, v)
            if inside:
                loss.backward(retain_graph=True)
                loss.backward()
            return loss

        run = wrap(f)
        for i in range(CALLS):
            loss = run(draw(i, 3, 4))
            if not inside:
                loss.backward(retain_graph=True)
                loss.backward(retain_graph=True)
            yield loss, grads(w, v)

    agree(scenario)


def test_backward_twice_inside_is_refused():
    def scenario(wrap):
        w, v = weights()

        def f(x):
            loss = two_layers(x, w, v)
            loss.backward()
            loss.backward()

        run = wrap(f)
        for i in range(CALLS):
            yield error_of(run, draw(i, 3, 4)), grads(w, v)

    agree(scenario)


def test_a_given_gradient():
    def scenario(wrap):
        w, _ = weights()

        def f(x, g):
            y = (x @ w).sigmoid()
            y.backward(g)
            return y

        run = wrap(f)
        for i in range(CALLS):
            yield run(draw(i, 3, 4), draw(i + 5, 3, 5)), grads(w)
        outside = wrap(lambda x: (x @ w).sigmoid())
        for i in range(CALLS):
            y = outside(draw(i, 3, 4))
            y.backward(draw(i, 3, 5))
            yield y, w.grad, error_of(outside(draw(i, 3, 4)).backward, draw(i, 2, 5))

    agree(scenario)


def test_backward_from_no_scalar_and_from_nothing_tracked():
    def scenario(wrap):
        w, _ = weights()
        run = wrap(lambda x: (x @ w).backward())
        flat = wrap(lambda x: (x * 2).sum().backward())
        for i in range(CALLS):
            yield error_of(run, draw(i, 3, 4)), error_of(flat, draw(i, 3, 4)), w.grad

    agree(scenario)


def test_a_gradient_and_an_update_by_hand_in_a_loop():
    def scenario(wrap):
        w, v = weights()

        def f(x):
            losses = []
            for _ in range(3):
                loss = two_layers(x, w, v)
                loss.backward()
                with ex.no_grad():
                    for p in (w, v):
                        p -= 0.1 * p.grad
                        p.grad.zero_()
                losses.append(loss.item())
            return losses

        run = wrap(f)
        for i in range(CALLS):
            yield run(draw(i, 3, 4)), w, v

    agree(scenario)


def test_leaves_that_get_no_gradient():
    def scenario(wrap):
        w, v = weights()
        unused = draw(1, 3, grad=True)

        def f(x, use):
            y = x @ w
            z = unused * 2
            loss = (y @ v).sum() if use else y.sum()
            loss.backward()
            return loss, z

        run = wrap(f)
        for i in range(8):
            yield run(draw(i, 3, 4), i % 3 > 0), grads(w, v, unused)
            w.grad = v.grad = None

    agree(scenario)


def test_detach_and_stop_gradients():
    def scenario(wrap):
        w, v = weights()

        def f(x):
            h = (x @ w).tanh()
            target = (h.detach() * 2).softmax(1)
            loss = (h - target).square().sum() + (h.detach() @ v).sum()
            loss.backward()
            return loss, target

        run = wrap(f)
        for i in range(CALLS):
            yield run(draw(i, 3, 4)), grads(w, v)

    agree(scenario)


def test_gradients_with_respect_to_arguments_and_recorded_values():
    def scenario(wrap):
        w, v = weights()

        def f(x):
            h = (x @ w).tanh()
            loss = (h @ v).square().sum()
            return autograd.grad(loss, [h, w, x])

        run = wrap(f)
        for i in range(CALLS):
            yield run(draw(i, 3, 4, grad=True)), grads(w, v)

    agree(scenario)


def test_grad_of_outputs_outside():
    def scenario(wrap):
        w, v = weights()
        run = wrap(lambda x: ((x @ w).tanh(), x * 2))
        for i in range(CALLS):
            x = draw(i, 3, 4, grad=True)
            h, y = run(x)
            yield autograd.grad((h @ v).sum() + y.exp().sum(), [x, h, w, v]), h, y, grads(x, w)

    agree(scenario)


def test_truncated_backpropagation_through_time():
    def scenario(wrap, detach):
        ex.manual_seed(0)
        cell = nn.LSTMCell(3, 4)

        def chunk(xs, state):
            for x in xs:
                state = cell(x, state)
            return state

        run = wrap(chunk)
        state = (ex.zeros(2, 4), ex.zeros(2, 4))
        for i in range(6):
            if detach:
                state = tuple(s.detach() for s in state)
            state = run([draw(10 * i + t, 2, 3) for t in range(3)], state)
            loss = state[0].square().sum()
            yield loss, error_of(loss.backward), grads(*cell.parameters()), state
            cell.zero_grad()

    agree(scenario, True)
    agree(scenario, False)


def test_state_carried_over_calls_and_differentiated_at_the_end():
    def scenario(wrap):
        w, _ = weights()
        run = wrap(lambda h, x: (h * 0.5 + x @ w).tanh())
        for _ in range(3):
            h = ex.zeros(3, 5)
            for i in range(4):
                h = run(h, draw(i, 3, 4))
            h.sum().backward()
            yield h, w.grad

    agree(scenario)


ORDERS = {
    "eager op first": lambda x: (x.digamma(), x.sin(), x.cos()),
    "eager op between": lambda x: (x.sin(), x.digamma(), x.cos()),
    "eager op last": lambda x: (x.sin(), x.cos(), x.digamma()),
    "eager ops around": lambda x: (x.half().float(), x.sin(), x.cos(), x.bfloat16().float()),
    "a read between": lambda x: (x.sin(), x.sum().item(), x.cos(), x.exp()),
    "a write between": lambda x: (x.sin(), (x * 2).add_(x.cos()), x.tanh(), x.exp()),
    "a mask between": lambda x: (x.sin(), x[x > 0], x.cos(), x.exp()),
    "several results": lambda x: (*x.max(-1), *x.min(-1), *x.unbind(0), x.sin(), *ex.var_mean(x, -1)),
    "views": lambda x: (x[0], x.T, x[:, 1:], x[1], x.reshape(-1)[2:7], x.cos()),
    "eager block": lambda x: (x.sin(), ex.eager(lambda: x.tanh())(), x.cos()),
}


@pytest.mark.parametrize("fn", ORDERS.values(), ids=ORDERS.keys())
@pytest.mark.parametrize("inside", [True, False])
def test_contributions_are_added_in_the_order_of_the_lines(fn, inside):
    def loss_of(parts, x):
        return sum((t * t).sum() for t in parts if isinstance(t, ex.Tensor) and t.requires_grad) + x.sigmoid().sum()

    def f(x):
        parts = fn(x)
        return loss_of(parts, x).backward() if inside else parts

    def scenario(wrap):
        run = wrap(f)
        for i in range(6):
            x = draw(i, 3, 40, grad=True)
            parts = run(x)
            if not inside:
                loss_of(parts, x).backward()
            yield parts, x.grad

    agree(scenario)


# ---- by a plan, or by the engine


def traced(fn, decide=lambda *args, **kwargs: True):
    with tracing(new_executor(decide=decide)) as executor:
        return executor, fn()


def gradients(executor, root, inputs=None, keep=False):
    found = backward_by_plan(executor, root, np.ones((), np.float32), inputs, keep)
    return None if found is None else [(key, g.tolist()) for key, g in found]


@needs_native_code
def test_a_plan_has_the_gradients_of_all_leaves_and_ends_the_trace():
    w, b = draw(0, 3, grad=True), draw(1, 3, grad=True)
    executor, loss = traced(lambda: (w * b).sum())
    trace = executor.trace
    found = dict(gradients(executor, loss))
    assert found == {w._history: b.tolist(), b._history: w.tolist()}
    assert executor.trace is not trace
    assert loss._source is None
    assert loss._data is not None


@needs_native_code
def test_asked_for_values_on_the_trace_are_named_by_value_id_and_a_kept_trace_goes_on():
    w = draw(0, 3, grad=True)
    executor, (y, loss) = traced(lambda: ((y := w * 2.0), (y * 3.0).sum()))
    trace = executor.trace
    assert gradients(executor, loss, [y], keep=True) == [(y._value_id, [3.0] * 3)]
    assert executor.trace is trace
    assert trace.cursor.n_run == len(trace.makers)
    assert dict(gradients(executor, loss)) == {w._history: [6.0] * 3}


@needs_native_code
@pytest.mark.parametrize(
    "reason", ["no plan", "a hook", "a retained gradient", "linked meanwhile", "root is asked for"]
)
def test_the_engine_does_what_a_plan_cannot(reason):
    w = draw(0, 3, grad=True)
    leaf = w * 2.0 if reason == "a retained gradient" else w

    def fn():
        y = leaf.exp()
        if reason == "linked meanwhile":
            with tracing(None):
                other = w * 3.0
            y = y + other
        return y.sum()

    if reason == "a hook":
        w.register_hook(lambda g: None)
    if reason == "a retained gradient":
        leaf.retain_grad()
    decide = (lambda *args, **kwargs: False) if reason == "no plan" else (lambda *args, **kwargs: True)
    executor, loss = traced(fn, decide)
    inputs = [loss] if reason == "root is asked for" else None
    assert gradients(executor, loss, inputs) is None
    assert executor.trace.unplanned == (reason == "no plan")


def test_two_leaves_of_one_node_are_noticed():
    node, other = (draw(k, 3, grad=True)._own_node() for k in range(2))
    assert _share_a_node([node, None, node])
    assert not _share_a_node([node, None, other, None])
    assert not _share_a_node([None, None])
    assert not _share_a_node([])
