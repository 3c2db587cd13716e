"""Draws of samples in static functions: as in eager, call after call."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn, optim
from extempo.errors import GraphError

from ..agreement import draw
from .static_agreement import CALLS, agree, state, static


@pytest.mark.parametrize("debug", [False, True])
def test_samples_of_a_batch_draw_anew_in_every_call(debug):
    def scenario(wrap):
        def sample(x):
            inner = ex.batch(lambda row: row + ex.rand(4), debug=debug)([x, x])
            return inner[0] * ex.rand(4), inner[1] + ex.rand(4)

        def step(xs):
            first, second = ex.batch(sample, debug=debug)(xs)
            return first, second, ex.rand(4), ex.batch(sample, debug=debug)(xs)

        run = wrap(step)
        for i in range(CALLS):
            yield run([draw(i, 4), draw(i + 9, 4)])
        yield ex.rand(2)

    agree(scenario)


def test_the_generator_of_a_sample_cannot_be_seeded():
    def sample(x):
        ex.manual_seed(3)
        return x * ex.rand(4)

    run = static(lambda x: ex.batch(sample, debug=True)([x])[0])
    with pytest.raises(GraphError, match="generator of a sample is seeded"):
        run(draw(0, 4))


def test_the_generator_of_a_sample_cannot_be_made_by_hand():
    parent = ex.Generator().manual_seed(5)
    run = static(lambda x: x * ex.rand(4, generator=ex.random.sample_generator(parent, 0, 1)))
    with pytest.raises(GraphError, match="made by hand"):
        run(draw(0, 4))


def test_dropout_draws_anew_and_what_eager_draws():
    def scenario(wrap):
        model = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 2))
        optimizer = optim.Adam(model.parameters())

        def step(x):
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss

        run = wrap(step)
        for seed in (5, 2**63 + 11):
            ex.manual_seed(seed)
            for i in range(CALLS):
                yield run(draw(i, 5, 6)), state(model), ex.rand(2)
        ex.manual_seed(1)

    agree(scenario)


def test_random_tensors():
    def scenario(wrap):
        generator = ex.Generator().manual_seed(3)

        def noisy(x):
            y = x + ex.randn(3) * ex.rand(3, generator=generator)
            return y, ex.randint(0, 9, (4,)), ex.bernoulli(x.sigmoid()), ex.randperm(5), ex.empty(3).normal_()

        run = wrap(noisy)
        for i in range(CALLS):
            yield run(draw(i, 3))

    agree(scenario)


def test_seeding_inside():
    def scenario(wrap):
        def noisy(x):
            ex.manual_seed(4)
            with ex.random.fork_rng():
                a = ex.rand(3)
            return x + ex.rand(3), a

        run = wrap(noisy)
        for i in range(CALLS):
            yield run(draw(i, 3)), ex.rand(1)

    agree(scenario)
