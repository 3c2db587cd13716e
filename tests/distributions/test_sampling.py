"""Draws of every distribution: their moments, their gradients, what they share with the other methods."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex

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


def test_draws_repeat_with_the_seed():
    for name, arguments in CASES:
        distribution, _ = build_here(name, arguments)
        ex.manual_seed(7)
        first = distribution.sample((2,))
        ex.manual_seed(7)
        assert ex.equal(first, distribution.sample((2,))), name
