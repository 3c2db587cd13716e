"""Matrices and their orthogonal parts: QR, eigenvalues of symmetric matrices, singular values.

Matrices are the last two dimensions, all others a batch; float32 and float64. Gradients are written in tensor
functions, so they have gradients themselves. They do not exist where factors are not unique: repeated singular or
eigenvalues give infinite or NaN gradients of the vectors, while the gradients of the values alone stay finite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from .. import ops
from ..backends.numpy import factorization
from ..core.op import Decomposed, Refuse, Rng, Sample
from ..core.storage import Array
from ..core.tensor import Tensor
from ..core.types import TensorType
from ..dispatch.dispatcher import apply
from ..errors import NotDifferentiableError, ShapeError, UnsupportedError
from . import matrix_loops
from .define import deliver, deliver_converted, deliver_each, numpy_names, teaching
from .products import matmul
from .systems import (
    NO_EIGENVALUES,
    NO_SINGULAR_VALUES,
    OfMatrix,
    check_matrices,
    failure,
    mirrored,
    solve_triangular,
    symmetric_part,
)

__all__: list[str] = []


class QrResult(NamedTuple):
    """A = Q @ R."""

    Q: Tensor
    R: Tensor


class EighResult(NamedTuple):
    """eigenvalues (..., n), ascending, and eigenvectors as columns (..., n, n)."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class SvdResult(NamedTuple):
    """A = U @ diag(S) @ Vh, S descending."""

    U: Tensor
    S: Tensor
    Vh: Tensor


def _unit_diagonal(n: int, like: Tensor) -> Tensor:
    return ops.eye(n, dtype=like.dtype)


# ---- QR


class QR(OfMatrix):
    """Q and R; mode "reduced", "complete", or "r" with an empty Q."""

    saves = ("y",)

    @staticmethod
    def infer(a: TensorType, *, mode: str) -> tuple[TensorType, ...]:
        check_matrices("linalg.qr", a)
        lead, (rows, columns) = a.shape[:-2], a.shape[-2:]
        inner = rows if mode == "complete" else min(rows, columns)
        q = (0,) if mode == "r" else (*lead, rows, inner)
        return TensorType(q, a.dtype), TensorType((*lead, inner, columns), a.dtype)

    @staticmethod
    def numpy(a: Array, *, mode: str) -> tuple[Array, ...]:
        if mode == "r":
            return np.empty(0, a.dtype), np.asarray(np.linalg.qr(a, "r"))
        q, r = np.linalg.qr(a, "complete" if mode == "complete" else "reduced")
        return q, r

    @staticmethod
    def vjp(g: Any, y: Any, a: Any, *, mode: str) -> tuple[Any, ...]:
        (q, r), (g_q, g_r) = y, g
        rows, columns = a.shape[-2:]
        if mode == "r" or (mode == "complete" and rows > columns):
            raise NotDifferentiableError(
                f"linalg.qr: mode={mode!r} has no gradient for a {rows} x {columns} matrix; use mode='reduced'"
            )
        if rows >= columns:
            return (_qr_gradient(q, r, g_q, g_r),)
        # A = [X, Y] with X square: X = Q R1, and R2 = Q.T Y depends on Q through Y = Q R2.
        r2, g_r2 = (x.narrow(-1, rows, columns - rows) for x in (r, g_r))
        g_q = g_q + matmul(matmul(q, r2), g_r2.mT)
        square = _qr_gradient(q, r.narrow(-1, 0, rows), g_q, g_r.narrow(-1, 0, rows))
        return (ops.cat([square, matmul(q, g_r2)], -1),)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        for shape in ((3, 3), (2, 4, 3), (2, 4), (0, 3)):
            yield Sample(rng.normal(size=shape), mode="reduced")
        yield Sample(rng.normal(size=(2, 3)), mode="complete")

    @Decomposed
    def onnx(flow: Any, a: Tensor, *, mode: str) -> tuple[Tensor, Tensor]:
        r, q, _, _ = matrix_loops.householder(flow, a)
        n_rows, n_columns = a._type.shape[-2:]
        inner = n_rows if mode == "complete" else min(n_rows, n_columns)
        r = r.narrow(-2, 0, inner)
        return ops.zeros(0, dtype=a.dtype) if mode == "r" else q.narrow(-1, 0, inner), r


def _qr_gradient(q: Tensor, r: Tensor, g_q: Tensor, g_r: Tensor) -> Tensor:
    inside = (matmul(g_r, r.mT) - matmul(q.mT, g_q)).triu()
    symmetric = inside + inside.triu(1).mT
    return solve_triangular(r.mT, g_q + matmul(q, symmetric), upper=False, left=False)


