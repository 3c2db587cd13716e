"""Hooks on tensors, leaves and modules run when and as often as in eager mode, and see the same values."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn

from .agreement import CALLS, agree, draw, grads


def weights():
    return draw(70, 4, 5, grad=True), draw(71, 5, 2, grad=True)


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("reply", ["look", "change", "none"])
def test_hooks_on_recorded_tensors(inside, reply):
    def scenario(wrap):
        w, v = weights()
        seen = []

        def hook(g):
            seen.append(g * 1 if reply == "look" else g.sum().item())
            return g * 2 if reply == "change" else None

        def f(x):
            h = (x @ w).tanh()
            h.register_hook(hook)
            loss = (h @ v).square().sum()
            if inside:
                loss.backward()
            return loss

        run = wrap(f)
        for i in range(CALLS):
            loss = run(draw(i, 3, 4))
            if not inside:
                loss.backward()
            yield loss, grads(w, v), seen

    agree(scenario)


def test_hooks_on_results_that_wait():
    def scenario(wrap):
        w, v = weights()
        seen = []
        run = wrap(lambda x: ((x @ w).tanh(), x))
        for i in range(CALLS):
            h, _ = run(draw(i, 3, 4))
            h.register_hook(seen.append)
            handle = h.register_hook(lambda g: g * 3)
            if i % 2:
                handle.remove()
            (h @ v).sum().backward()
            yield h, grads(w, v), seen

    agree(scenario)


@pytest.mark.parametrize("inside", [True, False])
def test_hooks_on_leaves(inside):
    def scenario(wrap):
        w, v = weights()
        seen = []

        def f(x):
            loss = ((x @ w).tanh() @ v).sum()
            if inside:
                loss.backward()
            return loss

        run = wrap(f)
        handle = None
        for i in range(9):
            if i == 3:
                handle = w.register_hook(lambda g: seen.append(g) or g * 0.5)
            if i == 6:
                handle.remove()
            loss = run(draw(i, 3, 4))
            if not inside:
                loss.backward()
            yield loss, grads(w, v), seen

    agree(scenario)


@pytest.mark.parametrize("inside", [True, False])
def test_hooks_after_a_gradient_was_accumulated(inside):
    def scenario(wrap):
        w, v = weights()
        seen = []

        def update(p):
            seen.append(p.grad.clone())
            with ex.no_grad():
                p -= 0.1 * p.grad
            p.grad = None

        def f(x):
            loss = ((x @ w).tanh() @ v).sum()
            if inside:
                loss.backward()
            return loss

        run = wrap(f)
        w.register_post_accumulate_grad_hook(update)
        for i in range(CALLS):
            loss = run(draw(i, 3, 4))
            if not inside:
                loss.backward()
            yield loss, w, v, grads(w, v), seen

    agree(scenario)


@pytest.mark.parametrize("inside", [True, False])
def test_retained_gradients(inside):
    def scenario(wrap):
        w, v = weights()

        def f(x):
            h = (x @ w).tanh()
            y = h @ v
            h.retain_grad()
            loss = y.square().sum()
            if inside:
                loss.backward()
            return loss, h, y

        run = wrap(f)
        for i in range(CALLS):
            loss, h, y = run(draw(i, 3, 4))
            if not inside:
                y.retain_grad()
                loss.backward()
                yield y.grad
            yield loss, h.grad, grads(w, v), h.retains_grad

    agree(scenario)


def test_hooks_of_nodes():
    def scenario(wrap):
        w, v = weights()
        seen = []

        def f(x):
            h = (x @ w).tanh()
            h.grad_fn.register_hook(lambda inputs, outputs: seen.append((inputs, outputs)))
            return (h @ v).sum()

        run = wrap(f)
        for i in range(CALLS):
            run(draw(i, 3, 4)).backward()
            yield grads(w, v), seen

    agree(scenario)


def test_hooks_of_modules():
    def scenario(wrap):
        ex.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))
        seen = []
        net[0].register_forward_pre_hook(lambda m, a: (a[0] * 2,))
        net[1].register_forward_hook(lambda m, a, out: seen.append(out) or out + 1)
        net[2].register_full_backward_hook(lambda m, gi, go: seen.append((gi[0], go[0])))
        net[0].register_full_backward_pre_hook(lambda m, go: (go[0] * 0.5,))
        run, module = wrap(lambda x: net(x).sum()), wrap(net)
        for i in range(CALLS):
            loss = run(draw(i, 3, 4))
            loss.backward()
            module(draw(i + 9, 3, 4)).square().sum().backward()
            yield loss, grads(*net.parameters()), seen

    agree(scenario)


def test_hooks_of_a_compiled_module_itself():
    def scenario(wrap):
        ex.manual_seed(0)
        net = wrap(nn.Linear(4, 2))
        seen = []
        net.register_forward_hook(lambda m, a, out: seen.append(out.detach()) or out * 2)
        for i in range(CALLS):
            y = net(draw(i, 3, 4))
            y.sum().backward()
            yield y, grads(*net.parameters()), seen

    agree(scenario)


def test_a_hook_that_fails():
    def scenario(wrap):
        w, v = weights()

        def fail(g):
            raise ValueError("no")

        def f(x, broken):
            h = (x @ w).tanh()
            if broken:
                h.register_hook(fail)
            loss = (h @ v).sum()
            loss.backward()
            return loss

        run = wrap(f)
        for i in range(8):
            try:
                yield run(draw(i, 3, 4), i % 3 == 2)
            except ValueError as error:
                yield error
            yield grads(w, v)

    agree(scenario)


def test_anomaly_detection():
    def scenario(wrap):
        w, _ = weights()

        def f(x):
            loss = ((x @ w) * 0).sqrt().sum()
            loss.backward()

        run = wrap(f)
        for i in range(CALLS):
            with ex.autograd.detect_anomaly():
                try:
                    run(draw(i, 3, 4))
                except RuntimeError as error:
                    yield type(error).__name__
            yield w.grad

    agree(scenario)


def test_a_parametrized_weight():
    def scenario(wrap):
        ex.manual_seed(0)
        layer = nn.utils.parametrizations.weight_norm(nn.Linear(4, 3))
        other = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3))
        run = wrap(lambda x: other(layer(x)).square().sum())
        for i in range(CALLS):
            loss = run(draw(i, 2, 4))
            loss.backward()
            yield loss, grads(*layer.parameters(), *other.parameters()), dict(other.state_dict())

    agree(scenario)
