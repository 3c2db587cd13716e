"""Determinants, powers, the exponential, pseudo-inverses and least squares of matrices.

Matrices are the last two dimensions, all others a batch; float32 and float64. Functions here have the meaning of
torch.linalg's; those of an older spelling that differ stand in `linalg_older`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from .. import ops
from ..backends.numpy import factorization
from ..core.op import GRADIENTS_ONLY, Decomposed, Refuse, Rng, Sample
from ..core.storage import Array
from ..core.tensor import Tensor
from ..core.tensor_methods import method
from ..core.types import TensorType, broadcast_shapes, finfo, int64
from ..dispatch.dispatcher import apply
from ..errors import ShapeError
from . import matrix_loops
from .decompositions import Svdvals, decomposed, eigvalsh, svdvals
from .define import Operand, also_named, deliver, deliver_converted, deliver_each, numpy_names, teaching
from .products import aligned, matmul
from .systems import NO_SINGULAR_VALUES, MatrixOp, OfMatrix, check_matrices, inv

__all__ = ["det", "logdet", "matrix_exp", "matrix_power", "slogdet"]


class SlogdetResult(NamedTuple):
    """det = sign * exp(logabsdet)."""

    sign: Tensor
    logabsdet: Tensor


class LstsqResult(NamedTuple):
    """solution; residuals, rank and singular_values where the driver finds them, empty elsewhere."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


# ---- determinants


def _signed_diagonal(flow: Any, a: Tensor) -> tuple[Tensor, Tensor]:
    """The sign of the row exchanges of A = P L U, and U's diagonal, for exports."""
    lu, pivots, _ = matrix_loops.lu_factor(flow, a)
    n_exchanges = ops.ne(pivots, ops.arange(pivots._type.shape[-1]) + 1).sum(-1)
    return 1.0 - 2.0 * (n_exchanges % 2).double(), lu.diagonal(0, -2, -1)


class Det(OfMatrix):
    """The determinant."""

    saves = ("a",)
    vjp = staticmethod(lambda g, y, a: (g.unsqueeze(-1).unsqueeze(-1) * apply(Cofactors, (a,)),))
    samples = staticmethod(lambda rng: _square_samples(rng))

    @staticmethod
    def infer(a: TensorType) -> TensorType:
        check_matrices("linalg.det", a, square=True)
        return TensorType(a.shape[:-2], a.dtype)

    numpy = staticmethod(np.linalg.det)

    @Decomposed
    def onnx(flow: Any, a: Tensor) -> Tensor:
        sign, diagonal = _signed_diagonal(flow, a)
        return sign * diagonal.prod(-1)


class Cofactors(OfMatrix):
    """The derivative of the determinant: det(A) * inv(A).T, defined for singular matrices too."""

    saves = ("a",)
    samples = staticmethod(lambda rng: _square_samples(rng))

    @staticmethod
    def infer(a: TensorType) -> TensorType:
        check_matrices("linalg.det", a, square=True)
        return a

    @staticmethod
    def numpy(a: Array) -> Array:
        finite = np.isfinite(a).all((-2, -1), keepdims=True)
        u, s, vh = np.linalg.svd(np.where(finite, a, 0.0).astype(np.float64))
        # The product of all other singular values, without dividing by one that may be zero.
        ones = np.ones((*s.shape[:-1], 1))
        before = np.cumprod(np.concatenate([ones, s[..., :-1]], -1), -1)
        after = np.cumprod(np.concatenate([ones, s[..., :0:-1]], -1), -1)[..., ::-1]
        others = before[..., : s.shape[-1]] * after[..., : s.shape[-1]]
        orientation = np.linalg.det(u) * np.linalg.det(vh)
        return np.where(finite, (u * (orientation[..., None] * others)[..., None, :]) @ vh, np.nan)

    @staticmethod
    def vjp(g: Tensor, y: Any, a: Tensor) -> tuple[Any, ...]:
        # Second order, for invertible matrices: C = det(A) inv(A).T gives <g, inv(A).T> C - C g.T inv(A).T.
        inverse = inv(a).mT
        cofactors = apply(Cofactors, (a,))
        along = (g * inverse).sum((-2, -1), keepdim=True)
        return (along * cofactors - matmul(matmul(cofactors, g.mT), inverse),)

    onnx = GRADIENTS_ONLY


