"""Losses by class beside PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.errors import ArgumentError


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("ignored", [None, 1, -100])
def test_losses_are_those_of_the_library(run_node, normal, rng, reduction, ignored):
    scores, labels, weight = normal(4, 3, 5), rng.integers(0, 3, (4, 5)), np.abs(normal(3))
    if ignored == -100:
        labels[0, 0] = -100
    options = {} if ignored is None else {"ignore_index": ignored}
    expected = ex.nn.functional.cross_entropy(
        ex.from_numpy(scores), ex.from_numpy(labels), ex.from_numpy(weight), reduction=reduction, **options
    )
    loss, log_prob = run_node("SoftmaxCrossEntropyLoss", [scores, labels, weight], 2, reduction=reduction, **options)
    np.testing.assert_allclose(loss, expected.numpy(), rtol=1e-5, atol=1e-6)
    (again,) = run_node("NegativeLogLikelihoodLoss", [log_prob, labels, weight], reduction=reduction, **options)
    np.testing.assert_allclose(again, loss, rtol=1e-5, atol=1e-6)


def test_an_unknown_reduction_is_named(run_node, normal):
    with pytest.raises(ArgumentError, match="reduction must be none, sum or mean, got 'max'"):
        run_node("NegativeLogLikelihoodLoss", [normal(2, 3), np.array([0, 1])], reduction="max")
