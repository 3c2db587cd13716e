"""Distributions on the whole real line: loc + scale * z."""

from __future__ import annotations

import inspect
import math

import pytest

import extempo as ex
import extempo.distributions as d

LOCATION_SCALE = [d.Normal, d.Laplace, d.Cauchy, d.Gumbel]


@pytest.mark.parametrize("kind", LOCATION_SCALE)
def test_draws_are_moved_and_stretched_draws_of_one_law(kind):
    ex.manual_seed(0)
    z = kind(0.0, 1.0).sample((100,))
    ex.manual_seed(0)
    ex.testing.assert_close(kind(3.0, 2.0).sample((100,)), 3.0 + 2.0 * z)


@pytest.mark.parametrize("kind", LOCATION_SCALE)
def test_the_density_shrinks_as_the_scale_grows(kind):
    x, base, wide = ex.tensor([-0.5, 0.0, 2.0]), kind(0.0, 1.0), kind(1.0, 2.0)
    ex.testing.assert_close(wide.log_prob(1.0 + 2.0 * x), base.log_prob(x) - math.log(2))
    ex.testing.assert_close(wide.cdf(1.0 + 2.0 * x), base.cdf(x))
    assert wide.mode.item() == 1.0


def test_moments_that_do_not_exist_are_nan_or_infinite():
    cauchy = d.Cauchy(0.0, 1.0)
    assert math.isnan(cauchy.mean.item())
    assert cauchy.variance.item() == math.inf
    t = d.StudentT(ex.tensor([0.5, 1.5, 3.0]))
    assert [math.isnan(m) for m in t.mean.tolist()] == [True, False, False]
    assert t.variance.tolist()[1:] == [math.inf, 3.0]
    assert math.isnan(t.variance[0].item())


def test_students_t_of_many_degrees_is_normal():
    x = ex.tensor([-2.0, 0.0, 1.0], dtype=ex.float64)
    t = d.StudentT(ex.tensor(1e8, dtype=ex.float64), 1.0, 2.0)
    ex.testing.assert_close(t.log_prob(x), d.Normal(1.0, 2.0).log_prob(x), rtol=1e-6, atol=1e-6)
    assert t.mode.item() == 1.0


def test_an_attribute_that_is_another_has_its_documentation_and_follows_it():
    normal = d.Normal(ex.zeros(2, requires_grad=True), 1.0)
    assert normal.mean is normal.loc
    assert normal.stddev is normal.scale
    assert inspect.getdoc(d.Normal.mean) == "The mean of each distribution."
    with pytest.raises(AttributeError):
        normal.mean = ex.ones(2)
