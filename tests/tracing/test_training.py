"""Whole training runs: the same bits after many steps, plans that do not grow in number, memory that does not grow."""

from __future__ import annotations

import gc
import math
import random
import tracemalloc

import numpy as np
import pytest

import extempo as ex
from extempo import nn, optim
from extempo.nn import functional as F

from .agreement import agree, draw, needs_native_code, see, whole

OPTIMIZERS = {
    "SGD": lambda p: optim.SGD(p, lr=0.1),
    "momentum": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True),
    "Adam": lambda p: optim.Adam(p, lr=0.05),
    "AMSGrad": lambda p: optim.Adam(p, lr=0.05, amsgrad=True),
    "AdamW": lambda p: optim.AdamW(p, lr=0.05),
    "RMSprop": lambda p: optim.RMSprop(p, lr=0.01),
    "Adagrad": lambda p: optim.Adagrad(p, lr=0.05),
}


def classifier():
    ex.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3))


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS.keys())
@pytest.mark.parametrize("how", ["whole step", "module"])
def test_optimizers(make, how):
    def scenario(wrap):
        net = classifier()
        optimizer = make(net.parameters())
        schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
        forward = wrap(net) if how == "module" else net

        def step(x, labels):
            optimizer.zero_grad()
            loss = F.cross_entropy(forward(x), labels)
            loss.backward()
            norm = nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            optimizer.step()
            return loss, norm

        run = wrap(step) if how == "whole step" else step
        for i in range(12):
            yield run(draw(i, 6, 4), whole(i, 6, high=3)), dict(net.state_dict())
            schedule.step()

    agree(scenario)


@pytest.mark.parametrize("set_to_none", [True, False])
@pytest.mark.parametrize("every", [1, 3])
def test_gradients_zeroed_and_accumulated(set_to_none, every):
    def scenario(wrap):
        net = classifier()
        optimizer = optim.SGD(net.parameters(), lr=0.1)

        def step(x, labels, update):
            loss = F.cross_entropy(net(x), labels) / every
            loss.backward()
            if update:
                nn.utils.clip_grad_value_(net.parameters(), 0.1)
                optimizer.step()
                optimizer.zero_grad(set_to_none=set_to_none)
            return loss

        run = wrap(step)
        for i in range(15):
            yield run(draw(i, 6, 4), whole(i, 6, high=3), i % every == every - 1), dict(net.state_dict())
            yield [p.grad for p in net.parameters()]

    agree(scenario)


def test_an_optimizer_with_a_closure():
    def scenario(wrap):
        net = classifier()
        optimizer = optim.LBFGS(net.parameters(), max_iter=3)

        def closure():
            optimizer.zero_grad()
            loss = F.cross_entropy(net(draw(0, 6, 4)), whole(0, 6, high=3))
            loss.backward()
            return loss

        run = wrap(closure)
        for _ in range(3):
            yield optimizer.step(run), dict(net.state_dict())

    agree(scenario)


def test_two_optimizers_in_turn():
    """A generator and a discriminator."""

    def scenario(wrap):
        ex.manual_seed(0)
        maker, judge = nn.Linear(3, 4), nn.Sequential(nn.Linear(4, 4), nn.LeakyReLU(0.2), nn.Linear(4, 1))
        first, second = optim.Adam(maker.parameters()), optim.Adam(judge.parameters())

        def step(real):
            fake = maker(ex.randn(5, 3))
            second.zero_grad()
            loss = F.softplus(-judge(real)).mean() + F.softplus(judge(fake.detach())).mean()
            loss.backward()
            second.step()
            first.zero_grad()
            other = F.softplus(-judge(fake)).mean()
            other.backward()
            first.step()
            return loss, other

        run = wrap(step)
        for i in range(10):
            yield run(draw(i, 5, 4)), dict(maker.state_dict()), dict(judge.state_dict())

    agree(scenario)


def test_moving_averages_and_target_networks():
    def scenario(wrap):
        net, target = classifier(), classifier()
        optimizer = optim.Adam(net.parameters())

        def step(x):
            with ex.no_grad():
                goal = target(x).softmax(1)
            loss = (net(x).softmax(1) - goal).square().sum() + net(x).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with ex.no_grad():
                for p, q in zip(net.parameters(), target.parameters(), strict=True):
                    q.lerp_(p, 0.1)
            return loss

        run = wrap(step)
        for i in range(10):
            yield run(draw(i, 6, 4)), dict(target.state_dict())

    agree(scenario)


