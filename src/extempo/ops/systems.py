"""Systems of linear equations: solve, inverse, triangular systems.

Matrices are the last two dimensions, all others a batch that broadcasts. float32 and float64 only; numpy.linalg
computes in float64 either way. `info` results are LAPACK's: 0, or the pivot (from 1) that is exactly zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from .. import ops
from ..backends.numpy import factorization
from ..core.op import Decomposed, Op, Refuse, Rng, Routine, Sample
from ..core.storage import Array
from ..core.tensor import Tensor
from ..core.tensor_methods import method
from ..core.types import TensorType, broadcast_shapes, count, float32, float64, int32
from ..dispatch.dispatcher import apply
from ..errors import DtypeError, NumericalError, ShapeError
from . import matrix_loops
from .define import also_named, deliver, deliver_converted, deliver_each, numpy_names, teaching
from .products import aligned, matmul

__all__ = ["cholesky_inverse", "cholesky_solve", "inverse"]


class SolveExResult(NamedTuple):
    """result, and info: 0 or the pivot that is zero."""

    result: Tensor
    info: Tensor


class InvExResult(NamedTuple):
    """inverse, and info: 0 or the pivot that is zero."""

    inverse: Tensor
    info: Tensor


def check_matrices(op: str, *types: TensorType, square: bool = False) -> None:
    """Matrices (the first of them square) of one dtype, float32 or float64; every linalg op asks this first."""
    for t in types:
        if t.dtype not in (float32, float64):
            raise DtypeError(f"{op}: expected float32 or float64, got {t.dtype}; use x.float()")
        if t.dtype is not types[0].dtype:
            raise DtypeError(f"{op}: expected tensors of one dtype, got {types[0].dtype} and {t.dtype}; use .to(...)")
        if t.ndim < 2:
            raise ShapeError(f"{op}: expected matrices (..., rows, columns), got shape {t.shape}")
    if square and types[0].shape[-1] != types[0].shape[-2]:
        raise ShapeError(f"{op}: expected square matrices (..., n, n), got shape {types[0].shape}")


def check_system(op: str, a: TensorType, b: TensorType) -> tuple[int, ...]:
    """The shape of x in a x = b."""
    check_matrices(op, a, b, square=True)
    if a.shape[-1] != b.shape[-2]:
        raise ShapeError(f"{op}: matrices {a.shape} need right hand sides with {a.shape[-1]} rows, got {b.shape}")
    try:
        lead = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ShapeError:
        raise ShapeError(f"{op}: the batch dimensions of {a.shape} and {b.shape} do not broadcast") from None
    return (*lead, *b.shape[-2:])


def failure(op: str, index: tuple[int, ...] | None, what: str) -> NumericalError:
    """The error for a matrix that a computation is not possible for, naming its place in the batch."""
    which = f"matrix {index} of the batch" if index else "the matrix"
    return NumericalError(f"{op}: {which} {what}")


def one_by_one(
    fn: Callable[..., Array], info_of: Callable[[Array], int], a: Array, *rest: Array
) -> tuple[Array, Array]:
    """`fn` of each matrix of a batch and info for each; NaN where it fails. NumPy's kernel would fail as a whole."""
    lead = np.broadcast_shapes(a.shape[:-2], *(x.shape[:-2] for x in rest))
    a, *rest_ = (np.broadcast_to(x, (*lead, *x.shape[-2:])) for x in (a, *rest))
    results = np.full((rest_[0] if rest else a).shape, np.nan)
    info = np.zeros(lead, np.int32)
    for index in np.ndindex(lead):
        try:
            results[index] = fn(a[index], *(x[index] for x in rest_))
        except np.linalg.LinAlgError:
            info[index] = info_of(a[index])
    return results, info


def _zero_pivot(a: Array) -> int:
    return int(factorization.lu_factor(a)[2])


def _singular(op: str, a: Array) -> NumericalError:
    index = factorization.first_failure(np.linalg.inv, a)
    at = a if index is None else a[index]
    return failure(
        op,
        index,
        f"is singular (pivot {_zero_pivot(at)} is zero); use linalg.lstsq or pinv, or add a multiple of the identity",
    )


class MatrixOp(Op, abstract=True):
    """Ops on float32 and float64 matrices."""

    family = "linalg"
    only_wide = True  # LAPACK has no half precision
    ragged = "matrices"


class OfMatrix(MatrixOp, abstract=True):
    """An op of one matrix, which takes any batch in front of it."""

    @classmethod
    def batch(cls, size: int, a: Tensor, **attrs: Any) -> Any:
        return apply(cls, (a,), attrs)


