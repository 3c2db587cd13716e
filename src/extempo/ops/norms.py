"""How long vectors and matrices are, how far apart, and how they vary together.

`vector_norm` is the primitive; matrix norms that need singular values take them from `svdvals`. Where a norm has a
kink, its gradient is PyTorch's choice: 0 at the zero vector, shared equally among the largest (or smallest) elements.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import ops
from ..core.op import Op, Rng, Routine, Sample
from ..core.storage import Array
from ..core.tensor import Tensor
from ..core.tensor_methods import method
from ..core.types import Number, TensorType, as_dtype, bool_, normalize_dim, normalize_dims
from ..dispatch.dispatcher import apply
from ..dispatch.inline_cache import cached_by_types
from ..errors import DtypeError, NumericalError, ShapeError
from .decompositions import svdvals
from .define import also_named, deliver, deliver_converted, inplace_method, numpy_method, numpy_names, teaching
from .products import matmul
from .reduce import reduced_shape
from .systems import inv_ex

if TYPE_CHECKING:
    from ..ragged_tensors.rows import Rows

__all__ = ["cdist", "corrcoef", "cov", "dist", "frobenius_norm", "norm", "nuclear_norm", "renorm"]

Dims = int | Sequence[int] | None


class VectorNorm(Op):
    """(sum |x| ** ord) ** (1 / ord) over dimensions; ord 0 counts what is not 0, inf and -inf take the extremes."""

    family = "reduction"
    saves = ("y x",)
    lower = Routine("vector_norm")

    @staticmethod
    def infer(x: TensorType, *, ord: float, dim: tuple[int, ...], keepdim: bool) -> TensorType:
        if not x.dtype.is_floating_point:
            raise DtypeError(
                f"linalg.vector_norm: expected a floating tensor, got {x.dtype}; use x.float() or pass dtype="
            )
        if (ord < 0 or ord == math.inf) and any(x.shape[d] == 0 for d in dim):
            raise ShapeError(
                f"linalg.vector_norm: shape {x.shape} has no elements along dim {dim}, and so no norm of order {ord}"
            )
        return TensorType(reduced_shape(x.shape, dim, keepdim), x.dtype)

    @staticmethod
    def numpy(x: Array, *, ord: float, dim: tuple[int, ...], keepdim: bool) -> Any:
        wide: Any = x.astype(np.float32) if x.dtype.itemsize == 2 else x  # NumPy's types want keepdims as a literal
        if ord == 2:
            return np.sqrt((wide * wide).sum(axis=dim, keepdims=keepdim))
        if ord == 0:
            return np.count_nonzero(wide, axis=dim, keepdims=keepdim)
        size: Any = np.abs(wide)
        if math.isinf(ord):
            return (size.max if ord > 0 else size.min)(axis=dim, keepdims=keepdim)
        if ord == 1:
            return size.sum(axis=dim, keepdims=keepdim)
        return (size**ord).sum(axis=dim, keepdims=keepdim) ** (1.0 / ord)

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor, *, ord: float, dim: tuple[int, ...], keepdim: bool) -> tuple[Any, ...]:
        kept = reduced_shape(x.shape, dim, True)
        g, y = g.reshape(kept), y.reshape(kept)
        if ord == 0:
            return (ops.zero(x),)
        if ord == 1:
            return (g * ops.sign(x),)
        size = ops.abs(x)
        if math.isinf(ord):
            share = ops.logical_or(ops.eq(size, y), ops.isnan(size)).to(g.dtype)
            return (g / share.sum(dim, keepdim=True) * share * ops.sign(x),)
        if ord < 2:  # |x| ** (ord - 1) or its slope is infinite at 0
            at_zero = ops.eq(x, 0)
            slope = ops.where(at_zero, 0.0, ops.sign(x) * ops.where(at_zero, 1.0, size) ** (ord - 1))
        else:
            slope = x if ord == 2 else x * size ** (ord - 2)
        if ord < 1:
            return (slope * (g * y ** (1 - ord)),)
        nothing = ops.eq(y, 0)
        length = ops.where(nothing, 1.0, y)
        return (slope * ops.where(nothing, 0.0, g / (length if ord == 2 else length ** (ord - 1))),)

    @staticmethod
    def batch(size: int, x: Tensor, *, ord: float, dim: tuple[int, ...], keepdim: bool) -> Tensor:
        return apply(VectorNorm, (x,), {"ord": ord, "dim": tuple(d + 1 for d in dim), "keepdim": keepdim})

    @staticmethod
    def ragged(rows: Rows, x: Tensor, *, ord: float) -> Any:
        if ord not in (1.0, 2.0) or x.dtype.itemsize == 2:
            from ..ragged_tensors.rowwise import reduce_each_row

            return reduce_each_row(VectorNorm, rows, x, ord=ord)
        VectorNorm.infer(x._type, ord=2.0, dim=(0,), keepdim=False)  # raises for integers
        if ord == 1.0:
            return ops.segments.segment_sum(x.abs(), *rows.segments)
        total = ops.segments.segment_sum(x * x, *rows.segments)
        nothing = ops.eq(total, 0)  # the gradient of a zero vector's norm is 0
        return ops.where(nothing, 0.0, ops.where(nothing, 1.0, total).sqrt())

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        for ord in (2.0, 1.0, 0.0, 3.0, 1.5, 0.5, -1.0, math.inf, -math.inf):
            yield Sample(rng.normal(size=(3, 4)), ord=ord, dim=(1,), keepdim=False)
        yield Sample(rng.normal(size=(2, 3, 2)), ord=2.0, dim=(0, 2), keepdim=True)
        yield Sample(rng.normal(size=()), ord=2.0, dim=(), keepdim=False)
        yield Sample(np.empty((0, 3)), ord=2.0, dim=(0,), keepdim=False)

    @staticmethod
    def onnx(b: Any, x: Any, *, ord: float, dim: tuple[int, ...], keepdim: bool) -> Any:
        if ord == 2:
            return b.Sqrt(b.reduce("ReduceSum", b.Mul(x, x), dim, keepdim))
        size = b.Abs(x)
        if math.isinf(ord):
            return b.reduce("ReduceMax" if ord > 0 else "ReduceMin", size, dim, keepdim)
        if ord == 0:
            return b.reduce("ReduceSum", b.cast(b.Greater(size, 0.0), x.dtype), dim, keepdim)
        total = b.reduce("ReduceSum", size if ord == 1 else b.Pow(size, ord), dim, keepdim)
        return total if ord == 1 else b.Pow(total, 1.0 / ord)


@also_named(input="x")
def vector_norm(
    x: Tensor,
    ord: Number | str = 2,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
    out: Tensor | None = None,
) -> Tensor:
    """(sum |x| ** ord) ** (1 / ord) over all elements, or over `dim`; ord may be 0, inf, -inf and negative.

    >>> ex.linalg.vector_norm(ex.tensor([3.0, -4.0])), ex.linalg.vector_norm(ex.tensor([3.0, -4.0]), ex.inf)
    (tensor(5.), tensor(4.))
    """
    if ord.__class__ is not int and not isinstance(ord, float):
        if isinstance(ord, (Tensor, np.generic)):
            return vector_norm(x, ord.item(), dim, keepdim, dtype=dtype, out=out)
        raise DtypeError(
            f"linalg.vector_norm: ord must be a number, got {ord!r}; 'fro' and 'nuc' are norms of matrices"
        )
    result = _vector_norm(x if dtype is None else x.to(as_dtype(dtype)), ord, dim, keepdim)
    return result if out is None else deliver(result, out)


@cached_by_types
def _vector_norm(x: Tensor, ord: Number, dim: Dims, keepdim: bool) -> Tensor:
    dims = normalize_dims(dim, x.ndim, "linalg.vector_norm")
    shape = x._type.shape
    if ord and _has_one(shape, dims) and x.is_floating_point():
        # The norm of one element is its size, however large or small its power is.
        return ops.abs(x).reshape(reduced_shape(shape, dims, keepdim))
    return apply(VectorNorm, (x,), {"ord": float(ord), "dim": dims, "keepdim": keepdim})


def _has_one(shape: tuple[int, ...], dims: tuple[int, ...]) -> bool:
    """Whether there is one element along these dimensions."""
    for d in dims:  # noqa: SIM110 # all() of a generator takes four times as long
        if shape[d] != 1:
            return False
    return True


@numpy_names
def matrix_norm(
    A: Tensor,
    ord: Number | str = "fro",
    dim: int | Sequence[int] = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: Any = None,
    out: Tensor | None = None,
) -> Tensor:
    """The norm of matrices: "fro", "nuc", or 1, 2, inf and their negatives.

    >>> A = ex.tensor([[1.0, 2.0], [2.0, 4.0]])
    >>> ex.linalg.matrix_norm(A), ex.linalg.matrix_norm(A, 1)
    (tensor(5.), tensor(6.))
    """
    if A.ndim < 2 or isinstance(dim, int) or len(dim) != 2:
        raise ShapeError(
            f"linalg.matrix_norm: expected matrices and two dims, got shape {tuple(A.shape)} and dim {dim}"
        )
    A = A if dtype is None else A.to(as_dtype(dtype))
    if not A.dtype.is_floating_point:
        raise DtypeError(f"linalg.matrix_norm: expected a floating tensor, got {A.dtype}; use A.float() or pass dtype=")
    rows, columns = (normalize_dim(d, A.ndim, "linalg.matrix_norm") for d in dim)
    if rows == columns:
        raise ShapeError(f"linalg.matrix_norm: dim {dim} names one dimension twice")
    if ord == "fro":
        return vector_norm(A, 2, (rows, columns), keepdim, out=out)
    if ord in (1, -1, math.inf, -math.inf):
        summed, compared = (rows, columns) if ord in (1, -1) else (columns, rows)
        extreme = _largest if ord in (1, math.inf) else ops.amin
        result = extreme(vector_norm(A, 1, summed, keepdim=True), compared, keepdim=True)
    elif ord in ("nuc", 2, -2):
        values = svdvals(A.movedim((rows, columns), (-2, -1)))
        reduced = values.sum(-1) if ord == "nuc" else (_largest if ord == 2 else ops.amin)(values, -1)
        result = reduced.reshape(reduced_shape(A._type.shape, (rows, columns), True))
    else:
        raise ShapeError(f"linalg.matrix_norm: ord must be 'fro', 'nuc', 1, -1, 2, -2, inf or -inf, got {ord!r}")
    return deliver(result if keepdim else result.reshape(reduced_shape(A._type.shape, (rows, columns), False)), out)


def _largest(sizes: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    """The largest of sizes that are not negative, 0 where there are none."""
    return (ops.amax if sizes.shape[dim] else ops.sum)(sizes, dim, keepdim)


@numpy_names
def linalg_norm(
    A: Tensor,
    ord: Number | str | None = None,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    out: Tensor | None = None,
    dtype: Any = None,
) -> Tensor:
    """The norm of a vector (one dim), of a matrix (two), or without `ord` the 2-norm of all elements in `dim`.

    >>> ex.linalg.norm(ex.tensor([3.0, 4.0])), ex.linalg.norm(ex.tensor([3.0, 4.0]), 1)
    (tensor(5.), tensor(7.))
    """
    dims = (dim,) if isinstance(dim, int) else None if dim is None else tuple(dim)
    if ord is None:
        return vector_norm(A, 2, dims, keepdim, dtype=dtype, out=out)
    n_dims = A.ndim if dims is None else len(dims)
    if n_dims not in (1, 2):
        raise ShapeError(
            f"linalg.norm: with ord, dim must name the one or two dimensions of vectors or matrices, "
            f"got dim={dim} for shape {tuple(A.shape)}"
        )
    if n_dims == 2:
        return matrix_norm(A, ord, (-2, -1) if dims is None else dims, keepdim, dtype=dtype, out=out)
    return vector_norm(A, ord, dims, keepdim, dtype=dtype, out=out)


@numpy_method
def norm(
    input: Tensor,
    p: Number | str | None = "fro",
    dim: Dims = None,
    keepdim: bool = False,
    out: Tensor | None = None,
    dtype: Any = None,
) -> Tensor:
    """The p-norm of all elements, or over `dim`; "nuc" is the nuclear norm of a matrix. `linalg.norm` says more.

    >>> ex.norm(ex.tensor([3.0, 4.0])), ex.norm(ex.tensor([3.0, 4.0]), p=1)
    (tensor(5.), tensor(7.))
    """
    if p == "nuc":
        return matrix_norm(
            input, "nuc", tuple(range(input.ndim)) if dim is None else dim, keepdim, dtype=dtype, out=out
        )
    if isinstance(p, str) and p != "fro":
        raise ShapeError(f"norm: p must be a number, 'fro' or 'nuc', got {p!r}")
    return vector_norm(input, 2 if p is None or isinstance(p, str) else p, dim, keepdim, dtype=dtype, out=out)


@numpy_names
def frobenius_norm(input: Tensor, dim: Dims = None, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The root of the sum of all squares.

    >>> ex.frobenius_norm(ex.tensor([[1.0, 2.0], [2.0, 4.0]]))
    tensor(5.)
    """
    return vector_norm(input, 2, dim, keepdim, out=out)


