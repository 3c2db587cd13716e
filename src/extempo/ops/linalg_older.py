"""Matrix functions by PyTorch's older names, where they differ in signature or result from those of `ex.linalg`."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, overload

from .. import ops
from ..core.tensor import Tensor
from ..core.tensor_methods import method
from ..core.types import broadcast_shapes
from ..dispatch.dispatcher import apply
from ..errors import ShapeError
from . import decompositions, factors, matrices, systems
from .contraction import linalg_vander
from .define import also_named, deliver, deliver_converted, deliver_each, teaching
from .products import matmul
from .systems import check_matrices

__all__ = [
    "cholesky",
    "geqrf",
    "lu",
    "lu_solve",
    "orgqr",
    "ormqr",
    "pca_lowrank",
    "pinverse",
    "qr",
    "svd",
    "svd_lowrank",
    "triangular_solve",
    "vander",
]


class OlderSvdResult(NamedTuple):
    """input = U @ diag(S) @ V.T."""

    U: Tensor
    S: Tensor
    V: Tensor


class TriangularSolveResult(NamedTuple):
    """solution, and a copy of the triangular matrix."""

    solution: Tensor
    cloned_coefficient: Tensor


class GeqrfResult(NamedTuple):
    """a: R and the reflectors below it; tau: the reflectors' factors."""

    a: Tensor
    tau: Tensor