NO_SINGULAR_VALUES = Refuse("singular values come from LAPACK, and ONNX has no operator for them")
NO_EIGENVALUES = Refuse("eigenvalues come from LAPACK, and ONNX has no operator for them")


class Mirrored(OfMatrix):
    """The symmetric matrix that has this triangle. A gradient along symmetric changes passes through as it is.

    Ops of symmetric matrices read one triangle and, as in PyTorch, have a symmetric gradient: this is that convention.
    """

    saves = ("",)
    quiet = True
    lower = Routine("mirrored")
    samples = Refuse("along changes that are not symmetric its gradient is not the limit of differences, on purpose")
    infer = staticmethod(lambda a, *, upper: a)
    vjp = staticmethod(lambda g, y, a, *, upper: (g,))

    @staticmethod
    def numpy(a: Array, *, upper: bool) -> Array:
        triangle, rest = (np.triu(a), np.triu(a, 1)) if upper else (np.tril(a), np.tril(a, -1))
        return triangle + np.swapaxes(rest, -1, -2)

    @Decomposed
    def onnx(a: Tensor, *, upper: bool) -> Tensor:
        return ops.triu(a) + ops.triu(a, 1).mT if upper else ops.tril(a) + ops.tril(a, -1).mT


def mirrored(op: str, a: Tensor, *, upper: bool) -> Tensor:
    """The symmetric matrix that has this triangle of `a`."""
    check_matrices(op, a._type, square=True)
    return apply(Mirrored, (a,), {"upper": upper})


def symmetric_part(a: Array) -> Array:
    """(a + a.T) / 2: symmetric matrices as they are, for others a function with a derivative in any direction."""
    return 0.5 * (a + np.swapaxes(a, -1, -2))


class Solve(MatrixOp):
    """X with A X = B, and info. With check_errors a singular A is an error."""

    saves = ("y a", "a")

    @staticmethod
    def infer(a: TensorType, b: TensorType, *, check_errors: bool) -> tuple[TensorType, TensorType]:
        shape = check_system("linalg.solve", a, b)
        return TensorType(shape, a.dtype), TensorType(shape[:-2] if b.ndim > a.ndim else a.shape[:-2], int32)

    @staticmethod
    def numpy(a: Array, b: Array, *, check_errors: bool) -> tuple[Array, Array]:
        lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2]) if b.ndim > a.ndim else a.shape[:-2]
        try:
            return np.linalg.solve(a, b), np.zeros(lead, np.int32)
        except np.linalg.LinAlgError:
            if check_errors:
                raise _singular("linalg.solve", a) from None
        x, info = one_by_one(np.linalg.solve, _zero_pivot, a, b)
        return x, info if info.shape == lead else one_by_one(np.linalg.inv, _zero_pivot, a)[1]

    @staticmethod
    def vjp(g: Any, y: Any, a: Tensor, b: Any, *, check_errors: bool) -> tuple[Any, ...]:
        into_b = apply(Solve, (a.mT, g[0]), {"check_errors": check_errors})[0]
        return lambda: -matmul(into_b, y[0].mT), into_b

    @staticmethod
    def batch(size: int, a: Tensor, b: Tensor, *, check_errors: bool) -> Any:
        return apply(Solve, tuple(aligned(a, b)), {"check_errors": check_errors})

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        for a, b in (((3, 3), (3, 2)), ((2, 1, 3, 3), (4, 3, 1)), ((0, 0), (0, 2)), ((2, 2), (2, 0))):
            yield Sample(rng.normal(size=a) + 2 * np.eye(a[-1]), rng.normal(size=b), check_errors=True)

    @Decomposed
    def onnx(flow: Any, a: Tensor, b: Tensor, *, check_errors: bool) -> tuple[Tensor, Tensor]:
        x, info = matrix_loops.solve(flow, a, b)
        return x, info if b.ndim > a.ndim else matrix_loops.lu_factor(flow, a)[2]


