"""Normal vectors of low rank are those of the covariance that is written out."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import distributions as d
from extempo.errors import ShapeError

LOC = ex.tensor([0.3, -0.8, 1.0])
FACTOR = ex.tensor([[0.7, 0.1], [-0.4, 0.5], [0.2, 0.9]])
DIAGONAL = ex.tensor([0.5, 1.2, 0.3])


def both():
    covariance = FACTOR @ FACTOR.T + DIAGONAL.diag()
    return d.LowRankMultivariateNormal(LOC, FACTOR, DIAGONAL), d.MultivariateNormal(LOC, covariance)


def test_it_is_the_normal_distribution_of_its_covariance():
    low, full = both()
    x = ex.tensor([[0.1, 0.2, 0.3], [-1.0, 2.0, 0.5]])
    ex.testing.assert_close(low.log_prob(x), full.log_prob(x))
    for name in ("covariance_matrix", "precision_matrix", "scale_tril", "variance"):
        ex.testing.assert_close(getattr(low, name), getattr(full, name))
    ex.testing.assert_close(low.entropy(), full.entropy())
    for p, q in ((low, full), (full, low), (low, low)):
        ex.testing.assert_close(d.kl_divergence(p, q), ex.tensor(0.0), atol=1e-5, rtol=0)


def test_expanding_keeps_one_factor_for_all():
    low = both()[0].expand((4, 2))
    assert low.rsample((5,)).shape == (5, 4, 2, 3)
    assert low.log_prob(ex.zeros(3)).shape == (4, 2)
    assert low._capacitance_tril.shape == (2, 2)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((ex.tensor(0.0), FACTOR, DIAGONAL), "at least 1 dimension"),
        ((LOC, FACTOR[:2], DIAGONAL), "cov_factor of shape"),
        ((LOC, FACTOR, DIAGONAL[:2]), "cov_diag of shape"),
    ],
)
def test_shapes_that_do_not_fit_are_named(arguments, words):
    with pytest.raises(ShapeError, match=words):
        d.LowRankMultivariateNormal(*arguments)


def test_vectors_of_other_sizes_have_no_divergence():
    with pytest.raises(ShapeError, match="sizes 3 and 2"):
        d.kl_divergence(both()[0], d.MultivariateNormal(ex.zeros(2), ex.eye(2)))
