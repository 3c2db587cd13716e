"""Matrices as products of triangles: Cholesky, LU, LDL.

Matrices are the last two dimensions, all others a batch; float32 and float64. Gradients are written in tensor
functions, so they have gradients themselves. `info` results are LAPACK's: 0, or where (from 1) it broke down.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from .. import ops
from ..backends.numpy import factorization
from ..core.op import Decomposed, Refuse, Rng, Routine, Sample
from ..core.storage import Array
from ..core.tensor import Tensor
from ..core.types import TensorType, dtype, int32
from ..dispatch.dispatcher import apply
from ..errors import DtypeError, NumericalError, ShapeError, UnsupportedError
from . import matrix_loops
from .define import deliver, deliver_each, numpy_names, teaching
from .products import matmul
from .systems import (
    MatrixOp,
    OfMatrix,
    check_matrices,
    check_system,
    failure,
    mirrored,
    one_by_one,
    solve_triangular,
    symmetric_part,
)

__all__ = ["lu_unpack"]


class CholeskyExResult(NamedTuple):
    """L, and info: 0, or the order of the first leading minor that is not positive."""

    L: Tensor
    info: Tensor


class LuFactorResult(NamedTuple):
    """LU: both factors in one matrix; pivots: row exchanges, from 1."""

    LU: Tensor
    pivots: Tensor


class LuFactorExResult(NamedTuple):
    """LU and pivots, and info: 0 or the pivot that is zero."""

    LU: Tensor
    pivots: Tensor
    info: Tensor


class LuResult(NamedTuple):
    """A = P @ L @ U."""

    P: Tensor
    L: Tensor
    U: Tensor


class LdlFactorResult(NamedTuple):
    """LD: both factors in one matrix; pivots: LAPACK's."""

    LD: Tensor
    pivots: Tensor


class LdlFactorExResult(NamedTuple):
    """LD and pivots, and info: 0 or the block that is zero."""

    LD: Tensor
    pivots: Tensor
    info: Tensor


# ---- Cholesky


def _is_positive_definite(a: Array) -> bool:
    try:
        np.linalg.cholesky(a)
    except np.linalg.LinAlgError:
        return False
    return True


def _bad_minor(a: Array) -> int:
    """The order of the first leading minor that is not positive."""
    return next(order for order in range(1, len(a) + 1) if not _is_positive_definite(a[:order, :order]))


class Cholesky(OfMatrix):
    """L with A = L @ L.T for symmetric A, and info."""

    saves = ("y",)
    lower = Routine("cholesky")

    @staticmethod
    def infer(a: TensorType, *, check_errors: bool) -> tuple[TensorType, TensorType]:
        check_matrices("linalg.cholesky", a, square=True)
        return a, TensorType(a.shape[:-2], int32)

    @staticmethod
    def numpy(a: Array, *, check_errors: bool) -> tuple[Array, Array]:
        a = symmetric_part(a)
        try:
            return np.linalg.cholesky(a), np.zeros(a.shape[:-2], np.int32)
        except np.linalg.LinAlgError:
            if check_errors:
                index = factorization.first_failure(np.linalg.cholesky, a)
                order = _bad_minor(a[index or ()])
                raise failure(
                    "linalg.cholesky",
                    index,
                    f"is not positive definite (its leading minor of order {order} is not positive); "
                    "add a small multiple of the identity, or use linalg.eigh or linalg.ldl_factor",
                ) from None
        return one_by_one(np.linalg.cholesky, _bad_minor, a)

    @staticmethod
    def vjp(g: Any, y: Any, a: Any, *, check_errors: bool) -> tuple[Any, ...]:
        lower = y[0]
        inside = matmul(lower.mT, g[0])
        symmetric = inside.tril() + inside.tril(-1).mT
        left = solve_triangular(lower.mT, symmetric, upper=True)
        return (0.5 * solve_triangular(lower, left, upper=False, left=False),)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        for shape in ((3, 3), (2, 2, 3, 3), (0, 0), (0, 2, 2)):
            x = rng.normal(size=shape)
            yield Sample(x @ np.swapaxes(x, -1, -2) + np.eye(shape[-1]), check_errors=False)

    @Decomposed
    def onnx(flow: Any, a: Tensor, *, check_errors: bool) -> tuple[Tensor, Tensor]:
        return matrix_loops.cholesky(flow, (a + a.mT) * 0.5)