class Inverse(OfMatrix):
    """The inverse of square matrices, and info. With check_errors a singular matrix is an error."""

    saves = ("y",)

    @staticmethod
    def infer(a: TensorType, *, check_errors: bool) -> tuple[TensorType, TensorType]:
        check_matrices("linalg.inv", a, square=True)
        return a, TensorType(a.shape[:-2], int32)

    @staticmethod
    def numpy(a: Array, *, check_errors: bool) -> tuple[Array, Array]:
        try:
            return np.linalg.inv(a), np.zeros(a.shape[:-2], np.int32)
        except np.linalg.LinAlgError:
            if check_errors:
                raise _singular("linalg.inv", a) from None
        return one_by_one(np.linalg.inv, _zero_pivot, a)

    @staticmethod
    def vjp(g: Any, y: Any, a: Any, *, check_errors: bool) -> tuple[Any, ...]:
        transposed = y[0].mT
        return (-matmul(matmul(transposed, g[0]), transposed),)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        for shape in ((3, 3), (2, 2, 3, 3), (0, 0), (0, 2, 2)):
            yield Sample(rng.normal(size=shape) + 2 * np.eye(shape[-1]), check_errors=True)

    @Decomposed
    def onnx(flow: Any, a: Tensor, *, check_errors: bool) -> tuple[Tensor, Tensor]:
        return matrix_loops.solve(flow, a, ops.eye(a._type.shape[-1], dtype=a.dtype).expand(a._type.shape))


class SolveTriangular(MatrixOp):
    """X with A X = B, for A of which only one triangle is read."""

    saves = ("y a", "a")
    lower = Routine("solve_triangular")

    @staticmethod
    def infer(a: TensorType, b: TensorType, *, upper: bool, unitriangular: bool) -> TensorType:
        return TensorType(check_system("linalg.solve_triangular", a, b), a.dtype)

    @staticmethod
    def numpy(a: Array, b: Array, *, upper: bool, unitriangular: bool) -> Array:
        return np.ascontiguousarray(factorization.solve_triangular(a, b, upper, unitriangular))

    @staticmethod
    def vjp(g: Tensor, y: Tensor, a: Tensor, b: Any, *, upper: bool, unitriangular: bool) -> tuple[Any, ...]:
        into_b = apply(SolveTriangular, (a.mT, g), {"upper": not upper, "unitriangular": unitriangular})

        def into_a() -> Tensor:
            whole = -matmul(into_b, y.mT)
            return whole.triu(int(unitriangular)) if upper else whole.tril(-int(unitriangular))

        return into_a, into_b

    @staticmethod
    def batch(size: int, a: Tensor, b: Tensor, *, upper: bool, unitriangular: bool) -> Tensor:
        return apply(SolveTriangular, tuple(aligned(a, b)), {"upper": upper, "unitriangular": unitriangular})

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        for upper in (True, False):
            a = rng.normal(size=(2, 3, 3)) + 2 * np.eye(3)
            yield Sample(a, rng.normal(size=(3, 2)), upper=upper, unitriangular=False)
            yield Sample(a[0], rng.normal(size=(2, 3, 2)), upper=upper, unitriangular=True)
        yield Sample(np.empty((0, 0)), np.empty((0, 2)), upper=True, unitriangular=False)

    @Decomposed
    def onnx(flow: Any, a: Tensor, b: Tensor, *, upper: bool, unitriangular: bool) -> Tensor:
        return matrix_loops.solve_triangular(flow, a, b, upper, unitriangular)


# ---- functions


@teaching
def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False, out: Any = None) -> SolveExResult:
    """X with A X = B (X A = B without `left`), and info in place of an error: 0, or the pivot that is zero.

    >>> ex.linalg.solve_ex(ex.tensor([[1.0, 2.0], [0.0, 0.0]]), ex.tensor([6.0, 8.0])).info
    tensor(2, dtype=extempo.int32)
    """
    # As in PyTorch, B of the shape of A without its last dimension is a batch of vectors.
    vectors = B.ndim == 1 or (A.ndim - 1 == B.ndim and B.shape == A.shape[:-1])
    right = B.unsqueeze(-1) if vectors else B
    if vectors and not left:
        raise ShapeError("linalg.solve: left=False needs a matrix B, got vectors; use B.unsqueeze(-2)")
    check_system("linalg.solve", A._type, (right if left else right.mT)._type)
    attrs = {"check_errors": check_errors}
    if left:
        x, info = apply(Solve, (A, right), attrs)
    else:
        x, info = apply(Solve, (A.mT, right.mT), attrs)
        x = x.mT
    return deliver_each(SolveExResult(x.squeeze(-1) if vectors else x, info), out)


@teaching
def solve(A: Tensor, B: Tensor, *, left: bool = True, out: Tensor | None = None) -> Tensor:
    """X with A X = B, or X A = B with left=False. B may be matrices or vectors; a singular A is an error.

    >>> ex.linalg.solve(ex.tensor([[2.0, 0.0], [0.0, 4.0]]), ex.tensor([6.0, 8.0]))
    tensor([3., 2.])
    """
    return deliver(solve_ex(A, B, left=left, check_errors=True).result, out)


