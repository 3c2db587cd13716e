"""ex.linalg: factors multiply back, gradients match differences, failures name the matrix, empty batches work."""

from __future__ import annotations

import math

import numpy as np
import pytest

import extempo as ex
from extempo import linalg
from extempo.errors import DtypeError, NotDifferentiableError, NumericalError, ShapeError, UnsupportedError
from extempo.testing import assert_close, check_grad

from .helpers import normal


def positive_definite(*shape: int) -> ex.Tensor:
    x = normal(*shape)
    return x @ x.mT + ex.eye(shape[-1], dtype=x.dtype)


SINGULAR = [[1.0, 2.0], [2.0, 4.0]]


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


def test_results_have_pytorchs_names():
    a = positive_definite(3, 3)
    assert linalg.eigh(a)._fields == ("eigenvalues", "eigenvectors")
    assert linalg.svd(a)._fields == ("U", "S", "Vh")
    assert ex.svd(a)._fields == ("U", "S", "V")
    assert linalg.slogdet(a)._fields == ("sign", "logabsdet")
    assert linalg.lu_factor_ex(a)._fields == ("LU", "pivots", "info")
    assert linalg.lstsq(a, a)._fields == ("solution", "residuals", "rank", "singular_values")


@pytest.mark.parametrize("size", [1, 2, 49, 130])
def test_blocked_elimination_agrees_with_numpy_for_sizes_around_a_block(size):
    a, b = normal(2, size, size), normal(2, size, 3, seed=1)
    factors, pivots = linalg.lu_factor(a)
    np.testing.assert_allclose(linalg.lu_solve(factors, pivots, b).numpy(), np.linalg.solve(a.numpy(), b.numpy()))


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


def test_low_rank_matrices_are_found_exactly():
    a = normal(20, 3) @ normal(3, 12, seed=1)
    for matrix in (a, a.T):
        u, s, v = ex.svd_lowrank(matrix, q=3)
        assert_close(u * s @ v.T, matrix)
    assert ex.pca_lowrank(a, q=2).V.shape == (12, 2)
    with pytest.raises(ShapeError, match="q must be from 0 to 12"):
        ex.svd_lowrank(a, q=13)


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


def test_the_determinant_of_a_singular_matrix_has_its_cofactors_as_gradient():
    a = ex.tensor([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0], [0.0, 0.0, 3.0]], dtype=ex.float64, requires_grad=True)
    linalg.det(a).backward()
    assert_close(
        a.grad, ex.tensor([[12.0, -6.0, 0.0], [-6.0, 3.0, 0.0], [0.0, 0.0, 0.0]], dtype=ex.float64), atol=1e-12
    )


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


def test_gradients_of_empty_and_zero_batches_have_their_shape():
    for shape in ((0, 0), (0, 3, 3), (2, 0, 0)):
        for function in (linalg.inv, linalg.det, linalg.svdvals, linalg.matrix_exp, linalg.cholesky, linalg.eigvalsh):
            a = ex.zeros(*shape, requires_grad=True)
            function(a).sum().backward()
            assert a.grad.shape == shape, function


# ---- values


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


def test_a_zero_on_a_triangle_gives_infinity_not_an_error():
    a = ex.tensor([[1.0, 1.0], [0.0, 0.0]])
    x = linalg.solve_triangular(a, ex.ones(2, 1), upper=True)
    assert x[1].item() == math.inf


def test_triangular_systems_read_one_triangle_and_skip_a_unit_diagonal():
    a, b = normal(3, 3), normal(3, 2, seed=1)
    whole = linalg.solve_triangular(a, b, upper=False)
    assert_close(whole, linalg.solve_triangular(a.tril(), b, upper=False))
    unit = linalg.solve_triangular(a, b, upper=True, unitriangular=True)
    assert_close((a.triu(1) + ex.eye(3, dtype=ex.float64)) @ unit, b)


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


# ---- failures