@teaching
def qr(A: Tensor, mode: str = "reduced", *, out: Any = None) -> QrResult:
    """A = Q @ R with orthonormal columns in Q and an upper triangle R; mode "reduced", "complete" or "r" (R only).

    >>> A = ex.tensor([[3.0, 1.0], [4.0, 2.0]])
    >>> Q, R = ex.linalg.qr(A)
    >>> ex.allclose(Q @ R, A, atol=1e-6), ex.allclose(Q.T @ Q, ex.eye(2), atol=1e-6)
    (True, True)
    """
    if mode not in ("reduced", "complete", "r"):
        raise ShapeError(f"linalg.qr: mode must be 'reduced', 'complete' or 'r', got {mode!r}")
    return deliver_each(QrResult(*apply(QR, (A,), {"mode": mode})), out)


class Geqrf(OfMatrix):
    """The Householder reflectors of QR below the diagonal, R on and above it, and the reflectors' factors tau."""

    saves = ("",)
    vjp = Refuse("the reflectors are a means to an end; use linalg.qr")

    @staticmethod
    def infer(a: TensorType) -> tuple[TensorType, ...]:
        check_matrices("geqrf", a)
        return a, TensorType((*a.shape[:-2], min(a.shape[-2:])), a.dtype)

    @staticmethod
    def numpy(a: Array) -> tuple[Array, ...]:
        transposed, tau = np.linalg.qr(a, mode="raw")
        return np.ascontiguousarray(np.swapaxes(transposed, -1, -2)), tau

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        for shape in ((3, 3), (2, 4, 3), (3, 4)):
            yield Sample(rng.normal(size=shape))

    @Decomposed
    def onnx(flow: Any, a: Tensor) -> tuple[Tensor, Tensor]:
        r, _, vectors, tau = matrix_loops.householder(flow, a)
        n_rows, n_columns = a._type.shape[-2:]
        wide = ops.zeros((*a._type.shape[:-2], n_rows, n_columns - min(n_rows, n_columns))).double()
        return r + ops.cat([vectors, wide], -1).tril(-1), tau


def reflectors(a: Tensor, tau: Tensor) -> tuple[Tensor, Tensor]:
    """V and T with H1 @ H2 @ ... = I - V @ T @ V.T, the reflectors' vectors and an upper triangle."""
    n_rows, n_reflectors = a.shape[-2], tau.shape[-1]
    v = a.narrow(-1, 0, n_reflectors).tril(-1) + ops.eye(n_rows, n_reflectors, dtype=a.dtype)
    # T is the inverse of diag(1 / tau) + triu(V.T V, 1), multiplied out so that tau = 0 (no reflection) is allowed.
    scale = tau.unsqueeze(-1)
    unit = scale * matmul(v.mT, v).triu(1)
    return v, solve_triangular(unit, scale * _unit_diagonal(n_reflectors, a), upper=True, unitriangular=True)