@teaching
def inv_ex(A: Tensor, *, check_errors: bool = False, out: Any = None) -> InvExResult:
    """The inverse, and info in place of an error: 0, or the pivot that is zero (then the inverse is NaN).

    >>> ex.linalg.inv_ex(ex.tensor([[1.0, 2.0], [0.0, 0.0]])).info
    tensor(2, dtype=extempo.int32)
    """
    return deliver_each(InvExResult(*apply(Inverse, (A,), {"check_errors": check_errors})), out)


@teaching
def inv(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse of square matrices; a singular one is an error. Use `solve` for inv(A) @ B.

    >>> ex.linalg.inv(ex.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    return deliver(apply(Inverse, (A,), {"check_errors": True})[0], out)


@method
@teaching
def inverse(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse of square matrices; `linalg.inv` by its older name.

    >>> ex.inverse(ex.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    return inv(input, out=out)


@numpy_names
def solve_triangular(
    A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False, out: Tensor | None = None
) -> Tensor:
    """X with A X = B (X A = B with left=False) for triangular A; with `unitriangular` the diagonal is taken as ones.

    >>> ex.linalg.solve_triangular(ex.tensor([[1.0, 1.0], [0.0, 2.0]]), ex.tensor([[4.0], [2.0]]), upper=True)
    tensor([[3.],
            [1.]])
    """
    if left:
        result = apply(SolveTriangular, (A, B), {"upper": upper, "unitriangular": unitriangular})
    else:
        result = apply(SolveTriangular, (A.mT, B.mT), {"upper": not upper, "unitriangular": unitriangular}).mT
    return deliver(result, out)


@method
@also_named(input2="L", B="input")
def cholesky_solve(input: Tensor, L: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """X with A X = input, from the Cholesky factor of A.

    >>> ex.cholesky_solve(ex.tensor([[8.0], [16.0]]), ex.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[2.],
            [1.]])
    """
    lower = L.mT if upper else L
    halfway = solve_triangular(lower, input, upper=False)
    return deliver_converted(solve_triangular(lower.mT, halfway, upper=True), out)


@method
@also_named(input="L")
def cholesky_inverse(L: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The inverse of A from its Cholesky factor.

    >>> ex.cholesky_inverse(ex.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.2500, 0.0000],
            [0.0000, 0.0625]])
    """
    check_matrices("cholesky_inverse", L._type, square=True)
    return cholesky_solve(ops.eye(L.shape[-1], dtype=L.dtype), L, upper, out=out)


@numpy_names
def tensorinv(A: Tensor, ind: int = 2, *, out: Tensor | None = None) -> Tensor:
    """The inverse for tensordot: A's first `ind` dimensions are the rows, the others the columns.

    >>> ex.linalg.tensorinv(ex.eye(4).reshape(4, 2, 2), ind=1).shape
    extempo.Size([2, 2, 4])
    """
    if ind <= 0 or count(A.shape[:ind]) != count(A.shape[ind:]):
        raise ShapeError(
            f"linalg.tensorinv: the first {ind} sizes of {tuple(A.shape)} must multiply to the same as the others"
        )
    n = count(A.shape[:ind])
    return deliver_converted(inv(A.reshape(n, n)).reshape(*A.shape[ind:], *A.shape[:ind]), out)


@also_named(other="B")
def tensorsolve(A: Tensor, B: Tensor, dims: tuple[int, ...] | None = None, *, out: Tensor | None = None) -> Tensor:
    """X with tensordot(A, X, X.ndim) = B; the dimensions in `dims` of A are moved to its end first.

    >>> ex.linalg.tensorsolve(2.0 * ex.eye(4).reshape(4, 2, 2), ex.tensor([2.0, 4.0, 6.0, 8.0]))
    tensor([[1., 2.],
            [3., 4.]])
    """
    if dims is not None:
        A = A.movedim(dims, tuple(range(A.ndim - len(dims), A.ndim)))
    n = B.numel()
    shape = A.shape[B.ndim :]
    if count(shape) != n or A.numel() != n * n:
        raise ShapeError(
            f"linalg.tensorsolve: A {tuple(A.shape)} must have the sizes of B {tuple(B.shape)}, then as many elements"
        )
    return deliver_converted(solve(A.reshape(n, n), B.reshape(n)).reshape(shape), out)