def train(n_steps, before_step, wrap=ex.compile):
    """A small model with everything that moves: schedule, annealed weight, dropout, slices at random, lengths."""
    ex.manual_seed(1)
    rng = np.random.default_rng(5)
    data = draw(0, 64, 4)
    embed, cell = nn.Embedding(7, 4), nn.GRUCell(4, 6)
    net = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.2), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3))
    parameters = [*embed.parameters(), *cell.parameters(), *net.parameters()]
    optimizer = optim.AdamW(parameters, lr=0.02)
    schedule = optim.lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=n_steps + 1)

    def step(start, words, labels, weight):
        h = ex.zeros(4, 6)
        for word in words.unbind(0):
            h = cell(embed(word) + data[start : start + 4], h)
        scores = net(h)
        loss = F.cross_entropy(scores, labels) + weight * scores.square().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        return loss

    run = wrap(step)
    losses = []
    for i in range(n_steps):
        before_step(i)
        length = int(rng.integers(1, 4))
        words = ex.tensor(rng.integers(0, 7, (length, 4)))
        labels = ex.tensor(rng.integers(0, 3, 4))
        loss = run(int(rng.integers(0, 60)), words, labels, 1.0 / (1 + i))
        losses.append(loss.item())
        schedule.step()
    return losses, see(parameters)


def test_two_hundred_steps_give_the_same_bits_whatever_the_caches_hold():
    with ex.eager():
        expected = train(200, lambda i: None)
    assert train(200, lambda i: None, wrap=lambda f: f) == expected
    assert train(200, lambda i: None) == expected
    rng = random.Random(3)
    assert train(200, lambda i: ex.compile.clear() if rng.random() < 0.1 else None) == expected


def totals():
    stats = ex.compile.stats()
    assert {"plans", "runs"} <= stats.keys()
    return stats


@needs_native_code
def test_numbers_that_move_do_not_make_plans():
    ex.manual_seed(0)
    data = draw(0, 64, 4)
    net = classifier()
    optimizer = optim.Adam(net.parameters(), lr=0.1)
    schedule = optim.lr_scheduler.ExponentialLR(optimizer, 0.97)

    @ex.compile
    def step(start, labels, weight):
        x = data[start : start + 6]
        scores = net(x)
        loss = F.cross_entropy(scores, labels) + weight * scores[start % 6].abs().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    rng = random.Random(0)
    for i in range(10):
        step(rng.randrange(58), whole(i, 6, high=3), 1 / (i + 1))
        schedule.step()
    before = totals()
    for i in range(60):
        step(rng.randrange(58), whole(i, 6, high=3), math.exp(-i))
        schedule.step()
    after = totals()
    assert after["plans"] == before["plans"]
    assert after["runs"] >= before["runs"] + 60


@needs_native_code
def test_plans_are_used():
    """Without this, everything else here could pass by replaying."""
    net = classifier()

    @ex.compile
    def step(x):
        loss = net(x).square().sum()
        loss.backward()
        return loss

    before = totals()
    for i in range(10):
        step(draw(i, 6, 4))
    after = totals()
    assert 1 <= after["plans"] - before["plans"] <= 3
    assert after["runs"] - before["runs"] >= 7


@needs_native_code
@pytest.mark.parametrize("kind", ["step", "module", "waiting", "failing", "structures"])
def test_memory_does_not_grow(kind):
    net = classifier()
    optimizer = optim.Adam(net.parameters())

    def whole_step(i):
        optimizer.zero_grad()
        loss = net(draw(i, 6, 4)).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    def failing(i):
        y = draw(i, 4) * 2
        return y[ex.tensor([0, 9])].sum().item()

    step, module, fails = ex.compile(whole_step), ex.compile(net), ex.compile(failing)
    loop = ex.compile(lambda x, n: [x := x.sin() + k for k in range(n)][-1])

    def once(i):
        if kind == "step":
            step(i)
        elif kind == "module":
            module(draw(i, 6, 4)).sum().backward()
        elif kind == "waiting":
            module(draw(i, 6, 4))  # never differentiated
        elif kind == "structures":
            loop(draw(i, 3), 1 + i % 5)
        else:
            with pytest.raises(IndexError):
                fails(i)

    for i in range(40):
        once(i)
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        for i in range(20):
            once(i)
        first, in_use = tracemalloc.get_traced_memory()[0], ex.backends.stats()["memory"]["bytes_in_use"]
        for i in range(300):
            once(i)
        last = tracemalloc.get_traced_memory()[0]
        assert ex.backends.stats()["memory"]["bytes_in_use"] <= in_use + 4096
        assert last - first < 60_000, f"{(last - first) / 300:.0f} bytes a call"
    finally:
        tracemalloc.stop()
        gc.enable()


def test_tensors_die_with_their_last_reference():
    import weakref

    net = classifier()
    run = ex.compile(lambda x: net(x))
    gc.disable()
    try:
        for i in range(6):
            x = draw(i, 6, 4)
            y = run(x)
            seen = weakref.ref(x), weakref.ref(y)
            y.sum().backward()
            del x, y
            assert [r() for r in seen] == [None, None]
    finally:
        gc.enable()
