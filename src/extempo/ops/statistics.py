"""Statistics made of other reductions: variance, quantiles, sums and means that pass over NaN.

Variances are computed in float64 and rounded once, as in PyTorch: those of float32's largest numbers are finite.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import ops
from ..core.tensor import Tensor
from ..core.tensor_methods import method
from ..core.types import Number, as_dtype, count, dtype, float64, normalize_dims
from ..errors import DtypeError, ShapeError
from .define import numpy_method, numpy_names
from .reduce import Dims, reduced_shape
from .view import as_shape

__all__ = ["nanmean", "nanquantile", "nansum", "quantile", "std", "std_mean", "var", "var_mean"]


class StdMean(NamedTuple):
    """The standard deviation and the mean."""

    std: Tensor
    mean: Tensor


class VarMean(NamedTuple):
    """The variance and the mean."""

    var: Tensor
    mean: Tensor


def _moments(
    name: str, input: Tensor, dim: Any, unbiased: bool | None, keepdim: bool, correction: Number | None
) -> tuple[Tensor, Tensor]:
    """Variance and mean, in the precision to compute in."""
    if not input.is_floating_point():
        raise DtypeError(f"{name}: expected a floating tensor, got {input.dtype}; use x.float().{name}(...)")
    if isinstance(dim, bool):  # PyTorch's older form var(x, unbiased)
        dim, unbiased = None, dim
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    elif unbiased is not None:
        raise DtypeError(f"{name}: give correction or unbiased, not both; unbiased=True means correction=1")
    dims = normalize_dims(dim, input.ndim, name)
    x = input.to(float64)
    if x.is_nested:
        from ..ragged_tensors.rowwise import moments

        return moments(name, x, dims, keepdim, correction)
    mean = _mean(x, dims) if input.dtype is float64 else x.mean(dims, keepdim=True)
    rest = x - mean
    degrees = count(input.shape[d] for d in dims) - correction
    spread = (rest * rest).sum(dims, keepdim=keepdim) / (degrees if degrees > 0 else 0.0)
    return spread, mean if keepdim else mean.reshape(reduced_shape(tuple(input.shape), dims, False))


def _mean(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The mean, with a size of 1 for each dim; taken from a first element, so that large equal numbers are finite."""
    if not all(x.shape[d] for d in dims):
        return x.mean(dims, keepdim=True)
    first = x.detach()
    for d in dims:
        first = first.narrow(d, 0, 1)
    return first + (x - first).mean(dims, keepdim=True)


def _root(variance: Tensor) -> Tensor:
    """sqrt, whose gradient is taken to be 0 where the variance is 0."""
    flat = ops.eq(variance, 0)
    return ops.where(flat, 0.0, ops.sqrt(ops.where(flat, 1.0, variance)))