@numpy_names
def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False, out: Any = None) -> CholeskyExResult:
    """L with A = L @ L.T (the upper factor with `upper`), and info in place of an error; L is NaN where it fails.

    >>> ex.linalg.cholesky_ex(ex.tensor([[1.0, 2.0], [2.0, 1.0]])).info
    tensor(2, dtype=extempo.int32)
    """
    factor, info = apply(Cholesky, (mirrored("linalg.cholesky", A, upper=upper),), {"check_errors": check_errors})
    return deliver_each(CholeskyExResult(factor.mT if upper else factor, info), out)


@numpy_names
def cholesky(A: Tensor, *, upper: bool = False, out: Tensor | None = None) -> Tensor:
    """L with A = L @ L.T (U with A = U.T @ U if `upper`) for positive definite A, of which one triangle is read.

    >>> ex.linalg.cholesky(ex.tensor([[4.0, 2.0], [2.0, 5.0]]))
    tensor([[2., 0.],
            [1., 2.]])
    """
    return deliver(cholesky_ex(A, upper=upper, check_errors=True).L, out)


# ---- LU


class LuFactor(OfMatrix):
    """L and U in one matrix, pivots, info: P A = L U with row exchanges."""

    saves = ("y",)

    @staticmethod
    def infer(a: TensorType, *, check_errors: bool) -> tuple[TensorType, ...]:
        check_matrices("linalg.lu_factor", a)
        lead = a.shape[:-2]
        return a, TensorType((*lead, min(a.shape[-2:])), int32), TensorType(lead, int32)

    @staticmethod
    def numpy(a: Array, *, check_errors: bool) -> tuple[Array, ...]:
        lu, pivots, info = factorization.lu_factor(a)
        if check_errors and info.any():
            index = tuple(int(i) for i in np.argwhere(info)[0])
            raise failure("linalg.lu_factor", index, f"is singular: U has a zero at {info[index]}, counted from 1")
        return lu, pivots, info

    @staticmethod
    def vjp(g: Any, y: Any, a: Any, *, check_errors: bool) -> tuple[Any, ...]:
        lu, pivots, _ = y
        rows, columns = a.shape[-2:]
        k = min(rows, columns)
        g_lower, g_upper = g[0].narrow(-1, 0, k).tril(-1), g[0].narrow(-2, 0, k).triu()
        gradient = _lu_gradient(*_split(lu), g_lower, g_upper)
        return (matmul(_permutation_matrix(pivots, rows, lu.dtype), gradient),)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        for shape in ((3, 3), (2, 3, 3), (2, 4), (4, 2), (0, 3)):
            yield Sample(rng.normal(size=shape), check_errors=False)

    onnx = Decomposed(lambda flow, a, *, check_errors: matrix_loops.lu_factor(flow, a))


def _split(lu: Tensor) -> tuple[Tensor, Tensor]:
    """L, with ones on its diagonal, and U from one matrix."""
    rows, columns = lu.shape[-2:]
    k = min(rows, columns)
    return lu.narrow(-1, 0, k).tril(-1) + ops.eye(rows, k, dtype=lu.dtype), lu.narrow(-2, 0, k).triu()


def _lu_gradient(lower: Tensor, upper: Tensor, g_lower: Tensor, g_upper: Tensor) -> Tensor:
    """The gradient of L @ U as a matrix, from those of its factors (strictly lower and upper triangular)."""
    rows, columns = lower.shape[-2], upper.shape[-1]
    k = min(rows, columns)
    lower1, upper1 = lower.narrow(-2, 0, k), upper.narrow(-1, 0, k)
    g_lower1, g_upper1 = g_lower.narrow(-2, 0, k), g_upper.narrow(-1, 0, k)
    below = matmul(lower1.mT, g_lower1)
    above = matmul(g_upper1, upper1.mT)
    if columns > k:
        beyond = g_upper.narrow(-1, k, columns - k)
        below = below - matmul(beyond, upper.narrow(-1, k, columns - k).mT)
    if rows > k:
        beneath = g_lower.narrow(-2, k, rows - k)
        above = above - matmul(lower.narrow(-2, k, rows - k).mT, beneath)
    inside = below.tril(-1) + above.triu()
    left = solve_triangular(lower1.mT, inside, upper=True, unitriangular=True)
    square = solve_triangular(upper1.mT, left, upper=False, left=False)
    if columns > k:
        return ops.cat([square, solve_triangular(lower1.mT, beyond, upper=True, unitriangular=True)], -1)
    if rows > k:
        return ops.cat([square, solve_triangular(upper1.mT, beneath, upper=False, left=False)], -2)
    return square


