"""What must hold between log_prob, cdf, icdf and the divergences, without PyTorch."""

from __future__ import annotations

import math

import pytest

import extempo as ex
import extempo.distributions as d

from .cases import NUMBERED, build_here

DENSITIES = [
    pytest.param(*case, id=name)
    for name, case in NUMBERED
    if case[0] not in ("Independent", "MultivariateNormal", "MixtureSameFamily", "LogisticNormal", "VonMises")
    and not case[0].startswith("Relaxed")
]


def has(distribution, what, value):
    try:
        return getattr(distribution, what)(value)
    except NotImplementedError:
        return None


@pytest.mark.parametrize(("name", "arguments"), DENSITIES)
def test_the_density_is_the_slope_of_cdf_and_icdf_its_inverse(name, arguments):
    ex.manual_seed(0)
    distribution, _ = build_here(name, arguments)
    value = distribution.sample((5,)).double()
    if distribution.support.is_discrete or has(distribution, "cdf", value) is None:
        pytest.skip("it has no cdf in closed form, or no density")
    value = value.requires_grad_()
    level = distribution.cdf(value)
    (slope,) = ex.autograd.grad(level.sum(), value)
    ex.testing.assert_close(slope, distribution.log_prob(value).exp(), rtol=1e-6)
    back = has(distribution, "icdf", level.detach())
    if back is not None:
        ex.testing.assert_close(back, value, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("distribution", "start", "stop"),
    [
        (d.VonMises(0.3, 2.0), -math.pi, math.pi),
        (d.StudentT(3.0, 0.5, 2.0), -2000.0, 2000.0),
        (d.Beta(2.5, 1.5), 0.0, 1.0),
        (d.Gamma(2.5, 1.5), 1e-9, 40.0),
        (d.FisherSnedecor(4.0, 12.0), 1e-9, 200.0),
        (d.ContinuousBernoulli(probs=0.3), 0.0, 1.0),
        (d.MixtureSameFamily(d.Categorical(ex.tensor([1.0, 3.0])), d.Normal(ex.tensor([-1.0, 2.0]), 0.7)), -9.0, 9.0),
        (d.RelaxedBernoulli(ex.tensor(0.8), probs=0.4), 1e-6, 1 - 1e-6),
        (d.TransformedDistribution(d.Normal(0.0, 1.0), [d.SigmoidTransform()]), 1e-6, 1 - 1e-6),
        (
            d.TransformedDistribution(d.Normal(0.0, 1.0), [d.AffineTransform(1.0, -2.0), d.TanhTransform()]),
            -1 + 1e-6,
            1 - 1e-6,
        ),
        (d.LogNormal(0.2, 0.5), 1e-6, 60.0),
    ],
    ids=lambda x: type(x).__name__ if isinstance(x, d.Distribution) else "",
)
def test_densities_integrate_to_one(distribution, start, stop):
    x = ex.linspace(start, stop, 400001, dtype=ex.float64)
    total = ex.trapezoid(distribution.log_prob(x).exp(), x)
    assert total.item() == pytest.approx(1.0, abs=2e-3)


@pytest.mark.parametrize(
    "distribution",
    [
        d.Bernoulli(probs=0.3),
        d.Categorical(logits=ex.tensor([0.3, -1.0, 2.0])),
        d.Binomial(6, probs=0.3),
        d.OneHotCategorical(logits=ex.tensor([0.3, -1.0, 2.0])),
    ],
    ids=lambda x: type(x).__name__,
)
def test_probabilities_of_all_values_add_up_to_one(distribution):
    values = distribution.enumerate_support()
    assert distribution.log_prob(values).exp().sum().item() == pytest.approx(1.0)
    assert len(values) == values.unique(dim=0).shape[0]


@pytest.mark.parametrize(
    "distribution",
    [d.Poisson(3.5), d.Geometric(probs=0.3), d.NegativeBinomial(2.5, probs=0.6)],
    ids=lambda x: type(x).__name__,
)
def test_probabilities_of_counts_add_up_to_one_and_give_the_mean(distribution):
    counts = ex.arange(200, dtype=ex.float64)
    probs = distribution.log_prob(counts).exp()
    assert probs.sum().item() == pytest.approx(1.0)
    assert (probs * counts).sum().item() == pytest.approx(distribution.mean.item(), rel=1e-5)


# ---- divergences