@numpy_method
def var(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: Number | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The variance, of all or over the dimensions in `dim`: squared deviations, summed, by n - correction (1).

    >>> ex.var(ex.tensor([1.0, 2.0, 3.0])), ex.var(ex.tensor([1.0, 3.0]), correction=0)
    (tensor(1.), tensor(1.))
    """
    spread, _ = _moments("var", input, dim, unbiased, keepdim, correction)
    return ops.deliver_converted(spread.to(input.dtype), out)


@numpy_method
def std(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: Number | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The standard deviation, of all or over the dimensions in `dim`; see `var`. Its gradient is 0 where it is 0.

    >>> ex.std(ex.tensor([1.0, 2.0, 3.0])), ex.std(ex.tensor([1.0, 3.0]), correction=0)
    (tensor(1.), tensor(1.))
    """
    spread, _ = _moments("std", input, dim, unbiased, keepdim, correction)
    return ops.deliver_converted(_root(spread).to(input.dtype), out)


@numpy_names
def var_mean(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: Number | None = None,
) -> VarMean:
    """The variance (see `var`) and the mean.

    >>> ex.var_mean(ex.tensor([1.0, 2.0, 3.0]))
    VarMean(var=tensor(1.), mean=tensor(2.))
    """
    spread, mean = _moments("var_mean", input, dim, unbiased, keepdim, correction)
    return VarMean(spread.to(input.dtype), mean.to(input.dtype))


@numpy_names
def std_mean(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: Number | None = None,
) -> StdMean:
    """The standard deviation (see `std`) and the mean.

    >>> ex.std_mean(ex.tensor([1.0, 2.0, 3.0]))
    StdMean(std=tensor(1.), mean=tensor(2.))
    """
    spread, mean = _moments("std_mean", input, dim, unbiased, keepdim, correction)
    return StdMean(_root(spread).to(input.dtype), mean.to(input.dtype))


@numpy_method
def nansum(
    input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: dtype | None = None, out: Tensor | None = None
) -> Tensor:
    """The sum of what is no NaN.

    >>> ex.nansum(ex.tensor([1.0, ex.nan, 3.0]))
    tensor(4.)
    """
    if input.is_floating_point():
        input = ops.where(ops.isnan(input), 0.0, input)
    return ops.sum(input, dim, keepdim, dtype=dtype, out=out)


@numpy_method
def nanmean(
    input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: dtype | None = None, out: Tensor | None = None
) -> Tensor:
    """The mean of what is no NaN; NaN where nothing is left.

    >>> ex.nanmean(ex.tensor([1.0, ex.nan, 3.0]))
    tensor(2.)
    """
    if dtype is not None:
        input = input.to(as_dtype(dtype))
    if not input.is_floating_point():
        raise DtypeError(
            f"nanmean: the mean of {input.dtype} is not an integer; use x.float().nanmean() or pass dtype="
        )
    n_valid = ops.logical_not(ops.isnan(input)).sum(dim, keepdim=keepdim)
    return ops.deliver_converted(nansum(input, dim, keepdim) / n_valid, out)


_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def _quantile(
    name: str, input: Tensor, q: Any, dim: int | None, keepdim: bool, interpolation: str, ignore_nan: bool
) -> Tensor:
    if interpolation not in _INTERPOLATIONS:
        raise DtypeError(f"{name}: interpolation must be one of {', '.join(_INTERPOLATIONS)}, got {interpolation!r}")
    if not input.is_floating_point():
        raise DtypeError(f"{name}: expected a floating tensor, got {input.dtype}; use x.float().{name}(...)")
    q = q if isinstance(q, Tensor) else ops.tensor(q, dtype=input.dtype)
    if q.dtype is not input.dtype or q.ndim > 1:
        raise DtypeError(
            f"{name}: q must be a number or a vector of {input.dtype}, got {q.dtype} of shape {tuple(q.shape)}"
        )
    if not bool(ops.logical_and(ops.ge(q, 0), ops.le(q, 1)).all()):
        raise ShapeError(f"{name}: q must lie between 0 and 1; for percentages use percent / 100")
    if not input.numel():
        raise ShapeError(f"{name}: shape {tuple(input.shape)} has no elements; test x.numel() first")
    dims = normalize_dims(dim, input.ndim, name)
    if input.is_nested:
        from ..ragged_tensors.rowwise import quantiles

        def of_regular(x: Tensor, d: int | None, keep: bool) -> Tensor:
            return _quantile(name, x, q, d, keep, interpolation, ignore_nan)

        return quantiles(input, q, None if dim is None else dims[0], keepdim, of_regular)
    rows = input.movedim(dims[0], -1) if dim is not None and dims else input.reshape(-1)
    ordered = rows.sort(-1).values
    n_valid = ops.logical_not(ops.isnan(ordered)).sum(-1, keepdim=True)
    size = ordered.shape[-1]
    # NaN sorts last: its rank stands for the answer of a row that holds one.
    last = (n_valid - 1).clamp(min=0).to(q.dtype) if ignore_nan else float(size - 1)
    ranks = last * q.reshape(-1).expand(*ordered.shape[:-1], q.numel())
    if not ignore_nan:
        ranks = ops.where(ops.lt(n_valid, size), float(size - 1), ranks)
    found = _interpolate(ordered, ranks, interpolation)
    return found.movedim(-1, 0).reshape(*q.shape, *reduced_shape(tuple(input.shape), dims, keepdim))


def _interpolate(ordered: Tensor, ranks: Tensor, interpolation: str) -> Tensor:
    if interpolation in ("lower", "higher", "nearest"):
        whole = {"lower": ops.floor, "higher": ops.ceil, "nearest": ops.round}[interpolation](ranks)
        return ops.gather(ordered, -1, whole.long())
    below = ops.floor(ranks)
    low, high = ops.gather(ordered, -1, below.long()), ops.gather(ordered, -1, ops.ceil(ranks).long())
    weight = 0.5 if interpolation == "midpoint" else ranks - below
    return ops.lerp(low, high, weight)


@numpy_method
def quantile(
    input: Tensor,
    q: float | Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
    out: Tensor | None = None,
) -> Tensor:
    """The q-quantiles, of all or along `dim`; NaN if an element is. A vector q adds a leading dimension.

    >>> ex.quantile(ex.tensor([1.0, 2.0, 3.0]), 0.25)
    tensor(1.5000)
    """
    return ops.deliver(_quantile("quantile", input, q, dim, keepdim, interpolation, ignore_nan=False), out)


@numpy_method
def nanquantile(
    input: Tensor,
    q: float | Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
    out: Tensor | None = None,
) -> Tensor:
    """The q-quantiles of what is no NaN; see `quantile`.

    >>> ex.nanquantile(ex.tensor([1.0, ex.nan, 3.0]), 0.25)
    tensor(1.5000)
    """
    return ops.deliver(_quantile("nanquantile", input, q, dim, keepdim, interpolation, ignore_nan=True), out)


def _sum_to_size(self: Tensor, *sizes: Any, size: Any = None) -> Tensor:
    """Summed over the dimensions that broadcasting from `size` would have grown."""
    shape = as_shape(sizes if size is None else (size,), "sum_to_size")
    own = tuple(self.shape)
    if not ops.broadcastable(shape, own):
        raise ShapeError(f"sum_to_size: {shape} does not broadcast to the tensor's shape {own}")
    extra = len(own) - len(shape)
    dims = tuple(d for d in range(len(own)) if d < extra or (shape[d - extra] == 1 and own[d] != 1))
    return self.sum(dims).reshape(shape) if dims or not own else self


method(_sum_to_size, "sum_to_size")
