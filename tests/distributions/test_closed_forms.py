"""What must hold between log_prob, cdf, icdf and the divergences, without PyTorch."""

from __future__ import annotations

import math

import numpy as np
import pytest

import extempo as ex
import extempo.distributions as d

from .cases import CASES, build_here, names

NUMBERED = list(zip(names(), CASES, strict=True))
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


# ---- divergences


def kl_pairs():
    for i, (_, p) in enumerate(NUMBERED):
        for j, (_, q) in enumerate(NUMBERED):
            if p[0] <= q[0] or i != j:
                yield p, q


def test_divergences_are_the_expected_difference_of_log_probs():
    ex.manual_seed(3)
    checked = 0
    for p_case, q_case in kl_pairs():
        p, q = build_here(*p_case)[0], build_here(*q_case)[0]
        try:
            divergence = d.kl_divergence(p, q).detach().double().numpy()
        except (NotImplementedError, ValueError):  # no formula, or shapes that do not fit each other
            continue
        heavy = "Pareto" in (p_case[0], q_case[0]) or q_case[0] == "Gumbel"  # their means converge too slowly
        if heavy or p.batch_shape != q.batch_shape or not np.isfinite(divergence).all():
            continue
        drawn = p.sample((3000,))
        q._validate_args = False
        ratio = (p.log_prob(drawn) - q.log_prob(drawn)).detach().double().numpy()
        error = np.abs(ratio.mean(0) - divergence)
        assert (error < 6 * ratio.std(0) / math.sqrt(3000) + 1e-6).all(), (p_case[0], q_case[0], error)
        checked += 1
    assert checked > 80


def test_the_divergence_from_itself_is_zero():
    for name, case in NUMBERED:
        p = build_here(*case)[0]
        try:
            divergence = d.kl_divergence(p, p)
        except NotImplementedError:
            continue
        assert divergence.abs().max().item() < 1e-12, name
        assert divergence.shape == p.batch_shape, name


def test_divergences_are_infinite_where_q_excludes_what_p_allows():
    assert d.kl_divergence(d.Normal(0.0, 1.0), d.Exponential(1.0)).item() == math.inf
    assert d.kl_divergence(d.Uniform(-1.0, 1.0), d.Beta(1.0, 1.0)).item() == math.inf
    assert d.kl_divergence(d.Uniform(0.0, 1.0), d.Uniform(0.5, 2.0)).item() == math.inf
    assert d.kl_divergence(d.Bernoulli(probs=0.5), d.Bernoulli(probs=0.0)).item() == math.inf
    assert d.kl_divergence(d.Bernoulli(probs=0.0), d.Bernoulli(probs=0.0)).item() == 0.0
    impossible = d.Categorical(probs=ex.tensor([0.0, 1.0]))
    assert d.kl_divergence(d.Categorical(probs=ex.tensor([0.5, 0.5])), impossible).item() == math.inf
    assert d.kl_divergence(impossible, d.Categorical(probs=ex.tensor([0.5, 0.5]))).item() == pytest.approx(math.log(2))


def test_kl_divergence_says_what_to_do_without_a_formula():
    with pytest.raises(NotImplementedError, match="no formula for Normal and Poisson; enter one with register_kl"):
        d.kl_divergence(d.Normal(0.0, 1.0), d.Poisson(1.0))
    with pytest.raises(NotImplementedError, match="q has more trials"):
        d.kl_divergence(d.Binomial(2, probs=0.5), d.Binomial(3, probs=0.5))
    with pytest.raises(ValueError, match="sizes 2 and 3"):
        d.kl_divergence(d.MultivariateNormal(ex.zeros(2), ex.eye(2)), d.MultivariateNormal(ex.zeros(3), ex.eye(3)))
    with pytest.raises(TypeError, match="subclasses of Distribution"):
        d.register_kl(int, d.Normal)


def test_the_most_specific_divergence_counts():
    class Narrow(d.Normal):
        pass

    @d.register_kl(Narrow, d.Normal)
    def narrow(p, q):
        return ex.tensor(7.0)

    assert d.kl_divergence(Narrow(0.0, 1.0), Narrow(0.0, 1.0)).item() == 7.0
    assert d.kl_divergence(d.Normal(0.0, 1.0), Narrow(0.0, 1.0)).item() == 0.0
