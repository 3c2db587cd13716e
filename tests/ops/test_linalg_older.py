"""Functions of matrices by their older names: results, low ranks, chains."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import linalg
from extempo.errors import ShapeError
from extempo.testing import assert_close

from .helpers import normal, positive_definite


def test_results_have_pytorchs_names():
    a = positive_definite(3, 3)
    assert linalg.eigh(a)._fields == ("eigenvalues", "eigenvectors")
    assert linalg.svd(a)._fields == ("U", "S", "Vh")
    assert ex.svd(a)._fields == ("U", "S", "V")
    assert linalg.slogdet(a)._fields == ("sign", "logabsdet")
    assert linalg.lu_factor_ex(a)._fields == ("LU", "pivots", "info")
    assert linalg.lstsq(a, a)._fields == ("solution", "residuals", "rank", "singular_values")


def test_low_rank_matrices_are_found_exactly():
    a = normal(20, 3) @ normal(3, 12, seed=1)
    for matrix in (a, a.T):
        u, s, v = ex.svd_lowrank(matrix, q=3)
        assert_close(u * s @ v.T, matrix)
    assert ex.pca_lowrank(a, q=2).V.shape == (12, 2)
    with pytest.raises(ShapeError, match="q must be from 0 to 12"):
        ex.svd_lowrank(a, q=13)