class PermutationMatrix(OfMatrix):
    """P (..., n, n) of a list of row exchanges, as LU factors have it: A = P @ L @ U."""

    quiet = True
    saves = ("",)
    vjp = staticmethod(lambda g, y, pivots, *, n_rows, dtype: (None,))

    @staticmethod
    def infer(pivots: TensorType, *, n_rows: int, dtype: dtype) -> TensorType:
        if pivots.dtype is not int32:
            raise DtypeError(f"lu_unpack: pivots must be int32, got {pivots.dtype}; pass what lu_factor returned")
        return TensorType((*pivots.shape[:-1], n_rows, n_rows), dtype)

    @staticmethod
    def numpy(pivots: Array, *, n_rows: int, dtype: dtype) -> Array:
        order = factorization.permutation(pivots, n_rows)
        return np.ascontiguousarray(np.swapaxes(np.eye(n_rows, dtype=dtype.numpy)[order], -1, -2))

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(np.array([[2, 2, 3], [3, 3, 3]], np.int32), n_rows=4, dtype=ops.types.float64)

    @Decomposed
    def onnx(flow: Any, pivots: Tensor, *, n_rows: int, dtype: dtype) -> Tensor:
        order = matrix_loops.permutation(flow, pivots, n_rows)
        return ops.eq(ops.arange(n_rows).unsqueeze(1), order.unsqueeze(-2)).to(dtype)


def _permutation_matrix(pivots: Tensor, n_rows: int, d: dtype) -> Tensor:
    return apply(PermutationMatrix, (pivots,), {"n_rows": n_rows, "dtype": d})


@teaching
def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False, out: Any = None) -> LuFactorExResult:
    """LU factors in one matrix, pivots, and info in place of an error: 0 or the pivot that is zero.

    >>> ex.linalg.lu_factor_ex(ex.tensor([[1.0, 2.0], [2.0, 4.0]])).info
    tensor(2, dtype=extempo.int32)
    """
    if not pivot:
        raise UnsupportedError("linalg.lu_factor: without row exchanges LU is not stable; leave pivot=True")
    return deliver_each(LuFactorExResult(*apply(LuFactor, (A,), {"check_errors": check_errors})), out)


@teaching
def lu_factor(A: Tensor, *, pivot: bool = True, out: Any = None) -> LuFactorResult:
    """LU factors in one matrix and pivots, for `lu_solve`; a singular A is no error until it is solved with.

    >>> ex.linalg.lu_factor(ex.tensor([[1.0, 2.0], [4.0, 4.0]])).LU
    tensor([[4.0000, 4.0000],
            [0.2500, 1.0000]])
    """
    return deliver_each(LuFactorResult(*lu_factor_ex(A, pivot=pivot)[:2]), out)


@teaching
def lu(A: Tensor, *, pivot: bool = True, out: Any = None) -> LuResult:
    """A = P @ L @ U: a permutation, a lower triangle with ones on its diagonal, an upper triangle.

    >>> A = ex.tensor([[1.0, 2.0], [4.0, 4.0]])
    >>> P, L, U = ex.linalg.lu(A)
    >>> L
    tensor([[1.0000, 0.0000],
            [0.2500, 1.0000]])
    >>> ex.allclose(P @ L @ U, A)
    True
    """
    packed, pivots, _ = lu_factor_ex(A, pivot=pivot)
    return deliver_each(LuResult(_permutation_matrix(pivots, A.shape[-2], A.dtype), *_split(packed)), out)


@teaching
def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True, *, out: Any = None
) -> LuResult:
    """P, L and U from what `lu_factor` returned; parts that are not asked for are empty.

    >>> A = ex.tensor([[1.0, 2.0], [4.0, 4.0]])
    >>> P, L, U = ex.lu_unpack(*ex.linalg.lu_factor(A))
    >>> L
    tensor([[1.0000, 0.0000],
            [0.2500, 1.0000]])
    >>> ex.allclose(P @ L @ U, A)
    True
    """
    nothing = ops.zeros(0, dtype=LU_data.dtype)
    p = _permutation_matrix(LU_pivots, LU_data.shape[-2], LU_data.dtype) if unpack_pivots else nothing
    return deliver_each(LuResult(p, *(_split(LU_data) if unpack_data else (nothing, nothing))), out)