@numpy_names
def householder_product(A: Tensor, tau: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The first columns of the product of the reflectors that `geqrf` returned.

    >>> Q = ex.linalg.householder_product(*ex.geqrf(ex.tensor([[3.0, 1.0], [4.0, 2.0]])))
    >>> ex.allclose(Q.T @ Q, ex.eye(2), atol=1e-6)
    True
    """
    check_matrices("linalg.householder_product", A._type)
    rows, columns = A.shape[-2:]
    if rows < columns or tau.shape[-1] > columns or tau.shape[:-1] != A.shape[:-2]:
        raise ShapeError(
            "linalg.householder_product: expected A (..., m, n) with m >= n and tau (..., k) with k <= n, got "
            f"{tuple(A.shape)} and {tuple(tau.shape)}"
        )
    v, t = reflectors(A, tau)
    product = matmul(v, matmul(t, v.narrow(-2, 0, columns).mT))
    return deliver_converted(ops.eye(rows, columns, dtype=A.dtype) - product, out)


# ---- eigenvalues of symmetric matrices


def decomposed(op: str, fn: Callable[..., Any], a: Array, **options: Any) -> Any:
    """`fn` of finite matrices, with an error that names the one it fails for; on an infinity LAPACK may never end."""
    strange = ~np.isfinite(a).all((-2, -1))
    if strange.any():
        index = tuple(int(i) for i in np.argwhere(strange)[0])
        raise failure(op, index, "contains infinities or NaNs; look at where they come from")
    try:
        return fn(a, **options)
    except np.linalg.LinAlgError:
        raise failure(op, factorization.first_failure(fn, a), "did not converge") from None


class Eigh(OfMatrix):
    """Eigenvalues, ascending, and eigenvectors of symmetric matrices."""

    saves = ("y",)
    materialize = False
    samples = staticmethod(lambda rng: _symmetric_samples(rng))

    @staticmethod
    def infer(a: TensorType) -> tuple[TensorType, ...]:
        check_matrices("linalg.eigh", a, square=True)
        return TensorType(a.shape[:-1], a.dtype), a

    @staticmethod
    def numpy(a: Array) -> tuple[Array, ...]:
        values, vectors = decomposed("linalg.eigh", np.linalg.eigh, symmetric_part(a))
        return values, vectors

    @staticmethod
    def vjp(g: Any, y: Any, a: Any) -> tuple[Any, ...]:
        (values, vectors), (g_values, g_vectors) = y, g
        if g_vectors is None:
            return (matmul(vectors * g_values.unsqueeze(-2), vectors.mT),)
        identity = _unit_diagonal(values.shape[-1], values)
        gaps = values.unsqueeze(-2) - values.unsqueeze(-1) + identity
        turned = matmul(vectors.mT, g_vectors)
        # V.T dV is skew, so only that part of its gradient counts: halves, because each gap occurs with both signs.
        inside = 0.5 * (turned - turned.mT) / gaps * (1 - identity)
        if g_values is not None:
            inside = inside + g_values.unsqueeze(-1) * identity
        return (matmul(matmul(vectors, inside), vectors.mT),)

    onnx = NO_EIGENVALUES


class Eigvalsh(OfMatrix):
    """Eigenvalues alone, ascending, for a fraction of the work; only the gradient finds the vectors."""

    saves = ("a",)
    numpy = staticmethod(lambda a: decomposed("linalg.eigvalsh", np.linalg.eigvalsh, symmetric_part(a)))
    samples = staticmethod(lambda rng: _symmetric_samples(rng))

    @staticmethod
    def infer(a: TensorType) -> TensorType:
        check_matrices("linalg.eigvalsh", a, square=True)
        return TensorType(a.shape[:-1], a.dtype)

    @staticmethod
    def vjp(g: Tensor, y: Any, a: Tensor) -> tuple[Any, ...]:
        vectors = apply(Eigh, (a,))[1]
        return (matmul(vectors * g.unsqueeze(-2), vectors.mT),)

    onnx = NO_EIGENVALUES


def _symmetric_samples(rng: Rng) -> Iterator[Sample]:
    for shape in ((3, 3), (2, 3, 3), (0, 0)):
        x = rng.normal(size=shape)
        yield Sample(x + np.swapaxes(x, -1, -2))


def _read(op: str, a: Tensor, uplo: str) -> Tensor:
    if uplo.upper() not in ("L", "U"):
        raise ShapeError(f"{op}: UPLO must be 'L' or 'U', the triangle to read, got {uplo!r}")
    return mirrored(op, a, upper=uplo.upper() == "U")


@numpy_names
def eigh(A: Tensor, UPLO: str = "L", *, out: Any = None) -> EighResult:
    """Eigenvalues, ascending, and eigenvectors (columns) of symmetric matrices, of which one triangle is read.

    >>> ex.linalg.eigh(ex.tensor([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    tensor([1., 2.])
    """
    return deliver_each(EighResult(*apply(Eigh, (_read("linalg.eigh", A, UPLO),))), out)


@numpy_names
def eigvalsh(A: Tensor, UPLO: str = "L", *, out: Tensor | None = None) -> Tensor:
    """Eigenvalues of symmetric matrices, ascending; one triangle is read.

    >>> ex.linalg.eigvalsh(ex.tensor([[2.0, 0.0], [0.0, 1.0]]))
    tensor([1., 2.])
    """
    return deliver(apply(Eigvalsh, (_read("linalg.eigvalsh", A, UPLO),)), out)


def eig(A: Tensor, *, out: Any = None) -> Any:
    """Not there: eigenvalues of a general matrix are complex.

    >>> ex.linalg.eig(ex.eye(2))
    Traceback (most recent call last):
        ...
    extempo.errors.UnsupportedError: linalg.eig: eigenvalues of a general matrix are complex, ...
    """
    raise UnsupportedError(
        "linalg.eig: eigenvalues of a general matrix are complex, which Extempo does not have; "
        "for symmetric matrices use linalg.eigh"
    )


@numpy_names
def eigvals(A: Tensor, *, out: Any = None) -> Any:
    """Not there: eigenvalues of a general matrix are complex.

    >>> ex.linalg.eigvals(ex.eye(2))
    Traceback (most recent call last):
        ...
    extempo.errors.UnsupportedError: linalg.eigvals: eigenvalues of a general matrix are complex, ...
    """
    raise UnsupportedError(
        "linalg.eigvals: eigenvalues of a general matrix are complex, which Extempo does not have; "
        "for symmetric matrices use linalg.eigvalsh"
    )


# ---- singular values


class SVD(OfMatrix):
    """U, S and Vh; singular vectors beyond min(rows, columns), which full_matrices adds, have no gradient."""

    saves = ("y",)
    materialize = False

    @staticmethod
    def infer(a: TensorType, *, full_matrices: bool) -> tuple[TensorType, ...]:
        check_matrices("linalg.svd", a)
        lead, (rows, columns) = a.shape[:-2], a.shape[-2:]
        k = min(rows, columns)
        u = (*lead, rows, rows if full_matrices else k)
        vh = (*lead, columns if full_matrices else k, columns)
        return TensorType(u, a.dtype), TensorType((*lead, k), a.dtype), TensorType(vh, a.dtype)

    @staticmethod
    def numpy(a: Array, *, full_matrices: bool) -> tuple[Array, ...]:
        u, s, vh = decomposed("linalg.svd", np.linalg.svd, a, full_matrices=full_matrices)
        return u, s, vh

    @staticmethod
    def vjp(g: Any, y: Any, a: Any, *, full_matrices: bool) -> tuple[Any, ...]:
        (u, s, vh), (g_u, g_s, g_vh) = y, g
        k = s.shape[-1]
        u, vh = u.narrow(-1, 0, k), vh.narrow(-2, 0, k)
        if g_u is None and g_vh is None:
            return (matmul(u * g_s.unsqueeze(-2), vh),)
        rows, columns = a.shape[-2:]
        identity = _unit_diagonal(k, s)
        row, column = s.unsqueeze(-2), s.unsqueeze(-1)
        gaps = (row - column) * (row + column) + identity
        inside = ops.zeros(k, k, dtype=s.dtype) if g_s is None else g_s.unsqueeze(-1) * identity
        if g_u is not None:
            g_u = g_u.narrow(-1, 0, k)
            turned = matmul(u.mT, g_u)
            inside = inside + (turned - turned.mT) / gaps * row
        if g_vh is not None:
            g_vh = g_vh.narrow(-2, 0, k)
            turned = matmul(vh, g_vh.mT)
            inside = inside + column * ((turned - turned.mT) / gaps)
        left = matmul(u, inside)
        if rows > k and g_u is not None:
            left = left + (g_u - matmul(u, matmul(u.mT, g_u))) / row
        result = matmul(left, vh)
        if columns > k and g_vh is not None:
            result = result + matmul(u / row, g_vh - matmul(matmul(g_vh, vh.mT), vh))
        return (result,)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        for shape in ((3, 3), (2, 4, 3), (2, 3), (0, 3)):
            yield Sample(rng.normal(size=shape), full_matrices=False)
        yield Sample(rng.normal(size=(3, 3)), full_matrices=True)

    onnx = NO_SINGULAR_VALUES


class Svdvals(OfMatrix):
    """Singular values alone, descending, for a fraction of the work; only the gradient finds the vectors."""

    saves = ("a",)
    numpy = staticmethod(lambda a: decomposed("linalg.svdvals", np.linalg.svd, a, compute_uv=False))

    @staticmethod
    def infer(a: TensorType) -> TensorType:
        check_matrices("linalg.svdvals", a)
        return TensorType((*a.shape[:-2], min(a.shape[-2:])), a.dtype)

    @staticmethod
    def vjp(g: Tensor, y: Any, a: Tensor) -> tuple[Any, ...]:
        u, _, vh = apply(SVD, (a,), {"full_matrices": False})
        return (matmul(u * g.unsqueeze(-2), vh),)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        for shape in ((3, 3), (2, 4, 3), (2, 3), (0, 3)):
            yield Sample(rng.normal(size=shape))

    onnx = NO_SINGULAR_VALUES


@teaching
def svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None, out: Any = None) -> SvdResult:
    """A = U @ diag(S) @ Vh, S descending; without full_matrices U and Vh have min(rows, columns) vectors.

    >>> A = ex.tensor([[3.0, 0.0], [0.0, 2.0]])
    >>> U, S, Vh = ex.linalg.svd(A)
    >>> S, ex.allclose(U @ S.diag() @ Vh, A)
    (tensor([3., 2.]), True)
    """
    if driver is not None:
        raise UnsupportedError("linalg.svd: driver chooses among CUDA routines; leave it out")
    return deliver_each(SvdResult(*apply(SVD, (A,), {"full_matrices": full_matrices})), out)


@teaching
def svdvals(A: Tensor, *, driver: str | None = None, out: Tensor | None = None) -> Tensor:
    """Singular values, descending.

    >>> ex.linalg.svdvals(ex.tensor([[2.0, 0.0], [0.0, 3.0]]))
    tensor([3., 2.])
    """
    if driver is not None:
        raise UnsupportedError("linalg.svdvals: driver chooses among CUDA routines; leave it out")
    return deliver(apply(Svdvals, (A,)), out)
