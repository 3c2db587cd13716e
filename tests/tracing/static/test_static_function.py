"""compile(static=True): training steps, recorded once, with the bits of eager at every later call."""

from __future__ import annotations

import functools

import pytest

import extempo as ex
from extempo import nn, optim
from extempo.nn import functional as F

from ..agreement import draw, grads, needs_native_code, whole
from .static_agreement import CALLS, agree, mlp, state, static


@pytest.mark.parametrize("make", [optim.Adam, optim.AdamW, functools.partial(optim.SGD, lr=0.1, momentum=0.9)])
def test_a_whole_training_step(make):
    def scenario(wrap):
        model = mlp(6, 8, 8, 3)
        optimizer = make(model.parameters())

        def step(x, y):
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss

        run = wrap(step)
        for i in range(CALLS):
            yield run(draw(i, 5, 6), whole(i, 5, high=3)), state(model), grads(*model.parameters())

    agree(scenario)


@needs_native_code
def test_the_body_runs_once():
    calls = []

    @static
    def double(x):
        calls.append(1)
        return x * 2

    for i in range(CALLS):
        assert double(ex.full((3,), float(i))).tolist() == [2.0 * i] * 3
    assert len(calls) == 1


@needs_native_code
def test_it_runs_as_one_plan():
    model = mlp(6, 8, 3)
    optimizer = optim.Adam(model.parameters())

    def one_plan_step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    run = static(one_plan_step)
    for i in range(CALLS):
        run(draw(i, 5, 6), whole(i, 5, high=3))
    (stats,) = [f for f in ex.compile.stats()["functions"] if "one_plan_step" in f["name"]]
    assert stats["calls"] == CALLS
    assert stats["plans"] == 1
    assert stats["runs"] == CALLS - 1


@pytest.mark.parametrize("inside", [True, False])
def test_a_schedule_of_learning_rates(inside):
    def scenario(wrap):
        model = mlp(4, 5, 2)
        optimizer = optim.Adam(model.parameters(), lr=0.1)
        schedule = optim.lr_scheduler.ExponentialLR(optimizer, 0.7)

        def step(x):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            if inside:
                schedule.step()
            return loss

        run = wrap(step)
        for i in range(CALLS):
            yield run(draw(i, 3, 4)), optimizer.param_groups[0]["lr"], state(model)
            if not inside:
                schedule.step()

    agree(scenario)


def test_an_optimizer_written_by_the_user():
    class Signed(optim.Optimizer):
        def __init__(self, params, lr):
            super().__init__(params, {"lr": lr})

        @ex.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    p.sub_(p.grad.sign(), alpha=group["lr"])

    def scenario(wrap):
        w = draw(7, 4, grad=True)
        optimizer = Signed([w], 0.25)

        def step(x):
            optimizer.zero_grad()
            loss = (w * x).sum().square()
            loss.backward()
            optimizer.step()
            return loss

        run = wrap(step)
        for i in range(CALLS):
            yield run(draw(i, 4)), w, w.grad
            optimizer.param_groups[0]["lr"] *= 0.5

    agree(scenario)


def test_gradients_that_add_up_over_calls():
    def scenario(wrap):
        model = mlp(4, 5, 2)
        optimizer = optim.SGD(model.parameters(), lr=0.1)

        def accumulate(x):
            loss = model(x).square().mean() / 2
            loss.backward()
            return loss.detach()

        run = wrap(accumulate)
        for i in range(2 * CALLS):
            yield run(draw(i, 3, 4)), grads(*model.parameters())
            if i % 2:
                optimizer.step()
                optimizer.zero_grad()

    agree(scenario)


def test_several_backwards_in_one_call():
    def scenario(wrap):
        model = mlp(4, 5, 2)
        optimizer = optim.Adam(model.parameters(), lr=0.01)

        def step(parts):
            optimizer.zero_grad(set_to_none=False)
            total = 0.0
            for x in parts:
                loss = model(x).square().mean()
                loss.backward()
                total = total + loss.detach()
            optimizer.step()
            return total

        run = wrap(step)
        for i in range(CALLS):
            yield run([draw(i, 3, 4), draw(i + 50, 2, 4)]), state(model), grads(*model.parameters())

    agree(scenario)