@teaching
def lu_solve(
    LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False, out: Tensor | None = None
) -> Tensor:
    """X with A X = B (X A = B with left=False, A.T with `adjoint`), from what `lu_factor(A)` returned.

    >>> LU, pivots = ex.linalg.lu_factor(ex.tensor([[1.0, 2.0], [4.0, 4.0]]))
    >>> ex.linalg.lu_solve(LU, pivots, ex.tensor([[5.0], [12.0]]))
    tensor([[1.],
            [2.]])
    """
    check_matrices("linalg.lu_solve", LU._type, B._type, square=True)
    if not left:
        return deliver(lu_solve(LU, pivots, B.mT, adjoint=not adjoint).mT, out)
    if LU.shape[-1] != B.shape[-2]:
        raise ShapeError(
            f"linalg.lu_solve: LU {tuple(LU.shape)} needs B with {LU.shape[-1]} rows, got {tuple(B.shape)}"
        )
    p = _permutation_matrix(pivots, LU.shape[-1], LU.dtype)
    if adjoint:
        halfway = solve_triangular(LU.mT, B, upper=False)
        result = matmul(p, solve_triangular(LU.mT, halfway, upper=True, unitriangular=True))
    else:
        halfway = solve_triangular(LU, matmul(p.mT, B), upper=False, unitriangular=True)
        result = solve_triangular(LU, halfway, upper=True)
    return deliver(result, out)


# ---- LDL


class LdlFactor(OfMatrix):
    """L and D in one matrix, pivots, info, for symmetric matrices of which the lower triangle is read."""

    saves = ("",)
    vjp = Refuse("the pivoting of LDL factors is not followed; use linalg.solve, cholesky or eigh")

    @staticmethod
    def infer(a: TensorType) -> tuple[TensorType, ...]:
        check_matrices("linalg.ldl_factor", a, square=True)
        return a, TensorType(a.shape[:-1], int32), TensorType(a.shape[:-2], int32)

    numpy = staticmethod(factorization.ldl_factor)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        for shape in ((3, 3), (2, 4, 4), (0, 0)):
            x = rng.normal(size=shape)
            yield Sample(x + np.swapaxes(x, -1, -2))

    onnx = Refuse("its pivots of one or two rows are chosen row by row; factor by cholesky or lu_factor")


class LdlSolve(MatrixOp):
    """X with A X = B, from the LDL factors of A."""

    saves = ("", "", "")
    vjp = Refuse("the pivoting of LDL factors is not followed; use linalg.solve")
    batch = Refuse("looped over samples")

    @staticmethod
    def infer(factors: TensorType, pivots: TensorType, b: TensorType) -> TensorType:
        return TensorType(check_system("linalg.ldl_solve", factors, b), b.dtype)

    numpy = staticmethod(factorization.ldl_solve)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        x = rng.normal(size=(4, 4))
        factors, pivots, _ = factorization.ldl_factor(x + x.T)
        yield Sample(factors, pivots, rng.normal(size=(4, 2)))

    onnx = Refuse("it reads pivots of one or two rows; solve by linalg.solve or cholesky_solve")


@numpy_names
def ldl_factor_ex(
    A: Tensor, *, hermitian: bool = False, check_errors: bool = False, out: Any = None
) -> LdlFactorExResult:
    """LDL factors of symmetric matrices, pivots, and info: 0 or the block of D that is zero.

    >>> ex.linalg.ldl_factor_ex(ex.tensor([[0.0, 1.0], [1.0, 0.0]])).info
    tensor(0, dtype=extempo.int32)
    """
    factors, pivots, info = apply(LdlFactor, (A,))
    if check_errors and bool(info.any()):
        raise NumericalError("linalg.ldl_factor: D has a zero block, so the matrix is singular")
    return deliver_each(LdlFactorExResult(factors, pivots, info), out)


@numpy_names
def ldl_factor(A: Tensor, *, hermitian: bool = False, out: Any = None) -> LdlFactorResult:
    """LDL factors of symmetric, perhaps indefinite matrices, and pivots, for `ldl_solve`.

    >>> A = ex.tensor([[0.0, 1.0], [1.0, 0.0]])
    >>> ex.linalg.ldl_solve(*ex.linalg.ldl_factor(A), ex.tensor([[5.0], [7.0]]))
    tensor([[7.],
            [5.]])
    """
    return deliver_each(LdlFactorResult(*ldl_factor_ex(A)[:2]), out)


@teaching
def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False, out: Tensor | None = None) -> Tensor:
    """X with A X = B, from what `ldl_factor(A)` returned.

    >>> A = ex.tensor([[0.0, 1.0], [1.0, 0.0]])
    >>> ex.linalg.ldl_solve(*ex.linalg.ldl_factor(A), ex.tensor([[5.0], [7.0]]))
    tensor([[7.],
            [5.]])
    """
    return deliver(apply(LdlSolve, (LD, pivots, B)), out)
