"""ex.linalg: factors multiply back, gradients match differences, failures name the matrix, empty batches work."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import linalg
from extempo.errors import ShapeError, UnsupportedError
from extempo.testing import assert_close, check_grad

from .helpers import normal

# ---- factors


@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 3), (2, 3, 4), (0, 3, 2), (2, 0, 0), (0, 3), (3, 0)])
def test_factors_multiply_back_to_the_matrix(shape):
    a = normal(*shape)
    q, r = linalg.qr(a)
    assert_close(q @ r, a)
    u, s, vh = linalg.svd(a, full_matrices=False)
    assert_close(u * s.unsqueeze(-2) @ vh, a)
    p, lower, upper = linalg.lu(a)
    assert_close(p @ lower @ upper, a)


# ---- gradients, of composites too


@pytest.mark.parametrize(
    ("name", "function", "shapes"),
    [
        ("lu", lambda a: linalg.lu(a)[1:], [(3, 4)]),
        ("lu_solve", lambda a, b: linalg.lu_solve(*linalg.lu_factor(a), b, left=False), [(3, 3), (2, 3)]),
        ("cholesky_solve", lambda b, a: ex.cholesky_solve(b, a), [(3, 2), (3, 3)]),
        ("cholesky_inverse", lambda a: ex.cholesky_inverse(a), [(3, 3)]),
        ("householder_product", linalg.householder_product, [(4, 3), (2,)]),
        ("ormqr", ex.ormqr, [(4, 3), (3,), (4, 2)]),
        ("solve_right", lambda a, b: linalg.solve(a, b, left=False), [(2, 3, 3), (4, 3)]),
        ("solve_vectors", linalg.solve, [(2, 3, 3), (2, 3)]),
        ("tensorsolve", linalg.tensorsolve, [(2, 3, 6), (2, 3)]),
        ("lstsq", lambda a, b: linalg.lstsq(a, b, driver="gelsd")[:2], [(4, 2), (4, 3)]),
        ("pinv", linalg.pinv, [(2, 3)]),
        ("cond", linalg.cond, [(3, 3)]),
        ("matrix_power", lambda a: linalg.matrix_power(a, -3), [(2, 2)]),
        ("logdet", lambda a: ex.logdet(a @ a.mT), [(3, 3)]),
        ("svd_products", lambda a: linalg.svd(a).U[..., :2] @ linalg.svd(a).Vh[..., :2, :], [(2, 3)]),
    ],
)
def test_gradients_agree_with_differences_to_second_order(name, function, shapes):
    check_grad(
        function,
        [normal(*shape, seed=i) + (0 if len(shape) < 2 else ex.eye(*shape[-2:])) for i, shape in enumerate(shapes)],
    )


def test_gradients_of_empty_and_zero_batches_have_their_shape():
    for shape in ((0, 0), (0, 3, 3), (2, 0, 0)):
        for function in (linalg.inv, linalg.det, linalg.svdvals, linalg.matrix_exp, linalg.cholesky, linalg.eigvalsh):
            a = ex.zeros(*shape, requires_grad=True)
            function(a).sum().backward()
            assert a.grad.shape == shape, function


# ---- values


# ---- failures


def test_shapes_that_do_not_fit_are_named():
    with pytest.raises(ShapeError, match=r"linalg.det: expected square matrices \(..., n, n\), got shape \(2, 3\)"):
        linalg.det(ex.ones(2, 3))
    with pytest.raises(ShapeError, match=r"linalg.svd: expected matrices .*, got shape \(3,\)"):
        linalg.svd(ex.ones(3))
    with pytest.raises(ShapeError, match="need right hand sides with 2 rows"):
        linalg.solve(ex.eye(2), ex.ones(3, 1))
    with pytest.raises(ShapeError, match="mode must be"):
        linalg.qr(ex.ones(2, 2), mode="full")
    with pytest.raises(ShapeError, match="UPLO must be"):
        linalg.eigh(ex.eye(2), UPLO="X")
    with pytest.raises(ShapeError, match="left=False needs a matrix B"):
        linalg.solve(ex.eye(2), ex.ones(2), left=False)
    with pytest.raises(ShapeError, match="tensorinv"):
        linalg.tensorinv(ex.ones(2, 3))
    with pytest.raises(UnsupportedError, match="pivot=True"):
        linalg.lu_factor(ex.eye(2), pivot=False)


def test_a_chain_of_one_matrix_is_a_copy() -> None:
    x = ex.ones(2, 2)
    product = ex.chain_matmul(x)
    x.zero_()
    assert product.sum() == 4