class Slogdet(OfMatrix):
    """The sign of the determinant and the logarithm of its size."""

    saves = ("a",)
    numpy = staticmethod(lambda a: tuple(np.linalg.slogdet(a)))
    samples = staticmethod(lambda rng: _square_samples(rng))

    @staticmethod
    def vjp(g: Any, y: Any, a: Tensor) -> tuple[Tensor]:
        return (g[1].unsqueeze(-1).unsqueeze(-1) * inv(a).mT,)

    @staticmethod
    def infer(a: TensorType) -> tuple[TensorType, ...]:
        check_matrices("linalg.slogdet", a, square=True)
        return (TensorType(a.shape[:-2], a.dtype),) * 2

    @Decomposed
    def onnx(flow: Any, a: Tensor) -> tuple[Tensor, Tensor]:
        sign, diagonal = _signed_diagonal(flow, a)
        return sign * ops.sign(diagonal).prod(-1), ops.log(ops.abs(diagonal)).sum(-1)


def _square_samples(rng: Rng) -> Iterator[Sample]:
    for shape in ((3, 3), (2, 2, 4, 4), (1, 1), (0, 0), (0, 2, 2)):
        yield Sample(rng.normal(size=shape) + np.eye(shape[-1]))


@teaching
def linalg_det(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The determinant of square matrices.

    >>> ex.linalg.det(ex.tensor([[4.0, 2.0], [2.0, 3.0]]))
    tensor(8.)
    """
    return deliver(apply(Det, (A,)), out)


@method
@teaching
def det(input: Tensor) -> Tensor:
    """The determinant of square matrices.

    >>> ex.det(ex.tensor([[4.0, 2.0], [2.0, 3.0]]))
    tensor(8.)
    """
    return linalg_det(input)


@teaching
def linalg_slogdet(A: Tensor, *, out: Any = None) -> SlogdetResult:
    """The sign of the determinant and the logarithm of its absolute value, which does not overflow.

    >>> ex.linalg.slogdet(ex.tensor([[0.0, 2.0], [3.0, 0.0]]))
    SlogdetResult(sign=tensor(-1.), logabsdet=tensor(1.7918))
    """
    return deliver_each(SlogdetResult(*apply(Slogdet, (A,))), out)


@method
@teaching
def slogdet(input: Tensor) -> SlogdetResult:
    """The sign of the determinant and the logarithm of its absolute value, which does not overflow.

    >>> ex.slogdet(ex.tensor([[0.0, 2.0], [3.0, 0.0]]))
    SlogdetResult(sign=tensor(-1.), logabsdet=tensor(1.7918))
    """
    return linalg_slogdet(input)


@method
@teaching
def logdet(input: Tensor) -> Tensor:
    """The logarithm of the determinant: -inf where it is zero, NaN where it is negative.

    >>> ex.logdet(ex.tensor([[2.0, 0.0], [0.0, 3.0]]))
    tensor(1.7918)
    """
    sign, size = slogdet(input)
    return ops.where(ops.lt(sign, 0), math.nan, size)


# ---- powers and the exponential


@numpy_names
def linalg_matrix_power(A: Tensor, n: int, *, out: Tensor | None = None) -> Tensor:
    """A multiplied with itself n times, by repeated squaring; negative n take the inverse, 0 gives the identity.

    >>> ex.linalg.matrix_power(ex.tensor([[1.0, 1.0], [0.0, 1.0]]), 3)
    tensor([[1., 3.],
            [0., 1.]])
    """
    if A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        raise ShapeError(f"linalg.matrix_power: expected square matrices (..., n, n), got shape {tuple(A.shape)}")
    if n == 0:
        return deliver(ops.zero(A) + ops.eye(A.shape[-1], dtype=A.dtype), out)
    base = inv(A) if n < 0 else A
    result: Tensor | None = None
    remaining = abs(n)
    while remaining:
        if remaining & 1:
            result = base if result is None else matmul(result, base)
        remaining >>= 1
        base = matmul(base, base) if remaining else base
    assert result is not None
    return deliver(result.clone() if result is A else result, out)


@method
@teaching
def matrix_power(input: Tensor, n: int, *, out: Tensor | None = None) -> Tensor:
    """A square matrix multiplied with itself n times.

    >>> ex.matrix_power(ex.tensor([[1.0, 1.0], [0.0, 1.0]]), 3)
    tensor([[1., 3.],
            [0., 1.]])
    """
    return linalg_matrix_power(input, n, out=out)


class MatrixExp(OfMatrix):
    """exp of square matrices."""

    saves = ("a",)
    samples = staticmethod(lambda rng: _square_samples(rng))

    @staticmethod
    def infer(a: TensorType) -> TensorType:
        check_matrices("linalg.matrix_exp", a, square=True)
        return a

    numpy = staticmethod(factorization.matrix_exp)

    @staticmethod
    def vjp(g: Tensor, y: Any, a: Tensor) -> tuple[Any, ...]:
        # exp([[X, G], [0, X]]) has the derivative of exp at X along G in its upper right corner.
        n = a.shape[-1]
        transposed = a.mT
        upper = ops.cat([transposed, g], -1)
        lower = ops.cat([ops.zero(transposed), transposed], -1)
        return (apply(MatrixExp, (ops.cat([upper, lower], -2),)).narrow(-2, 0, n).narrow(-1, n, n),)

    onnx = Decomposed(lambda flow, a: matrix_loops.matrix_exp(flow, a))


@method
@teaching
def matrix_exp(input: Tensor) -> Tensor:
    """The exponential of square matrices: 1 + A + A @ A / 2 + ...

    >>> ex.matrix_exp(ex.tensor([[0.0, 1.0], [0.0, 0.0]]))
    tensor([[1., 1.],
            [0., 1.]])
    """
    return apply(MatrixExp, (input,))


# ---- pseudo-inverse, rank, least squares


def _tolerances(A: Tensor, atol: Any, rtol: Any) -> tuple[Any, Any]:
    """PyTorch's defaults: rtol is eps * max(rows, columns), or 0 when an atol above 0 was given."""
    usual = finfo(A.dtype).eps * max(A.shape[-2:])
    if rtol is None:
        if isinstance(atol, Tensor):
            rtol = ops.where(ops.gt(atol, 0), 0.0, usual)
        else:
            rtol = 0.0 if atol is not None and atol > 0 else usual
    return 0.0 if atol is None else atol, rtol


def _cutoff(s: Array, atol: Any, rtol: Any) -> Array:
    """Below this singular values count as zero; one for each matrix, as a last dimension of size 1."""
    largest = s.max(axis=-1, initial=0.0)
    return np.maximum(atol, rtol * largest)[..., None]


class Pinv(MatrixOp):
    """The pseudo-inverse; singular values up to max(atol, rtol * the largest) count as zero."""

    saves = ("y a", "", "")

    @staticmethod
    def infer(a: TensorType, atol: Any, rtol: Any, *, hermitian: bool) -> TensorType:
        check_matrices("linalg.pinv", a, square=hermitian)
        lead = broadcast_shapes(a.shape[:-2], *(t.shape for t in (atol, rtol) if isinstance(t, TensorType)))
        return TensorType((*lead, a.shape[-1], a.shape[-2]), a.dtype)

    @staticmethod
    def numpy(a: Array, atol: Any, rtol: Any, *, hermitian: bool) -> Array:
        a = a.astype(np.float64)
        if hermitian:
            values, vectors = decomposed("linalg.pinv", np.linalg.eigh, a)
            u, s, vh = vectors * np.sign(values)[..., None, :], np.abs(values), np.swapaxes(vectors, -1, -2)
        else:
            u, s, vh = decomposed("linalg.pinv", np.linalg.svd, a, full_matrices=False)
        used = s > _cutoff(s, atol, rtol)
        inverse = np.where(used, 1.0 / np.where(used, s, 1.0), 0.0)
        return np.swapaxes(vh, -1, -2) @ (inverse[..., None] * np.swapaxes(u, -1, -2))

    @staticmethod
    def vjp(g: Tensor, y: Tensor, a: Tensor, atol: Any, rtol: Any, *, hermitian: bool) -> tuple[Any, ...]:
        # Golub and Pereyra (1973): the rank is taken as constant. Products run over the smaller dimension first.
        def into_a() -> Tensor:
            p, pt, gt = y, y.mT, g.mT
            if a.shape[-2] <= a.shape[-1]:
                k = matmul(gt, p)
                k_pt = matmul(k, pt)
                return k_pt - matmul(p, k).mT - matmul(matmul(a, p), k_pt) + matmul(matmul(pt, p), gt - matmul(k, a))
            k = matmul(p, gt)
            pt_k = matmul(pt, k)
            return pt_k - matmul(k, p).mT + matmul(matmul(gt - matmul(a, k), p), pt) - matmul(matmul(pt_k, p), a)

        return into_a, None, None

    batch = Refuse("looped over samples")

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        for shape in ((3, 3), (2, 4, 3), (2, 3), (0, 3)):
            yield Sample(rng.normal(size=shape), 0.0, 1e-15, hermitian=False)
        x = rng.normal(size=(3, 3))
        yield Sample(x, 0.0, np.full((), 1e-12), hermitian=False)

    onnx = NO_SINGULAR_VALUES


@numpy_names
def pinv(
    A: Tensor,
    rcond: Operand | None = None,
    hermitian: bool = False,
    *,
    atol: Operand | None = None,
    rtol: Operand | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The pseudo-inverse; singular values up to max(atol, rtol * the largest) count as zero. `rcond` is rtol, too.

    >>> ex.linalg.pinv(ex.tensor([[2.0], [0.0]]))
    tensor([[0.5000, 0.0000]])
    """
    # As in PyTorch, tolerances give no dimensions to a matrix without elements.
    tolerances = _tolerances(A, atol, rtol if rcond is None else rcond) if A.numel() else (0.0, 0.0)
    return deliver_converted(apply(Pinv, (A, *tolerances), {"hermitian": hermitian}), out)


@numpy_names
def matrix_rank(
    A: Tensor,
    tol: Operand | None = None,
    hermitian: bool = False,
    *,
    atol: Operand | None = None,
    rtol: Operand | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """How many singular values exceed max(atol, rtol * the largest). `tol` is atol's old name, with rtol = 0.

    >>> ex.linalg.matrix_rank(ex.tensor([[1.0, 2.0], [2.0, 4.0]]))
    tensor(1)
    """
    absolute, relative = _tolerances(A, atol, rtol) if tol is None else (tol, 0.0)
    check_matrices("linalg.matrix_rank", A._type, square=hermitian)
    a = A.detach()
    if A.numel() == 0:
        return deliver_converted(ops.zeros(A.shape[:-2], dtype=int64), out)
    s = ops.abs(eigvalsh(a)) if hermitian else svdvals(a)
    limit = ops.maximum(*(ops.as_tensor(t, dtype=s.dtype) for t in (absolute, relative * s.amax(-1))))
    return deliver_converted(ops.gt(s, limit.unsqueeze(-1)).sum(-1), out)


class Lstsq(MatrixOp):
    """X that minimises |A X - B|, the rank of A and its singular values; small singular values count as zero."""

    saves = ("a b", "a", "")
    batch = staticmethod(lambda size, a, b, rcond: apply(Lstsq, (*aligned(a, b), rcond)))

    @staticmethod
    def infer(a: TensorType, b: TensorType, rcond: Any) -> tuple[TensorType, ...]:
        check_matrices("linalg.lstsq", a, b)
        if a.shape[-2] != b.shape[-2]:
            raise ShapeError(f"linalg.lstsq: A {a.shape} needs right hand sides with {a.shape[-2]} rows, got {b.shape}")
        lead = broadcast_shapes(a.shape[:-2], b.shape[:-2])
        values = TensorType((*a.shape[:-2], min(a.shape[-2:])), a.dtype)
        return TensorType((*lead, a.shape[-1], b.shape[-1]), a.dtype), TensorType(a.shape[:-2], int64), values

    @staticmethod
    def numpy(a: Array, b: Array, rcond: float) -> tuple[Array, ...]:
        u, s, vh = decomposed("linalg.lstsq", np.linalg.svd, a.astype(np.float64), full_matrices=False)
        used = s > _cutoff(s, 0.0, rcond)
        inverse = np.where(used, 1.0 / np.where(used, s, 1.0), 0.0)
        x = np.swapaxes(vh, -1, -2) @ (inverse[..., None] * (np.swapaxes(u, -1, -2) @ b))
        return x, used.sum(-1), s

    @staticmethod
    def vjp(g: Any, y: Any, a: Tensor, b: Tensor, rcond: float) -> tuple[Any, ...]:
        p = pinv(a, rtol=rcond)
        g_x, _, g_values = g

        def into_a() -> Tensor:
            through_p, _, _ = Pinv.vjp(matmul(g_x, b.mT), p, a, 0.0, rcond, hermitian=False)
            return through_p() + Svdvals.vjp(g_values, None, a)[0]

        return into_a, lambda: matmul(p.mT, g_x), None

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        for a, b in (((3, 3), (3, 2)), ((2, 4, 3), (4, 1)), ((2, 3), (2, 2))):
            yield Sample(rng.normal(size=a), rng.normal(size=b), 1e-15)

    onnx = NO_SINGULAR_VALUES


_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


@also_named(b="B")
def lstsq(
    A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None, out: Any = None
) -> LstsqResult:
    """X that minimises |A X - B|, of the smallest norm where several do.

    Residuals (the sums of squares) are given where A has more rows than columns and full rank (not for "gelsy"), the
    rank for drivers other than "gels", singular values for "gelsd" and "gelss". All drivers compute the same here.

    >>> ex.linalg.lstsq(ex.tensor([[1.0], [1.0]]), ex.tensor([[1.0], [3.0]])).solution.round(decimals=3)
    tensor([[2.]])
    """
    driver = "gelsy" if driver is None else driver
    if driver not in _DRIVERS:
        raise ShapeError(f"linalg.lstsq: driver must be one of {_DRIVERS}, got {driver!r}")
    if A.ndim < 2 or not B.ndim:
        raise ShapeError(
            f"linalg.lstsq: expected matrices A and B, or one vector B, got shapes {tuple(A.shape)} and "
            f"{tuple(B.shape)}; a vector becomes a matrix of one column with x.unsqueeze(-1)"
        )
    vectors = B.ndim == 1 or (A.ndim - 1 == B.ndim and B.shape == A.shape[:-1])
    right = B.unsqueeze(-1) if vectors else B
    limit = finfo(A.dtype).eps * max(A.shape[-2:]) if rcond is None else rcond
    x, rank, values = apply(Lstsq, (A, right, limit))
    values = values.detach()
    rows, columns = A.shape[-2:]
    residuals = x.reshape(x.numel()).narrow(0, 0, 0)  # empty, and requires grad as the solution does
    if rows > columns and driver != "gelsy" and bool(ops.eq(rank, columns).all()):
        residuals = ((matmul(A, x) - right) ** 2).sum(-2)
    result = LstsqResult(
        x.squeeze(-1) if vectors else x,
        residuals,
        ops.zeros(0, dtype=int64) if driver == "gels" else rank,
        values if driver in ("gelsd", "gelss") else ops.zeros(0, dtype=A.dtype),
    )
    return deliver_each(result, out)
