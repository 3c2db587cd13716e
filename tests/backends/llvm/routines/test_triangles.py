"""Triangular systems, Cholesky factors and symmetric matrices: the NumPy kernels' results, to rounding."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.backends.llvm.routines.triangles import (
    FEW_COLUMNS,
    MOST_FACTORED,
    MOST_ROWS,
    bind_cholesky,
    bind_mirrored,
    bind_solve_triangular,
)
from extempo.backends.numpy import factorization
from extempo.core.types import TensorType, float32, float64, int64

pytest.importorskip("llvmlite", reason="native routines need llvmlite")

SYSTEMS = [  # shapes of the matrices and of the right-hand sides
    ((1, 1), (1, 1)),
    ((5, 5), (5, 3)),
    ((64, 64), (64, 1)),
    ((33, 33), (33, 45)),
    ((9, 9), (9, 8)),
    ((3, 20, 20), (3, 20, 7)),
    ((20, 20), (3, 20, 7)),
    ((3, 20, 20), (20, 1)),
    ((2, 3, 9, 9), (2, 3, 9, 70)),
]
PRECISION = {"float32": 1e-6, "float64": 1e-13}


def close(found, expected, dtype):
    np.testing.assert_allclose(found, expected, rtol=0, atol=PRECISION[dtype] * np.abs(expected).max())


def fallbacks():
    return dict(ex.backends.stats()["fallbacks"])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("a_shape", "b_shape"), SYSTEMS)
def test_a_system_is_solved_natively_whichever_triangle_and_however_it_lies(a_shape, b_shape, dtype):
    rng, n, before = np.random.default_rng(0), a_shape[-1], fallbacks()
    a = (rng.normal(size=a_shape) / n + 2 * np.eye(n)).astype(dtype)
    b = rng.normal(size=b_shape).astype(dtype)
    for upper in (True, False):
        for unit in (True, False):
            expected = factorization.solve_triangular(a, b, upper, unit)
            for matrix in (ex.tensor(a), ex.tensor(np.ascontiguousarray(np.swapaxes(a, -1, -2))).mT):
                x = ex.linalg.solve_triangular(matrix, ex.tensor(b), upper=upper, unitriangular=unit)
                close(x.numpy(), expected, dtype)
    assert fallbacks() == before


def test_the_other_triangle_is_not_read():
    a = np.tril(np.random.default_rng(0).normal(size=(6, 6)) + 3 * np.eye(6))
    expected = factorization.solve_triangular(a, np.ones((6, 1)), False, False)
    a[np.triu_indices(6, 1)] = np.nan
    x = ex.linalg.solve_triangular(ex.tensor(a), ex.ones(6, 1, dtype=ex.float64), upper=False)
    close(x.numpy(), expected, "float64")


@pytest.mark.parametrize("columns", [1, 3])
def test_a_zero_on_the_diagonal_gives_what_numpy_gives(columns):
    a = np.array([[2.0, 0.0], [1.0, 0.0]])
    b = np.ones((2, columns))
    with np.errstate(divide="ignore"):
        expected = factorization.solve_triangular(a, b, False, False)
    x = ex.linalg.solve_triangular(ex.tensor(a), ex.tensor(b), upper=False)
    np.testing.assert_array_equal(x.numpy(), expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(1, 1), (5, 5), (64, 64), (4, 17, 17), (2, 3, 8, 8), (70, 70)])
def test_factors_are_those_of_numpy(shape, dtype):
    rng, before = np.random.default_rng(0), fallbacks()
    x = rng.normal(size=shape)
    a = (x @ np.swapaxes(x, -1, -2) + shape[-1] * np.eye(shape[-1])).astype(dtype)
    expected = np.linalg.cholesky(a.astype("f8"))
    close(ex.linalg.cholesky(ex.tensor(a)).numpy(), expected, dtype)
    np.testing.assert_array_equal(ex.linalg.cholesky(ex.tensor(a), upper=True).mT, ex.linalg.cholesky(ex.tensor(a)))
    assert fallbacks() == before


def test_one_matrix_of_many_that_is_not_positive_definite_is_named():
    a = np.stack([np.eye(3), np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), np.eye(3)])
    with pytest.raises(
        ex.errors.NumericalError, match=r"matrix \(1,\) of the batch is not positive definite .* order 2"
    ):
        ex.linalg.cholesky(ex.tensor(a))
    factors, info = ex.linalg.cholesky_ex(ex.tensor(a))
    assert info.tolist() == [0, 2, 0]
    np.testing.assert_array_equal(factors[0], np.eye(3))
    assert ex.linalg.cholesky(ex.full((2, 2), float("nan"))).isnan().any()  # as in NumPy


def test_a_factor_reads_one_triangle():
    a = np.array([[4.0, 100.0], [2.0, 5.0]])
    np.testing.assert_allclose(ex.linalg.cholesky(ex.tensor(a)), [[2.0, 0.0], [1.0, 2.0]])
    np.testing.assert_allclose(ex.linalg.cholesky(ex.tensor(a.T.copy()), upper=True), [[2.0, 1.0], [0.0, 2.0]])


def test_what_is_left_to_numpy():
    square = TensorType((MOST_ROWS + 1,) * 2, float64)
    wide, narrow = (TensorType((MOST_ROWS + 1, k), float64) for k in (FEW_COLUMNS + 1, FEW_COLUMNS))
    attrs = {"upper": True, "unitriangular": False}
    assert bind_solve_triangular((square, wide), attrs) is None
    assert bind_solve_triangular((square, narrow), attrs) is not None
    rows = TensorType((2, 1, 3, 3), float32), TensorType((1, 4, 3, 3), float32)
    assert bind_solve_triangular(rows, attrs) is None  # batches that broadcast against each other
    assert bind_cholesky((TensorType((MOST_FACTORED + 1,) * 2, float32),), {"check_errors": True}) is None
    assert bind_cholesky((TensorType((0, 2, 2), float32),), {"check_errors": True}) is None
    assert bind_mirrored((TensorType((2, 2), int64),), {"upper": True}) is None
