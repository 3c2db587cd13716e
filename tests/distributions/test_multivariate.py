"""Distributions over vectors."""

from __future__ import annotations

import math

import pytest

import extempo as ex
import extempo.distributions as d


def test_multinomial_probabilities_of_all_counts_add_up_to_one():
    total = d.Multinomial(4, probs=ex.tensor([0.2, 0.5, 0.3]))
    counts = ex.tensor([[i, j, 4 - i - j] for i in range(5) for j in range(5 - i)]).float()
    probs = total.log_prob(counts).exp()
    assert probs.sum().item() == pytest.approx(1.0)
    assert total.entropy().item() == pytest.approx(-(probs * probs.log()).sum().item(), rel=1e-5)


def test_multivariate_normal_agrees_between_its_three_forms():
    covariance = ex.tensor([[2.0, 0.6], [0.6, 1.0]], dtype=ex.float64)
    loc = ex.tensor([0.5, -1.0], dtype=ex.float64)
    forms = [
        d.MultivariateNormal(loc, covariance_matrix=covariance),
        d.MultivariateNormal(loc, precision_matrix=ex.linalg.inv(covariance)),
        d.MultivariateNormal(loc, scale_tril=ex.linalg.cholesky(covariance)),
    ]
    value = ex.randn(4, 3, 2, dtype=ex.float64)
    by_hand = -0.5 * (
        ((value - loc) @ ex.linalg.inv(covariance) * (value - loc)).sum(-1)
        + ex.linalg.slogdet(covariance)[1]
        + 2 * math.log(2 * math.pi)
    )
    for form in forms:
        ex.testing.assert_close(form.log_prob(value), by_hand)
        ex.testing.assert_close(form.covariance_matrix, covariance)
        ex.testing.assert_close(form.precision_matrix, ex.linalg.inv(covariance))
        ex.testing.assert_close(form.variance, covariance.diagonal())


def test_multivariate_normal_of_many_means_and_one_covariance_is_the_same_as_many_covariances():
    loc, value = ex.randn(5, 2, dtype=ex.float64), ex.randn(3, 5, 2, dtype=ex.float64)
    covariance = ex.tensor([[2.0, 0.6], [0.6, 1.0]], dtype=ex.float64)
    one = d.MultivariateNormal(loc, covariance)
    many = d.MultivariateNormal(loc, covariance.expand(5, 2, 2).clone())
    ex.testing.assert_close(one.log_prob(value), many.log_prob(value))
    ex.testing.assert_close(one.entropy(), many.entropy())
    ex.testing.assert_close(d.kl_divergence(one, many), ex.zeros(5, dtype=ex.float64))
    wide = d.MultivariateNormal(ex.zeros(1, 2, dtype=ex.float64), covariance.expand(1, 2, 2))
    assert wide.log_prob(value).shape == (3, 5)


def test_straight_through_draws_are_one_hot_and_pass_the_gradient_on():
    probs = ex.tensor([0.2, 0.8], requires_grad=True)
    drawn = d.OneHotCategoricalStraightThrough(probs=probs).rsample((5,))
    assert set(drawn.detach().flatten().tolist()) <= {0.0, 1.0}
    (grad,) = ex.autograd.grad((drawn * ex.tensor([1.0, 3.0])).sum(), probs)
    assert grad.tolist() == pytest.approx([5 * (1 - (0.2 * 1 + 0.8 * 3)), 5 * (3 - (0.2 * 1 + 0.8 * 3))])