def test_two_losses_that_share_a_graph():
    def scenario(wrap):
        w = draw(0, 4, 4, grad=True)

        def step(x):
            h = (x @ w).tanh()
            first, second = h.sum(), h.square().sum()
            first.backward(retain_graph=True)
            second.backward()
            return first, second

        run = wrap(step)
        for i in range(CALLS):
            yield run(draw(i, 2, 4)), w.grad
            w.grad = None

    agree(scenario)


def test_backward_with_a_given_gradient():
    def scenario(wrap):
        w = draw(0, 4, grad=True)

        def step(x, g):
            y = (x * w).exp()
            y.backward(g)
            y = (x * w).sin()
            y.backward(g * 2)
            return y

        run = wrap(step)
        for i in range(CALLS):
            yield run(draw(i, 4), draw(i + 9, 4)), w.grad

    agree(scenario)


def test_autograd_grad_and_second_order():
    def scenario(wrap):
        w = draw(0, 4, grad=True)

        def step(x):
            (first,) = ex.autograd.grad((x * w).sin().sum(), w, create_graph=True)
            first.square().sum().backward()
            return first.detach()

        run = wrap(step)
        for i in range(CALLS):
            yield run(draw(i, 4)), w.grad

    agree(scenario)


def test_the_gradient_of_an_argument():
    def scenario(wrap):
        w = draw(0, 4, grad=True)

        def step(x):
            (x * w).exp().sum().backward()
            return x.grad * 2

        run = wrap(step)
        for i in range(CALLS):
            x = draw(i, 4, grad=True)
            yield run(x), x.grad, w.grad

    agree(scenario)


def test_an_argument_that_is_told_to_require_grad():
    def scenario(wrap):
        w = draw(0, 4)

        def attack(x):
            x = x.detach().requires_grad_()
            (x * w).exp().sum().backward()
            return x.detach() + 0.1 * x.grad.sign()

        run = wrap(attack)
        for i in range(CALLS):
            yield run(draw(i, 4))

    agree(scenario)


@pytest.mark.parametrize("how", ["norm", "value", "by hand"])
def test_clipping(how):
    def scenario(wrap):
        model = mlp(4, 5, 2)
        optimizer = optim.SGD(model.parameters(), lr=0.5)

        def step(x):
            optimizer.zero_grad()
            loss = (model(x) * 50).square().mean()
            loss.backward()
            norm = None
            if how == "norm":
                norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            elif how == "value":
                nn.utils.clip_grad_value_(model.parameters(), 0.01)
            else:
                for p in model.parameters():
                    p.grad = p.grad.clamp(-0.1, 0.1)
            optimizer.step()
            return loss, norm

        run = wrap(step)
        for i in range(CALLS):
            yield run(draw(i, 3, 4)), state(model), grads(*model.parameters())

    agree(scenario)


def test_clipping_alone_reads_the_gradients_of_the_moment():
    def scenario(wrap):
        model = mlp(4, 5, 2)
        clip = wrap(lambda: nn.utils.clip_grad_norm_(model.parameters(), 0.1))
        for i in range(CALLS):
            model.zero_grad()
            model(draw(i, 3, 4)).square().sum().backward()
            yield clip(), grads(*model.parameters())

    agree(scenario)


def test_a_hook_on_a_parameter():
    def scenario(wrap):
        model = mlp(4, 5, 2)
        seen = []
        model[0].weight.register_hook(lambda g: seen.append(g.sum().item()) or g * 2)

        def step(x):
            model.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            return loss

        run = wrap(step)
        for i in range(CALLS):
            yield run(draw(i, 3, 4)), grads(*model.parameters()), seen

    agree(scenario)


def test_a_hook_that_comes_later():
    def scenario(wrap):
        model = mlp(4, 5, 2)

        def step(x):
            model.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            return loss

        run = wrap(step)
        for i in range(CALLS):
            if i == 3:
                model[0].weight.register_hook(lambda g: g * 2)
            yield run(draw(i, 3, 4)), grads(*model.parameters())

    agree(scenario)