@numpy_names
def nuclear_norm(
    input: Tensor, dim: int | Sequence[int] = (-2, -1), keepdim: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """The sum of the singular values.

    >>> ex.nuclear_norm(ex.tensor([[3.0, 0.0], [0.0, 2.0]]))
    tensor(5.)
    """
    return matrix_norm(input, "nuc", dim, keepdim, out=out)


@numpy_names
def cond(A: Tensor, p: Number | str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The condition number: the norm times that of the inverse; inf for a singular matrix.

    >>> ex.linalg.cond(ex.tensor([[4.0, 0.0], [0.0, 2.0]]))
    tensor(2.)
    """
    if A.ndim >= 2 and A.numel() == 0:
        return deliver_converted(ops.zeros(A.shape[:-2], dtype=A.dtype), out)
    if p in (None, 2, -2):
        values = svdvals(A)
        largest, smallest = values.select(-1, 0), values.select(-1, values.shape[-1] - 1)
        return deliver_converted(smallest / largest if p == -2 else largest / smallest, out)
    if A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        raise ShapeError(
            f"linalg.cond: order {p} needs square matrices, got {tuple(A.shape)}; leave p out for the 2-norm's"
        )
    inverse, info = inv_ex(A)
    assert p is not None
    product = matrix_norm(A, p) * matrix_norm(inverse, p)
    return deliver_converted(ops.where(ops.ne(info, 0), math.inf, product), out)


# ---- distances


@method
@teaching
def dist(input: Tensor, other: Tensor, p: Number = 2) -> Tensor:
    """The p-norm of input - other.

    >>> ex.dist(ex.tensor([0.0, 0.0]), ex.tensor([3.0, 4.0]))
    tensor(5.)
    """
    return vector_norm(input - other, p)


_LARGE_FOR_PRODUCT = 25  # PyTorch's limit, above which p = 2 goes through a matrix product unless told otherwise
_COMPUTE_MODES = {
    None: None,
    "use_mm_for_euclid_dist_if_necessary": None,
    "use_mm_for_euclid_dist": True,
    "donot_use_mm_for_euclid_dist": False,
}


@teaching
def cdist(
    x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str | None = "use_mm_for_euclid_dist_if_necessary"
) -> Tensor:
    """The p-norm distance of each row of x1 (..., P, M) to each of x2 (..., R, M), as (..., P, R).

    >>> ex.cdist(ex.tensor([[0.0, 0.0]]), ex.tensor([[3.0, 4.0], [0.0, 1.0]]))
    tensor([[5., 1.]])
    """
    if min(x1.ndim, x2.ndim) < 2 or x1.shape[-1] != x2.shape[-1]:
        raise ShapeError(f"cdist: expected (..., P, M) and (..., R, M), got {tuple(x1.shape)} and {tuple(x2.shape)}")
    if p < 0:
        raise ShapeError(f"cdist: p must not be negative, got {p}")
    if compute_mode not in _COMPUTE_MODES:
        raise ShapeError(f"cdist: compute_mode must be one of {[m for m in _COMPUTE_MODES if m]}, got {compute_mode!r}")
    if x1.shape[-1] == 0:  # where norms other than a sum are not defined
        p = 1.0
    by_product = _COMPUTE_MODES[compute_mode]
    if by_product is None:
        by_product = max(x1.shape[-2], x2.shape[-2]) > _LARGE_FOR_PRODUCT
    if p == 2 and by_product:
        return _euclidean_by_product(x1, x2)
    return vector_norm(x1.unsqueeze(-2) - x2.unsqueeze(-3), p, -1)


def _euclidean_by_product(x1: Tensor, x2: Tensor) -> Tensor:
    """|a - b| from |a|^2 - 2 a.b + |b|^2: one matrix product in place of P * R differences."""
    squares1 = (x1 * x1).sum(-1, keepdim=True)
    squares2 = (x2 * x2).sum(-1, keepdim=True).mT
    squared = squares1 + squares2 - 2 * matmul(x1, x2.mT)
    same = ops.le(squared, 0)  # rounding may leave a negative square; the root's slope at 0 is taken as 0
    return ops.where(same, 0.0, ops.sqrt(ops.where(same, 1.0, squared)))


def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The p-norm distances of each two rows of a matrix, in the order of the upper triangle of `cdist(x, x)`.

    >>> F.pdist(ex.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]]))
    tensor([5.0000, 1.0000, 4.2426])
    """
    if input.ndim != 2:
        raise ShapeError(f"pdist: expected a matrix (rows, features), got shape {tuple(input.shape)}")
    if p < 0:
        raise ShapeError(f"pdist: p must not be negative, got {p}")
    first, second = (ops.from_numpy(i) for i in np.triu_indices(input.shape[0], 1))
    return vector_norm(input[first] - input[second], 1.0 if input.shape[1] == 0 else p, -1)


@numpy_method
def renorm(input: Tensor, p: Number, dim: int, maxnorm: Number, *, out: Tensor | None = None) -> Tensor:
    """Slices along `dim` whose p-norm exceeds `maxnorm` scaled down to it.

    >>> ex.renorm(ex.tensor([[3.0, 4.0], [0.3, 0.4]]), p=2, dim=0, maxnorm=1.0)
    tensor([[0.6000, 0.8000],
            [0.3000, 0.4000]])
    """
    if input.ndim < 2:
        raise ShapeError(f"renorm: expected at least 2 dimensions, got shape {tuple(input.shape)}")
    if p <= 0 or maxnorm < 0:
        raise NumericalError(f"renorm: p must be positive and maxnorm not negative, got p={p}, maxnorm={maxnorm}")
    own = normalize_dim(dim, input.ndim, "renorm")
    length = vector_norm(input, p, [d for d in range(input.ndim) if d != own], keepdim=True)
    # The small term keeps the scaled norm from exceeding maxnorm by a rounding error.
    return deliver(input * ops.where(ops.gt(length, maxnorm), maxnorm / (length + 1e-7), 1.0), out)


inplace_method("renorm_", renorm)


# ---- covariance


@method
@teaching
def cov(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor:
    """The covariance of the variables in the rows; `fweights` says how often, `aweights` how much a column counts.

    >>> ex.cov(ex.tensor([[1.0, 2.0, 3.0], [6.0, 4.0, 2.0]]))
    tensor([[ 1., -2.],
            [-2.,  4.]])
    """
    if input.ndim > 2:
        raise ShapeError(
            f"cov: expected at most 2 dimensions (variables, observations), got shape {tuple(input.shape)}"
        )
    if input.dtype is bool_:
        raise DtypeError("cov: expected numbers, got a bool tensor; use x.float()")
    rows = input if input.ndim == 2 else input.reshape(1, input.numel())
    n_observations = rows.shape[1]
    _check_weights("fweights", fweights, n_observations, floating=False)
    _check_weights("aweights", aweights, n_observations, floating=True)
    weights = aweights if fweights is None else fweights if aweights is None else fweights * aweights
    total: Any = n_observations if weights is None else weights.sum()
    mean = (rows if weights is None else rows * weights).sum(1, keepdim=True) / total
    if aweights is not None and correction != 0:
        assert weights is not None
        divisor = total - correction * (weights * aweights).sum() / total
    else:
        divisor = total - correction
    divisor = ops.clamp(divisor, min=0) if isinstance(divisor, Tensor) else max(divisor, 0)
    centred = rows - mean
    weighted = centred if weights is None else centred * weights
    return (matmul(centred, weighted.to(centred.dtype).mT) / divisor).squeeze()


def _check_weights(name: str, weights: Tensor | None, n_observations: int, *, floating: bool) -> None:
    if weights is None:
        return
    if weights.ndim > 1 or weights.numel() != n_observations:
        raise ShapeError(
            f"cov: {name} must have one number per observation ({n_observations}), got {tuple(weights.shape)}"
        )
    if weights.dtype.is_floating_point is not floating:
        raise DtypeError(f"cov: {name} must be {'floating' if floating else 'integers'}, got {weights.dtype}")
    if not ops.ge(weights, 0).all():
        raise NumericalError(f"cov: {name} must not be negative or NaN; leave a column out with the weight 0")


@method
@teaching
def corrcoef(input: Tensor) -> Tensor:
    """The correlation of each two of the variables in the rows, from -1 to 1.

    >>> ex.corrcoef(ex.tensor([[1.0, 2.0, 3.0], [6.0, 4.0, 2.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    c = cov(input)
    if not c.ndim:
        return c / c
    deviation = ops.sqrt(c.diagonal())
    return ops.clamp(c / deviation.unsqueeze(-1) / deviation, -1, 1)