@method
@teaching
def cholesky(input: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The Cholesky factor of symmetric positive definite matrices; see `linalg.cholesky`.

    >>> ex.cholesky(ex.tensor([[4.0, 2.0], [2.0, 5.0]]))
    tensor([[2., 0.],
            [1., 2.]])
    """
    return deliver_converted(factors.cholesky(input, upper=upper), out)


@method
@teaching
def qr(input: Tensor, some: bool = True, *, out: Any = None) -> decompositions.QrResult:
    """Q and R; with `some` Q has min(m, n) columns. See `linalg.qr`.

    >>> A = ex.tensor([[3.0, 1.0], [4.0, 2.0]])
    >>> Q, R = ex.qr(A)
    >>> ex.allclose(Q @ R, A, atol=1e-6)
    True
    """
    return decompositions.qr(input, "reduced" if some else "complete", out=out)


@method
@teaching
def svd(input: Tensor, some: bool = True, compute_uv: bool = True, *, out: Any = None) -> OlderSvdResult:
    """U, S and V (not transposed); without compute_uv U and V are zeros. See `linalg.svd`.

    >>> A = ex.tensor([[3.0, 0.0], [0.0, 2.0]])
    >>> U, S, V = ex.svd(A)
    >>> S, ex.allclose(U @ S.diag() @ V.T, A)
    (tensor([3., 2.]), True)
    """
    if compute_uv:
        u, s, vh = decompositions.svd(input, full_matrices=not some)
        return deliver_each(OlderSvdResult(u, s, vh.mT), out)
    s = decompositions.svdvals(input)
    rows, columns = input.shape[-2:]
    u, v = (ops.zeros(*input.shape[:-2], n, n, dtype=input.dtype) for n in (rows, columns))
    return deliver_each(OlderSvdResult(u, s, v), out)


@overload
def lu(A: Tensor, pivot: bool = True, get_infos: Literal[False] = False, out: Any = None) -> factors.LuFactorResult: ...
@overload
def lu(A: Tensor, pivot: bool = True, *, get_infos: Literal[True], out: Any = None) -> factors.LuFactorExResult: ...
@method
@teaching
def lu(A: Tensor, pivot: bool = True, get_infos: bool = False, out: Any = None) -> Any:
    """LU factors in one matrix and pivots, with get_infos also info; see `linalg.lu_factor_ex`.

    >>> ex.lu(ex.tensor([[1.0, 2.0], [4.0, 4.0]]))
    LuFactorResult(LU=tensor([[4.0000, 4.0000],
            [0.2500, 1.0000]]), pivots=tensor([2, 2], dtype=extempo.int32))
    """
    factor = factors.lu_factor_ex if get_infos else factors.lu_factor
    return deliver_each(factor(A, pivot=pivot), out, deliver_converted)


@method
@also_named(input="b")
def lu_solve(b: Tensor, LU_data: Tensor, LU_pivots: Tensor, *, out: Tensor | None = None) -> Tensor:
    """X with A X = b, from what `lu(A)` returned; see `linalg.lu_solve`.

    >>> ex.lu_solve(ex.tensor([[5.0], [12.0]]), *ex.lu(ex.tensor([[1.0, 2.0], [4.0, 4.0]])))
    tensor([[1.],
            [2.]])
    """
    return factors.lu_solve(LU_data, LU_pivots, b, out=out)


@method
@also_named(input="b")
def triangular_solve(
    b: Tensor,
    A: Tensor,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
    *,
    out: Any = None,
) -> TriangularSolveResult:
    """X with A X = b (A.T with `transpose`) for triangular A, and a copy of A; see `linalg.solve_triangular`.

    >>> ex.triangular_solve(ex.tensor([[4.0], [2.0]]), ex.tensor([[1.0, 1.0], [0.0, 2.0]])).solution
    tensor([[3.],
            [1.]])
    """
    check_matrices("triangular_solve", A._type, b._type, square=True)
    matrix, reads_upper = (A.mT, not upper) if transpose else (A, upper)
    x = systems.solve_triangular(matrix, b, upper=reads_upper, unitriangular=unitriangular)
    lead = broadcast_shapes(A._type.shape[:-2], b._type.shape[:-2])
    return deliver_each(TriangularSolveResult(x, A.expand(*lead, *A.shape[-2:]).clone()), out)


@method
@teaching
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """The pseudo-inverse; see `linalg.pinv`.

    >>> ex.pinverse(ex.tensor([[2.0], [0.0]]))
    tensor([[0.5000, 0.0000]])
    """
    return matrices.pinv(input, rtol=rcond)


@method
@teaching
def geqrf(input: Tensor, *, out: Any = None) -> GeqrfResult:
    """QR in LAPACK's form: R, the Householder reflectors below it, and their factors.

    >>> A = ex.tensor([[3.0, 1.0], [4.0, 2.0]])
    >>> a, tau = ex.geqrf(A)
    >>> ex.allclose(ex.orgqr(a, tau) @ a.triu(), A, atol=1e-6)
    True
    """
    return deliver_each(GeqrfResult(*apply(decompositions.Geqrf, (input,))), out, deliver_converted)


@method
@teaching
def orgqr(input: Tensor, input2: Tensor) -> Tensor:
    """The first columns of the product of reflectors; see `linalg.householder_product`.

    >>> Q = ex.orgqr(*ex.geqrf(ex.tensor([[3.0, 1.0], [4.0, 2.0]])))
    >>> ex.allclose(Q.T @ Q, ex.eye(2), atol=1e-6)
    True
    """
    return decompositions.householder_product(input, input2)


@method
@teaching
def ormqr(
    input: Tensor,
    input2: Tensor,
    input3: Tensor,
    left: bool = True,
    transpose: bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Q @ input3 (or Q.T, or from the right), for the product Q of the reflectors `input` with factors `input2`.

    >>> a, tau = ex.geqrf(ex.tensor([[3.0, 1.0], [4.0, 2.0]]))
    >>> x = ex.tensor([[1.0], [2.0]])
    >>> ex.allclose(ex.ormqr(a, tau, x), ex.orgqr(a, tau) @ x, atol=1e-6)
    True
    """
    check_matrices("ormqr", input._type, input3._type)
    if input.shape[-2] != input3.shape[-2 if left else -1]:
        raise ShapeError(
            f"ormqr: reflectors {tuple(input.shape)} of size {input.shape[-2]} do not fit {tuple(input3.shape)} "
            f"from the {'left' if left else 'right'}"
        )
    v, t = decompositions.reflectors(input, input2)
    t = t.mT if transpose else t
    if left:
        return deliver(input3 - matmul(v, matmul(t, matmul(v.mT, input3))), out)
    return deliver(input3 - matmul(matmul(matmul(input3, v), t), v.mT), out)


# ---- low rank, by random projection (Halko, Martinsson and Tropp, 2009)


@teaching
def svd_lowrank(A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None) -> OlderSvdResult:
    """About the q largest singular values of A - M and their vectors, far cheaper than `svd` for large A.

    >>> ex.svd_lowrank(ex.diag(ex.tensor([3.0, 2.0, 1.0])), q=2).S.round(decimals=3)
    tensor([3., 2.])
    """
    check_matrices("svd_lowrank", A._type)
    matrix = A if M is None else A - M
    rows, columns = matrix.shape[-2:]
    q, niter = 6 if q is None else q, 2 if niter is None else niter
    if not 0 <= q <= min(rows, columns):
        raise ShapeError(f"svd_lowrank: q must be from 0 to {min(rows, columns)} for shape {tuple(A.shape)}, got {q}")
    tall = matrix.mT if rows < columns else matrix
    basis = _range_basis(tall, q, niter)
    u, s, vh = decompositions.svd(matmul(basis.mT, tall), full_matrices=False)
    u = matmul(basis, u)
    return OlderSvdResult(vh.mT, s, u) if rows < columns else OlderSvdResult(u, s, vh.mT)


def _range_basis(a: Tensor, q: int, n_iterations: int) -> Tensor:
    """An orthonormal basis of about the q strongest directions in the range of `a`, made surer by power iterations."""
    basis = decompositions.qr(matmul(a, ops.randn(a.shape[-1], q, dtype=a.dtype))).Q
    for _ in range(n_iterations):
        basis = decompositions.qr(matmul(a.mT, basis)).Q
        basis = decompositions.qr(matmul(a, basis)).Q
    return basis


@teaching
def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> OlderSvdResult:
    """About the q strongest principal components of the rows of A, as U, S and V.

    >>> U, S, V = ex.pca_lowrank(ex.randn(8, 3), q=2)
    >>> U.shape, S.shape, V.shape
    (extempo.Size([8, 2]), extempo.Size([2]), extempo.Size([3, 2]))
    """
    check_matrices("pca_lowrank", A._type)
    q = min(6, *A.shape[-2:]) if q is None else q
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, q, niter)


@teaching
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """Columns of descending (or increasing) powers of a vector's elements.

    >>> ex.vander(ex.tensor([2, 3]), 3)
    tensor([[4, 2, 1],
            [9, 3, 1]])
    """
    if x.ndim != 1:
        raise ShapeError(f"vander: expected a vector, got shape {tuple(x.shape)}; use linalg.vander for batches")
    powers = linalg_vander(x, N=N)
    return powers if increasing else powers.flip(-1)