@pytest.mark.parametrize("function", [linalg.inv, lambda a: linalg.solve(a, ex.ones(2, 1))])
def test_a_singular_matrix_is_named_by_its_place_in_the_batch(function):
    batch = ex.stack([ex.eye(2), ex.eye(2), ex.tensor(SINGULAR), ex.eye(2)]).reshape(2, 2, 2, 2)
    with pytest.raises(NumericalError, match=r"matrix \(1, 0\) of the batch is singular \(pivot 2 is zero\)"):
        function(batch)
    with pytest.raises(linalg.LinAlgError, match="the matrix is singular"):
        function(ex.tensor(SINGULAR))


def test_a_matrix_that_is_not_positive_definite_is_named_with_its_minor():
    bad = ex.diag(ex.tensor([1.0, -1.0, 1.0]))
    with pytest.raises(NumericalError, match=r"matrix \(1,\) of the batch is not positive definite .* order 2"):
        linalg.cholesky(ex.stack([ex.eye(3), bad]))


def test_ex_functions_return_info_in_place_of_an_error():
    batch = ex.stack([ex.eye(2), ex.tensor(SINGULAR)])
    inverse, info = linalg.inv_ex(batch)
    assert info.tolist() == [0, 2]
    assert info.dtype is ex.int32
    assert_close(inverse[0], ex.eye(2))
    assert inverse[1].isnan().all()
    assert linalg.solve_ex(batch, ex.ones(2, 1)).info.tolist() == [0, 2]
    assert linalg.cholesky_ex(ex.stack([ex.eye(2), -ex.eye(2)])).info.tolist() == [0, 1]
    assert linalg.lu_factor_ex(batch).info.tolist() == [0, 2]
    with pytest.raises(NumericalError):
        linalg.inv_ex(batch, check_errors=True)


def test_nan_in_a_decomposition_is_named():
    a = ex.stack([ex.eye(2), ex.full((2, 2), math.nan)])
    with pytest.raises(NumericalError, match=r"linalg.svd: matrix \(1,\) of the batch contains infinities or NaNs"):
        linalg.svd(a)


INFINITE = np.random.default_rng(0).normal(size=(4, 3)) * 1e38
INFINITE[2, 0] = -math.inf  # on which LAPACK's SVD never ends


@pytest.mark.parametrize(
    ("name", "arguments"), [("svd", ()), ("svdvals", ()), ("pinv", ()), ("lstsq", (np.ones((4, 1)),)), ("cond", ())]
)
def test_infinities_in_a_decomposition_are_named(name, arguments):
    with pytest.raises(NumericalError, match=r"linalg\.\w+: the matrix contains infinities or NaNs"):
        getattr(linalg, name)(ex.tensor(INFINITE), *map(ex.tensor, arguments))


def test_the_gradient_of_a_determinant_with_infinities_is_nan_for_that_matrix_alone():
    a = ex.stack([ex.eye(3, dtype=ex.float64), ex.tensor(INFINITE[:3])]).requires_grad_()
    linalg.det(a).sum().backward()
    assert_close(a.grad[0], ex.eye(3, dtype=ex.float64))
    assert a.grad[1].isnan().all()


@pytest.mark.parametrize("name", ["eig", "eigvals"])
def test_complex_eigenvalues_are_refused_with_the_symmetric_way(name):
    with pytest.raises(UnsupportedError, match=r"eigh|eigvalsh"):
        getattr(linalg, name)(ex.eye(2))


@pytest.mark.parametrize("dtype", [ex.float16, ex.bfloat16, ex.int64, ex.bool])
def test_other_dtypes_are_refused_with_the_conversion_to_use(dtype):
    with pytest.raises(DtypeError, match=r"expected float32 or float64, got .*; use x.float\(\)"):
        linalg.inv(ex.eye(2).to(dtype))


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


def test_out_takes_the_parts_of_a_named_result():
    a = positive_definite(3, 3)
    values, vectors = ex.empty(0, dtype=ex.float64), ex.empty(0, dtype=ex.float64)
    result = linalg.eigh(a, out=(values, vectors))
    assert result.eigenvalues is values
    assert_close(vectors * values @ vectors.mT, a)


def test_a_chain_of_one_matrix_is_a_copy() -> None:
    x = ex.ones(2, 2)
    product = ex.chain_matmul(x)
    x.zero_()
    assert product.sum() == 4
