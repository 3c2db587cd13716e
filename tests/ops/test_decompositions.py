"""QR, eigenvalues and singular values: reflectors, gradients, what is not finite."""

from __future__ import annotations

import math

import numpy as np
import pytest

import extempo as ex
from extempo import linalg
from extempo.errors import NotDifferentiableError, NumericalError, UnsupportedError
from extempo.testing import assert_close

from .helpers import INFINITE, normal, positive_definite


def test_reflectors_multiply_to_q():
    a = normal(2, 5, 3)
    packed, tau = ex.geqrf(a)
    q = linalg.householder_product(packed, tau)
    assert_close(q @ packed[..., :3, :].triu(), a)
    c = normal(2, 5, 4, seed=1)
    full = linalg.qr(a, mode="complete").Q
    assert_close(ex.ormqr(packed, tau, c), full @ c)
    assert_close(ex.ormqr(packed, tau, c, transpose=True), full.mT @ c)
    assert_close(ex.ormqr(packed, tau, c.mT, left=False), c.mT @ full)


def test_values_keep_finite_gradients_where_vectors_do_not():
    a = ex.eye(3, dtype=ex.float64).requires_grad_()
    (g,) = ex.autograd.grad(linalg.eigvalsh(a).sum(), [a])
    assert_close(g, ex.eye(3, dtype=ex.float64))
    (g,) = ex.autograd.grad(linalg.svdvals(a).sum(), [a])
    assert_close(g, ex.eye(3, dtype=ex.float64))
    (g,) = ex.autograd.grad(linalg.eigh(a).eigenvectors[0].sum(), [a])
    assert not g.isfinite().all()


def test_qr_says_when_it_has_no_gradient():
    a = normal(4, 2).requires_grad_()
    with pytest.raises(NotDifferentiableError, match="use mode='reduced'"):
        linalg.qr(a, mode="complete").R.sum().backward()


def test_nan_in_a_decomposition_is_named():
    a = ex.stack([ex.eye(2), ex.full((2, 2), math.nan)])
    with pytest.raises(NumericalError, match=r"linalg.svd: matrix \(1,\) of the batch contains infinities or NaNs"):
        linalg.svd(a)


@pytest.mark.parametrize(
    ("name", "arguments"), [("svd", ()), ("svdvals", ()), ("pinv", ()), ("lstsq", (np.ones((4, 1)),)), ("cond", ())]
)
def test_infinities_in_a_decomposition_are_named(name, arguments):
    with pytest.raises(NumericalError, match=r"linalg\.\w+: the matrix contains infinities or NaNs"):
        getattr(linalg, name)(ex.tensor(INFINITE), *map(ex.tensor, arguments))


@pytest.mark.parametrize("name", ["eig", "eigvals"])
def test_complex_eigenvalues_are_refused_with_the_symmetric_way(name):
    with pytest.raises(UnsupportedError, match=r"eigh|eigvalsh"):
        getattr(linalg, name)(ex.eye(2))


def test_out_takes_the_parts_of_a_named_result():
    a = positive_definite(3, 3)
    values, vectors = ex.empty(0, dtype=ex.float64), ex.empty(0, dtype=ex.float64)
    result = linalg.eigh(a, out=(values, vectors))
    assert result.eigenvalues is values
    assert_close(vectors * values @ vectors.mT, a)
