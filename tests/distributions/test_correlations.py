"""Cholesky factors of correlation matrices."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import distributions as d
from extempo.errors import ShapeError


def test_draws_are_factors_of_correlation_matrices():
    ex.manual_seed(0)
    factors = d.LKJCholesky(4, ex.tensor([0.5, 3.0])).sample((7,))
    assert factors.shape == (7, 2, 4, 4)
    matrices = factors @ factors.mT
    ex.testing.assert_close(matrices.diagonal(dim1=-2, dim2=-1), ex.ones(7, 2, 4))
    assert bool(d.constraints.corr_cholesky.check(factors).all())


def test_a_higher_concentration_draws_smaller_correlations():
    ex.manual_seed(0)
    loose, tight = (d.LKJCholesky(3, c).sample((2000,))[:, 1, 0].square().mean() for c in (1.0, 20.0))
    # A squared correlation is Beta(1/2, concentration + (dim - 2) / 2): its mean is 1 / (2 concentration + dim - 1).
    assert loose.item() == pytest.approx(1 / 4, rel=0.1)
    assert tight.item() == pytest.approx(1 / 42, rel=0.1)


def test_expanding_gives_every_matrix_its_density():
    small = d.LKJCholesky(3, 2.0)
    large = small.expand((5,))
    factor = small.sample()
    ex.testing.assert_close(large.log_prob(factor), small.log_prob(factor).expand(5))
    assert large.sample((2,)).shape == (2, 5, 3, 3)


def test_a_matrix_of_one_row_is_refused():
    with pytest.raises(ShapeError, match="at least 2 rows"):
        d.LKJCholesky(1)
