"""Distributions on the positive numbers."""

from __future__ import annotations

import math

import pytest

import extempo as ex
import extempo.distributions as d


def test_chi2_is_gamma_by_another_parameter():
    chi2, gamma = d.Chi2(3.0), d.Gamma(1.5, 0.5)
    assert chi2.df.item() == 3.0
    assert repr(chi2) == "Chi2(df: 3.0)"
    assert ex.equal(chi2.log_prob(ex.tensor(2.0)), gamma.log_prob(ex.tensor(2.0)))


@pytest.mark.parametrize(
    ("made", "whole"), [(d.HalfNormal(2.0), d.Normal(0.0, 2.0)), (d.HalfCauchy(2.0), d.Cauchy(0.0, 2.0))]
)
def test_a_folded_distribution_has_twice_the_density_above_zero_and_none_below(made, whole):
    x = ex.tensor([0.0, 1.0, 3.0])
    ex.testing.assert_close(made.log_prob(x), whole.log_prob(x) + math.log(2))
    ex.testing.assert_close(made.cdf(x), 2 * whole.cdf(x) - 1)
    ex.testing.assert_close(made.icdf(made.cdf(x)), x)
    made._validate_args = False
    assert made.log_prob(ex.tensor(-1.0)).item() == -math.inf
    assert made.scale.item() == 2.0


def test_log_normal_and_inverse_gamma_answer_with_their_bases_parameters():
    log_normal = d.LogNormal(0.5, ex.tensor([1.0, 2.0]))
    assert log_normal.loc.tolist() == [0.5, 0.5]
    assert log_normal.scale.tolist() == [1.0, 2.0]
    inverse = d.InverseGamma(3.0, 2.0)
    assert (inverse.concentration.item(), inverse.rate.item(), inverse.mean.item()) == (3.0, 2.0, 1.0)
    x = ex.tensor(0.5)
    ex.testing.assert_close(inverse.log_prob(x), d.Gamma(3.0, 2.0).log_prob(1 / x) - 2 * x.log())


def test_moments_that_do_not_exist_are_infinite_or_nan():
    pareto = d.Pareto(1.0, ex.tensor([0.5, 1.5, 3.0]))
    assert pareto.mean.tolist() == [math.inf, 3.0, 1.5]
    assert pareto.variance.tolist() == [math.inf, math.inf, 0.75]
    assert math.isnan(d.FisherSnedecor(1.0, 2.0).mean.item())


def test_draws_of_a_tiny_concentration_are_above_zero_and_keep_their_gradient():
    concentration = ex.full((1000,), 1e-3, requires_grad=True)
    drawn = d.Gamma(concentration, 1.0).rsample()
    assert (drawn > 0).all()
    drawn.sum().backward()
    assert ex.isfinite(concentration.grad).all()


def test_a_weibull_of_concentration_one_is_exponential():
    x = ex.tensor([0.1, 1.0, 4.0])
    ex.testing.assert_close(d.Weibull(2.0, 1.0).log_prob(x), d.Exponential(0.5).log_prob(x))
    ex.testing.assert_close(d.Weibull(2.0, 1.0).entropy(), d.Exponential(0.5).entropy())
