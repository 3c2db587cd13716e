"""Determinants, exponentials, powers, least squares and pseudo-inverses."""

from __future__ import annotations

import math

import numpy as np

import extempo as ex
from extempo import linalg
from extempo.testing import assert_close

from .helpers import INFINITE, normal


def test_the_determinant_of_a_singular_matrix_has_its_cofactors_as_gradient():
    a = ex.tensor([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0], [0.0, 0.0, 3.0]], dtype=ex.float64, requires_grad=True)
    linalg.det(a).backward()
    assert_close(
        a.grad, ex.tensor([[12.0, -6.0, 0.0], [-6.0, 3.0, 0.0], [0.0, 0.0, 0.0]], dtype=ex.float64), atol=1e-12
    )


def test_determinants_of_empty_and_singular_matrices():
    assert linalg.det(ex.ones(0, 0)).item() == 1.0
    sign, size = linalg.slogdet(ex.zeros(2, 2))
    assert (sign.item(), size.item()) == (0.0, -math.inf)
    assert math.isnan(ex.logdet(ex.tensor([[0.0, 1.0], [1.0, 0.0]])).item())
    assert ex.logdet(ex.zeros(2, 2)).item() == -math.inf


def test_the_exponential_of_rotations_and_of_large_and_small_matrices():
    angle = 2.0
    turned = linalg.matrix_exp(ex.tensor([[0.0, -angle], [angle, 0.0]], dtype=ex.float64))
    assert_close(
        turned, ex.tensor([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]], dtype=ex.float64)
    )
    diagonal = ex.tensor([-300.0, 1e-9, 100.0], dtype=ex.float64)
    mixed = linalg.matrix_exp(ex.stack([ex.diag(diagonal), ex.zeros(3, 3, dtype=ex.float64)]))
    np.testing.assert_allclose(mixed[0].diagonal().numpy(), np.exp(diagonal.numpy()), rtol=1e-12)
    assert_close(mixed[1], ex.eye(3, dtype=ex.float64))


def test_matrix_powers():
    a = ex.tensor([[1, 1], [1, 0]])
    assert linalg.matrix_power(a, 10).tolist() == [[89, 55], [55, 34]]
    assert linalg.matrix_power(a, 0).tolist() == [[1, 0], [0, 1]]
    b = normal(3, 3)
    assert_close(linalg.matrix_power(b, -2), linalg.inv(b @ b))


def test_least_squares_of_a_rank_deficient_system_has_the_smallest_norm():
    a = ex.tensor([[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]], dtype=ex.float64)
    result = linalg.lstsq(a, ex.tensor([1.0, 2.0, 3.0], dtype=ex.float64), driver="gelsd")
    assert_close(result.solution, ex.tensor([1.0, 1.0], dtype=ex.float64))
    assert result.rank.item() == 1
    assert result.residuals.shape == (0,)
    assert linalg.matrix_rank(a).item() == 1


def test_pseudo_inverse_tolerances():
    a = ex.diag(ex.tensor([1.0, 1e-3], dtype=ex.float64))
    assert linalg.pinv(a, rtol=1e-2)[1, 1].item() == 0.0
    assert linalg.pinv(a, atol=2.0).abs().max().item() == 0.0
    assert linalg.matrix_rank(a, atol=ex.tensor(1e-2)).item() == 1
    assert_close(linalg.pinv(a, hermitian=True), linalg.inv(a))


def test_the_gradient_of_a_determinant_with_infinities_is_nan_for_that_matrix_alone():
    a = ex.stack([ex.eye(3, dtype=ex.float64), ex.tensor(INFINITE[:3])]).requires_grad_()
    linalg.det(a).sum().backward()
    assert_close(a.grad[0], ex.eye(3, dtype=ex.float64))
    assert a.grad[1].isnan().all()
