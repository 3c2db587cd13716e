"""Draws of every distribution: their moments, their gradients, what they share with the other methods."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
import extempo.distributions as d

from .cases import CASES, build_here, names

EACH = pytest.mark.parametrize(("name", "arguments"), CASES, ids=names())
N_DRAWS = 8000


def moments(distribution):
    try:
        return distribution.mean.detach(), distribution.variance.detach()
    except NotImplementedError:
        return None


@EACH
def test_draws_have_the_shape_the_support_and_the_moments_of_the_distribution(name, arguments):
    ex.manual_seed(0)
    distribution, _ = build_here(name, arguments)
    drawn = distribution.sample((N_DRAWS,))
    assert tuple(drawn.shape) == (N_DRAWS, *distribution.batch_shape, *distribution.event_shape)
    assert not drawn.requires_grad
    assert distribution.support.check(drawn).all()
    assert distribution.sample().shape == distribution.batch_shape + distribution.event_shape
    known = moments(distribution)
    if known is None or name in ("Categorical", "VonMises"):
        return
    mean, variance = (x.numpy() for x in known)
    usable = np.isfinite(mean) & np.isfinite(variance)
    error = (drawn.double().mean(0).numpy() - mean)[usable]
    assert (np.abs(error) < 5 * np.sqrt(variance[usable] / N_DRAWS) + 1e-12).all()
    light = name not in ("LogNormal", "InverseGamma", "Pareto", "StudentT", "FisherSnedecor")  # of heavy tails, no
    if light:
        np.testing.assert_allclose(drawn.double().var(0).numpy()[usable], variance[usable], rtol=0.25)


REPARAMETERISED = [
    pytest.param(*case, id=name)
    for name, case in zip(names(), CASES, strict=True)
    if case[0] not in ("LogisticNormal", "RelaxedBernoulli", "RelaxedOneHotCategorical", "Pareto", "InverseGamma")
]


@pytest.mark.parametrize(("name", "arguments"), REPARAMETERISED)
def test_gradients_of_draws_are_on_average_those_of_the_mean(name, arguments):
    ex.manual_seed(1)
    distribution, leaves = build_here(name, arguments)
    if not distribution.has_rsample:
        with pytest.raises(NotImplementedError, match="no gradient to its parameters"):
            distribution.rsample()
        return
    mean = distribution.mean
    usable = ex.isfinite(mean) & ex.isfinite(distribution.variance)
    if not usable.any() or not mean.requires_grad:
        return
    drawn = distribution.rsample((N_DRAWS,))
    expected = ex.autograd.grad(ex.where(usable, mean, 0.0).sum(), leaves, allow_unused=True, retain_graph=True)
    found = ex.autograd.grad(ex.where(usable, drawn.mean(0), 0.0).sum(), leaves, allow_unused=True)
    for a, b in zip(found, expected, strict=True):
        if b is not None:
            tolerance = 0.15 if name == "LogNormal" else 0.08
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=tolerance, atol=tolerance)


@EACH
def test_entropy_is_the_mean_of_minus_log_prob(name, arguments):
    ex.manual_seed(2)
    distribution, _ = build_here(name, arguments)
    try:
        entropy = distribution.entropy().detach().numpy()
    except NotImplementedError:
        pytest.skip("it has no entropy in closed form")
    log_probs = distribution.log_prob(distribution.sample((N_DRAWS,))).detach().double().numpy()
    error = np.abs(-log_probs.mean(0) - entropy)
    assert (error < 5 * log_probs.std(0) / np.sqrt(N_DRAWS) + 1e-9).all()


def test_relaxed_draws_have_a_gradient_and_get_close_to_the_corners():
    logits = ex.tensor([0.5, -0.5, 0.0], requires_grad=True)
    drawn = d.RelaxedOneHotCategorical(ex.tensor(0.01), logits=logits).rsample((100,))
    assert (drawn.max(-1).values > 0.9).float().mean() > 0.9
    (drawn * ex.arange(3)).sum().backward()
    assert logits.grad is not None
    coins = d.RelaxedBernoulli(ex.tensor(0.01), logits=logits).rsample((100,))
    assert ((coins < 0.1) | (coins > 0.9)).float().mean() > 0.9
    assert coins.requires_grad


def test_relaxed_draws_choose_in_proportion_to_the_probabilities():
    ex.manual_seed(0)
    probs = ex.tensor([0.2, 0.5, 0.3])
    chosen = d.RelaxedOneHotCategorical(ex.tensor(0.5), probs=probs).sample((20000,)).argmax(-1)
    np.testing.assert_allclose(ex.bincount(chosen).numpy() / 20000, probs.numpy(), atol=0.02)


def test_straight_through_draws_are_one_hot_and_pass_the_gradient_on():
    probs = ex.tensor([0.2, 0.8], requires_grad=True)
    drawn = d.OneHotCategoricalStraightThrough(probs=probs).rsample((5,))
    assert set(drawn.detach().flatten().tolist()) <= {0.0, 1.0}
    (grad,) = ex.autograd.grad((drawn * ex.tensor([1.0, 3.0])).sum(), probs)
    assert grad.tolist() == pytest.approx([5 * (1 - (0.2 * 1 + 0.8 * 3)), 5 * (3 - (0.2 * 1 + 0.8 * 3))])


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


def test_von_mises_draws_have_its_circular_variance():
    ex.manual_seed(0)
    for concentration in (1e-8, 0.5, 4.0, 200.0):
        circle = d.VonMises(ex.tensor(2.5, dtype=ex.float64), concentration)
        drawn = circle.sample((20000,))
        assert (drawn >= -np.pi).all()
        assert (drawn < np.pi).all()
        assert (1 - (drawn - 2.5).cos().mean()).item() == pytest.approx(circle.variance.item(), rel=0.05, abs=0.001)


def test_dirichlet_and_beta_draws_of_tiny_concentration_are_finite_and_keep_their_gradient():
    tiny = ex.full((1000, 3), 0.001, requires_grad=True)
    drawn = d.Dirichlet(tiny).rsample()
    assert d.constraints.simplex.check(drawn).all()
    (drawn * ex.arange(3)).sum().backward()
    assert ex.isfinite(tiny.grad).all()
    small = ex.full((1000,), 0.001, requires_grad=True)
    drawn = d.Beta(small, small).rsample()
    assert ((drawn > 0) & (drawn < 1)).all()
    assert ex.isfinite(d.Beta(small, small).log_prob(drawn)).all()


def test_mixture_draws_come_from_the_chosen_component():
    ex.manual_seed(0)
    mixture = d.MixtureSameFamily(d.Categorical(ex.tensor([0.25, 0.75])), d.Normal(ex.tensor([-100.0, 100.0]), 1.0))
    assert (mixture.sample((4000,)) > 0).float().mean().item() == pytest.approx(0.75, abs=0.03)
    vectors = d.MixtureSameFamily(d.Categorical(ex.ones(2, 3)), d.Independent(d.Normal(ex.zeros(2, 3, 4), 1.0), 1))
    assert vectors.sample((5,)).shape == (5, 2, 4)
    assert vectors.log_prob(vectors.sample((5,))).shape == (5, 2)


def test_single_and_many_categorical_draws_follow_the_probabilities_and_never_take_an_impossible_one():
    ex.manual_seed(0)
    probs = ex.tensor([0.0, 0.2, 0.5, 0.3, 0.0])
    many = d.Categorical(probs=probs).sample((20000,))
    single = d.Categorical(probs=probs.expand(20000, 5)).sample()
    for drawn in (many, single):
        counts = ex.bincount(drawn, minlength=5).numpy() / 20000
        np.testing.assert_allclose(counts, probs.numpy(), atol=0.02)
        assert counts[0] == counts[4] == 0


def test_draws_repeat_with_the_seed():
    for name, arguments in CASES:
        distribution, _ = build_here(name, arguments)
        ex.manual_seed(7)
        first = distribution.sample((2,))
        ex.manual_seed(7)
        assert ex.equal(first, distribution.sample((2,))), name
