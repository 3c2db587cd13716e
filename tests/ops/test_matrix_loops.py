"""Factors and systems as loops of other ops, run eagerly, against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.exporting import control_flow as flow
from extempo.ops import matrix_loops

RNG = np.random.default_rng(0)
SHAPES = [(3, 3), (2, 2, 4, 4), (1, 1), (2, 0, 3, 3)]


def drawn(*shape):
    return ex.tensor(RNG.normal(size=shape))


@pytest.mark.parametrize("shape", [(3, 3), (2, 3, 4), (2, 4, 2), (0, 3)])
def test_lu_factors_are_those_of_the_kernel(shape):
    a = drawn(*shape)
    for ours, wanted in zip(matrix_loops.lu_factor(flow, a), ex.linalg.lu_factor_ex(a), strict=True):
        np.testing.assert_allclose(ours.numpy(), wanted.numpy(), atol=1e-12)


def test_a_singular_matrix_is_told_by_its_pivot():
    a = ex.tensor([[1.0, 2.0], [2.0, 4.0]], dtype=ex.float64)
    assert matrix_loops.lu_factor(flow, a)[2].item() == 2
    assert matrix_loops.solve(flow, a, ex.ones(2, 1).double())[1].item() == 2


@pytest.mark.parametrize("shape", SHAPES)
def test_systems_are_solved(shape):
    a, b = drawn(*shape) + 3 * ex.eye(shape[-1]).double(), drawn(*shape[:-1], 2)
    x, info = matrix_loops.solve(flow, a, b)
    np.testing.assert_allclose((a @ x).numpy(), b.numpy(), atol=1e-10)
    assert not info.any()
    for upper in (False, True):
        triangle = a.triu() if upper else a.tril()
        x = matrix_loops.solve_triangular(flow, a, b, upper, unitriangular=False)
        np.testing.assert_allclose((triangle @ x).numpy(), b.numpy(), atol=1e-10)


def test_pivots_become_an_order():
    a = drawn(2, 4, 4)
    lu, pivots, _ = matrix_loops.lu_factor(flow, a)
    order = matrix_loops.permutation(flow, pivots, 4)
    product = (lu.tril(-1) + ex.eye(4).double()) @ lu.triu()
    np.testing.assert_allclose(product.numpy(), a.gather(1, order.unsqueeze(2).expand(2, 4, 4)).numpy(), atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_cholesky_factors_and_their_failure(shape):
    x = drawn(*shape)
    a = x @ x.mT + ex.eye(shape[-1]).double()
    factor, info = matrix_loops.cholesky(flow, a)
    np.testing.assert_allclose((factor @ factor.mT).numpy(), a.numpy(), atol=1e-10)
    assert not info.any()
    assert matrix_loops.cholesky(flow, ex.tensor([[1.0, 0.0], [0.0, -1.0]]))[1].item() == 2


@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 3), (3, 4), (2, 1)])
def test_reflections_are_lapacks(shape):
    a = drawn(*shape)
    r, q, _, tau = matrix_loops.householder(flow, a)
    np.testing.assert_allclose((q @ r).numpy(), a.numpy(), atol=1e-12)
    wanted, factors = ex.geqrf(a)
    np.testing.assert_allclose(r.numpy(), wanted.triu().numpy(), atol=1e-12)
    np.testing.assert_allclose(tau.numpy(), factors.numpy(), atol=1e-12)


@pytest.mark.parametrize("scale", [0.0, 0.01, 1.0, 30.0])
def test_the_exponential_of_matrices_of_any_size(scale):
    a = drawn(2, 3, 3) * scale
    wanted = ex.linalg.matrix_exp(a).numpy()
    np.testing.assert_allclose(
        matrix_loops.matrix_exp(flow, a).numpy(), wanted, rtol=1e-8, atol=1e-9 * abs(wanted).max()
    )
