"""Draws of samples in static functions: as in eager, call after call."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.errors import GraphError

from .agreement import draw
from .static_agreement import CALLS, agree, static


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
