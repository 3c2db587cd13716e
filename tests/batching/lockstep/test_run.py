"""Samples in, results out, whatever the order of their lengths."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import extempo as ex
from extempo.batching.lockstep.lanes import Lanes
from extempo.batching.lockstep.run import _longest_first

from .loops_beside import alike, check, ragged, weight


@pytest.mark.parametrize("lengths", [*itertools.permutations((1, 2, 4))], ids=str)
def test_results_are_in_the_order_of_the_samples(lengths):
    w = weight(3, 4)

    def fn(x):
        h = ex.zeros(4)
        for row in x:
            h = ex.tanh(row @ w + h)
        return h, x * 2

    check(fn, ragged(3, lengths=lengths), parameters=[w])


def test_two_lengths_in_opposite_orders():
    w = weight(3, 4)

    def fn(x, y):
        h = ex.zeros(4)
        for row in x:
            h = ex.tanh(row @ w + h)
        for row in y:
            h = ex.tanh(row @ w + h)
        return h, (x @ w).sum(0), (y @ w).amax(0)

    check(fn, ragged(3, lengths=[1, 3, 5]), ragged(3, lengths=[6, 3, 2]), parameters=[w])


def test_samples_with_two_sizes_of_their_own_run():
    w = weight(3)
    samples = [weight(n, 2, m, 3, seed=n).detach() for n, m in ((2, 3), (1, 4), (3, 1))]
    batched = check(lambda x: ((x * w) + 1).exp().sum((0, 1, 2)), samples, parameters=[w])
    assert "mul has no way to run as one" in str(batched.explain())


def test_samples_are_put_in_order_only_if_they_are_not():
    assert _longest_first(Lanes(3, {"a": np.array([4, 2, 2])})) is None
    assert _longest_first(Lanes(3, {"a": np.array([1, 2, 2])})).tolist() == [1, 2, 0]
    assert _longest_first(Lanes(3, {})) is None


def test_samples_of_one_shape_run():
    w = weight(3, 4)
    check(lambda x: ex.tanh(x @ w), alike(4, 2, 3), parameters=[w])
    check(lambda x: (x * w[:, 0]).sum(), alike(4, 3), parameters=[w])


def test_zero_dim_samples_run():
    w = weight(3)
    check(lambda x: (x * w).sum() + x, alike(4), parameters=[w])
