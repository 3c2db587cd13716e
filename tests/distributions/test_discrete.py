"""Distributions over whole numbers."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
import extempo.distributions as d


@pytest.mark.parametrize(
    ("n", "p"), [(3, 0.3), (16, 0.9), (17, 0.5), (1000, 0.02), (100000, 0.7), (40, 0.0), (40, 1.0)]
)
def test_binomial_draws_follow_their_distribution_for_few_and_many_trials(n, p):
    ex.manual_seed(0)
    coins = d.Binomial(n, probs=ex.tensor(p, dtype=ex.float64))
    drawn = coins.sample((20000,))
    spread = coins.variance.item()
    assert abs(drawn.mean().item() - n * p) <= 5 * (spread / 20000) ** 0.5
    if spread:
        assert drawn.var().item() == pytest.approx(spread, rel=0.06)
    if n <= 17:
        counts = ex.bincount(drawn.long(), minlength=n + 1).numpy() / 20000
        expected = coins.log_prob(coins.enumerate_support()).exp().numpy()
        np.testing.assert_allclose(counts, expected, atol=0.02)


def test_single_and_many_categorical_draws_follow_the_probabilities_and_never_take_an_impossible_one():
    ex.manual_seed(0)
    probs = ex.tensor([0.0, 0.2, 0.5, 0.3, 0.0])
    many = d.Categorical(probs=probs).sample((20000,))
    single = d.Categorical(probs=probs.expand(20000, 5)).sample()
    for drawn in (many, single):
        counts = ex.bincount(drawn, minlength=5).numpy() / 20000
        np.testing.assert_allclose(counts, probs.numpy(), atol=0.02)
        assert counts[0] == counts[4] == 0


def test_policy_gradient_reaches_the_logits():
    logits = ex.zeros(4, requires_grad=True)
    policy = d.Categorical(logits=logits)
    policy.log_prob(ex.tensor([2, 2, 3])).sum().backward()
    assert logits.grad.tolist() == pytest.approx([-0.75, -0.75, 1.25, 0.25])
