"""Gamma draws and their gradient at a fixed probability, without PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.backends.numpy.special import gammainc, gammaincc
from extempo.errors import DtypeError, NotDifferentiableError
from extempo.ops.gamma_gradient import log_sample_gradient, log_standard_gamma, standard_gamma

CONCENTRATIONS = np.array([0.02, 0.3, 0.9, 1.0, 1.5, 4.0, 30.0, 150.0, 900.0])


@pytest.mark.parametrize("deviations", [-3.0, -1.0, -0.1, 0.1, 1.0, 3.0])
def test_the_gradient_is_minus_the_slopes_of_the_distribution_function(deviations):
    """-(dP/da) / (dP/dlog z), with dP/da from central differences of the incomplete gamma function."""
    a = CONCENTRATIONS
    # Wilson and Hilferty: a point about so many deviations from the median.
    z = a * np.maximum(1 - 1 / (9 * a) + deviations / np.sqrt(9 * a), 0.05) ** 3
    step = 1e-4 * np.minimum(a, np.sqrt(a))
    slope = (gammainc(a + step, z) - gammainc(a - step, z)) / (2 * step)
    upper = -(gammaincc(a + step, z) - gammaincc(a - step, z)) / (2 * step)
    slope = np.where(z > a, upper, slope)  # the side that does not cancel
    log_density = a * np.log(z) - z - ex.lgamma(ex.tensor(a)).numpy()
    np.testing.assert_allclose(log_sample_gradient(a, np.log(z)), -slope / np.exp(log_density), rtol=2e-6)


def test_the_gradient_is_continuous_where_its_method_changes():
    a = np.array([0.1, 0.999, 1.0, 3.0])
    below, above = (log_sample_gradient(a, np.full(4, log_z)) for log_z in (0.0, 1e-12))
    np.testing.assert_allclose(below, above, rtol=1e-11)


def test_the_gradient_of_a_tiny_draw_is_its_limit():
    """P(a, z) is z ** a / gamma(a + 1) there, so d log(z) / da = (digamma(a + 1) - log(z)) / a."""
    a, log_z = np.array([0.01, 0.5]), np.array([-5000.0, -600.0])
    expected = (ex.digamma(ex.tensor(a + 1)).numpy() - log_z) / a
    np.testing.assert_allclose(log_sample_gradient(a, log_z), expected, rtol=1e-13)


def test_the_gradient_is_nan_where_there_is_no_distribution():
    assert np.isnan(log_sample_gradient(np.array([0.0, -1.0, np.nan, np.inf]), np.zeros(4))).all()


@pytest.mark.parametrize("concentration", [0.05, 0.5, 1.0, 3.0, 50.0])
def test_draws_have_the_moments_and_mean_gradients_of_the_distribution(concentration):
    ex.manual_seed(1)
    a = ex.full((40000,), concentration, dtype=ex.float64, requires_grad=True)
    drawn = standard_gamma(a)
    drawn.sum().backward()
    scale = concentration**0.5 / 200
    assert abs(drawn.mean().item() - concentration) < 5 * scale
    np.testing.assert_allclose(drawn.var().item(), concentration, rtol=0.1 if concentration >= 0.5 else 0.3)
    np.testing.assert_allclose(a.grad.mean().item(), 1.0, rtol=0.05)  # the mean is a, so its slope is 1


@pytest.mark.parametrize("concentration", [0.001, 0.5, 1.0, 3.0, 50.0])
def test_log_draws_have_the_moments_and_mean_gradients_of_the_logarithm(concentration):
    ex.manual_seed(2)
    a = ex.full((40000,), concentration, dtype=ex.float32, requires_grad=True)
    logs = log_standard_gamma(a)
    assert ex.isfinite(logs).all()
    logs.sum().backward()
    point = ex.tensor(concentration, dtype=ex.float64)
    mean, variance = point.digamma().item(), ex.polygamma(1, point).item()
    assert abs(logs.double().mean().item() - mean) < 5 * variance**0.5 / 200
    np.testing.assert_allclose(a.grad.double().mean().item(), variance, rtol=0.05)


def test_draws_repeat_with_the_seed_and_do_not_depend_on_the_size():
    a = ex.full((6,), 0.4)
    ex.manual_seed(3)
    first = log_standard_gamma(a)
    ex.manual_seed(3)
    assert ex.equal(log_standard_gamma(a[:4]), first[:4])


def test_second_derivatives_are_refused_by_name():
    a = ex.ones(3, requires_grad=True)
    (slope,) = ex.autograd.grad(standard_gamma(a).sum(), a, create_graph=True)
    with pytest.raises(NotDifferentiableError, match="second derivative of a gamma draw"):
        slope.sum().backward()


def test_whole_numbers_are_refused_and_impossible_concentrations_give_nan():
    with pytest.raises(DtypeError, match="floating concentration"):
        standard_gamma(ex.tensor([1, 2]))
    for draw in (standard_gamma, log_standard_gamma):
        assert ex.isnan(draw(ex.tensor([0.0, -1.0, float("nan")]))).all()
