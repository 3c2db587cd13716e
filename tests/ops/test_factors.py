"""Cholesky, LU and LDL factors: they solve, read one triangle, and name the matrix that has none."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import linalg
from extempo.errors import NumericalError
from extempo.testing import assert_close

from .helpers import normal, positive_definite


def test_a_non_contiguous_matrix_has_the_same_factors():
    a = positive_definite(4, 4)
    strided = ex.stack([a, a], -1)[..., 0]
    assert not strided.is_contiguous()
    for function in (linalg.cholesky, linalg.inv, linalg.svdvals, linalg.det, linalg.matrix_exp):
        assert_close(function(strided), function(a))


def test_symmetric_functions_read_one_triangle_and_have_symmetric_gradients():
    a = positive_definite(3, 3)
    lower = a.tril().requires_grad_()
    assert_close(linalg.cholesky(lower), linalg.cholesky(a))
    assert_close(linalg.eigvalsh(lower), linalg.eigvalsh(a))
    assert_close(linalg.eigvalsh(a.triu(), UPLO="U"), linalg.eigvalsh(a))
    assert_close(linalg.cholesky(a.triu(), upper=True), linalg.cholesky(a).mT)
    linalg.cholesky(lower)[2].sum().backward()
    assert_close(lower.grad, lower.grad.mT)


def test_ldl_solves_indefinite_systems_where_blocks_of_two_are_needed():
    a = ex.tensor([[0.0, 1.0, 2.0], [1.0, 0.0, 3.0], [2.0, 3.0, 0.0]], dtype=ex.float64)
    factors, pivots = linalg.ldl_factor(a)
    assert (pivots < 0).any()
    b = normal(3, 2)
    assert_close(a @ linalg.ldl_solve(factors, pivots, b), b)


def test_lu_unpack_leaves_out_what_is_not_asked_for():
    factors, pivots = linalg.lu_factor(normal(3, 3))
    p, lower, upper = ex.lu_unpack(factors, pivots, unpack_data=False)
    assert p.shape == (3, 3)
    assert lower.shape == upper.shape == (0,)


def test_a_matrix_that_is_not_positive_definite_is_named_with_its_minor():
    bad = ex.diag(ex.tensor([1.0, -1.0, 1.0]))
    with pytest.raises(NumericalError, match=r"matrix \(1,\) of the batch is not positive definite .* order 2"):
        linalg.cholesky(ex.stack([ex.eye(3), bad]))
