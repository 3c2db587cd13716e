"""Random covariance matrices."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import distributions as d
from extempo.errors import DtypeError, ShapeError

COVARIANCE = ex.tensor([[2.0, 0.5], [0.5, 1.0]])


def test_the_mean_of_draws_is_the_mean():
    ex.manual_seed(0)
    wishart = d.Wishart(5.0, covariance_matrix=COVARIANCE)
    draws = wishart.sample((4000,))
    ex.testing.assert_close(draws.mean(0), wishart.mean, rtol=0.05, atol=0.1)
    ex.testing.assert_close(draws.var(0), wishart.variance, rtol=0.15, atol=0.1)


def test_each_way_to_state_the_scale_gives_the_others():
    by_covariance = d.Wishart(ex.tensor([3.0, 4.0]), covariance_matrix=COVARIANCE)
    for name in ("precision_matrix", "scale_tril"):
        other = d.Wishart(by_covariance.df, **{name: getattr(by_covariance, name)})
        ex.testing.assert_close(other.covariance_matrix, by_covariance.covariance_matrix)
        ex.testing.assert_close(other.log_prob(COVARIANCE), by_covariance.log_prob(COVARIANCE))
    assert by_covariance.expand((3, 2)).sample().shape == (3, 2, 2, 2)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"df": 3.0}, DtypeError, "exactly one of"),
        ({"df": 3.0, "scale_tril": ex.ones(2, 3)}, ShapeError, "of shape"),
        ({"df": 1.0, "covariance_matrix": COVARIANCE}, ShapeError, "df must be greater than 1"),
    ],
)
def test_what_does_not_fit_is_named(arguments, error, words):
    with pytest.raises(error, match=words):
        d.Wishart(**arguments)


def test_the_divergence_is_the_mean_over_draws():
    p = d.Wishart(ex.tensor([2.5, 6.0]), covariance_matrix=COVARIANCE)
    q = d.Wishart(4.0, precision_matrix=ex.tensor([[1.0, -0.3], [-0.3, 1.5]]))
    draws = p.sample((20000,))
    estimate = (p.log_prob(draws) - q.log_prob(draws)).mean(0)
    ex.testing.assert_close(d.kl_divergence(p, q), estimate, rtol=0.05, atol=0.02)
    ex.testing.assert_close(d.kl_divergence(p, p), ex.zeros(2), rtol=0, atol=1e-5)
