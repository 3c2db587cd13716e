"""Distributions made of others."""

from __future__ import annotations

import pytest

import extempo as ex
import extempo.distributions as d
from extempo.distributions import transforms as t


def test_mixture_draws_come_from_the_chosen_component():
    ex.manual_seed(0)
    mixture = d.MixtureSameFamily(d.Categorical(ex.tensor([0.25, 0.75])), d.Normal(ex.tensor([-100.0, 100.0]), 1.0))
    assert (mixture.sample((4000,)) > 0).float().mean().item() == pytest.approx(0.75, abs=0.03)
    vectors = d.MixtureSameFamily(d.Categorical(ex.ones(2, 3)), d.Independent(d.Normal(ex.zeros(2, 3, 4), 1.0), 1))
    assert vectors.sample((5,)).shape == (5, 2, 4)
    assert vectors.log_prob(vectors.sample((5,))).shape == (5, 2)


def test_batches_of_a_transforms_parameters_widen_the_distribution():
    wide = d.TransformedDistribution(d.Normal(0.0, 1.0), t.AffineTransform(ex.tensor([1.0, 2.0]), 3.0))
    assert wide.batch_shape == (2,)
    assert wide.sample((4,)).shape == (4, 2)
    ex.testing.assert_close(wide.log_prob(ex.tensor([1.0, 2.0])), d.Normal(0.0, 3.0).log_prob(ex.zeros(2)))
    reshaped = d.TransformedDistribution(d.Normal(ex.zeros(6), 1.0), t.ReshapeTransform((6,), (2, 3)))
    assert (reshaped.batch_shape, reshaped.event_shape) == ((), (2, 3))
    assert reshaped.expand((5,)).sample().shape == (5, 2, 3)
    assert reshaped.log_prob(ex.zeros(2, 3)).shape == ()


def test_cdf_follows_decreasing_transforms():
    flipped = d.TransformedDistribution(d.Normal(0.0, 1.0), t.AffineTransform(0.0, ex.tensor(-1.0)))
    plain = d.Normal(0.0, 1.0)
    x = ex.tensor([-1.0, 0.5])
    ex.testing.assert_close(flipped.cdf(x), plain.cdf(x))
    ex.testing.assert_close(flipped.icdf(flipped.cdf(x)), x)
