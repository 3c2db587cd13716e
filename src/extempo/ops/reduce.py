"""Many elements become one: sums, means, products, extremes, truth.

Attributes of every reduction: `dim`, sorted and distinct, and `keepdim`. Half precision adds up in float32.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .. import ops
from .._methods import method
from .._tensor import Tensor, apply
from ..errors import DtypeError, ShapeError
from ..op import Reduction, Rng, Sample
from ..storage import Array
from ..types import TensorType, as_dtype, count, dtype, int64, normalize_dims

__all__ = [
    "amax",
    "amin",
    "mean",
    "sum",
]

Dims = int | Sequence[int] | None


def reduced_shape(shape: tuple[int, ...], dim: tuple[int, ...], keepdim: bool) -> tuple[int, ...]:
    """The shape that is left."""
    if keepdim:
        return tuple(1 if d in dim else s for d, s in enumerate(shape))
    return tuple(s for d, s in enumerate(shape) if d not in dim)


def spread(g: Tensor, x: Any, dim: tuple[int, ...], keepdim: bool) -> Tensor:
    """A reduced gradient (or result) seen in the shape of the input again."""
    if not keepdim:
        g = g.reshape(reduced_shape(x.shape, dim, True))
    return g.expand(x.shape)


def samples_reduction(rng: Rng) -> Iterator[Sample]:
    yield Sample(rng.normal(size=(3, 4)), dim=(0, 1), keepdim=False)
    yield Sample(rng.normal(size=(2, 3, 4)), dim=(1,), keepdim=True)
    yield Sample(rng.normal(size=(2, 3, 4)), dim=(0, 2), keepdim=False)
    yield Sample(rng.normal(size=()), dim=(), keepdim=False)


def wide(x: Array) -> Any:
    """The dtype to add up in."""
    return np.float32 if x.dtype.itemsize == 2 and x.dtype.kind not in "iu" else None


class Sum(Reduction):
    """The sum over dimensions; integers and bools give int64."""

    saves = ("",)

    @staticmethod
    def infer(x: TensorType, *, dim: tuple[int, ...], keepdim: bool) -> TensorType:
        return TensorType(reduced_shape(x.shape, dim, keepdim), x.dtype if x.dtype.is_floating_point else int64)

    @staticmethod
    def numpy(x: Array, *, dim: tuple[int, ...], keepdim: bool) -> Any:
        return x.sum(axis=dim, keepdims=keepdim, dtype=wide(x) if x.dtype.kind not in "iub" else np.int64)

    @staticmethod
    def vjp(g: Tensor, y: Any, x: Any, *, dim: tuple[int, ...], keepdim: bool) -> tuple[Any, ...]:
        return (spread(g, x, dim, keepdim),)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield from samples_reduction(rng)
        yield Sample(np.empty((0, 3)), dim=(0,), keepdim=False)


class Mean(Reduction):
    """The mean over dimensions."""

    saves = ("",)

    @staticmethod
    def infer(x: TensorType, *, dim: tuple[int, ...], keepdim: bool) -> TensorType:
        if not x.dtype.is_floating_point:
            raise DtypeError(f"mean: the mean of {x.dtype} is not an integer; use x.float().mean() or pass dtype=")
        return TensorType(reduced_shape(x.shape, dim, keepdim), x.dtype)

    @staticmethod
    def numpy(x: Array, *, dim: tuple[int, ...], keepdim: bool) -> Any:
        total = x.sum(axis=dim, keepdims=keepdim, dtype=wide(x))
        return total / total.dtype.type(count(x.shape[d] for d in dim))

    @staticmethod
    def vjp(g: Tensor, y: Any, x: Any, *, dim: tuple[int, ...], keepdim: bool) -> tuple[Any, ...]:
        return (spread(g / count(x.shape[d] for d in dim), x, dim, keepdim),)

    samples = staticmethod(samples_reduction)


class _Extreme(Reduction, abstract=True):
    """The largest or smallest element; equal ones share the gradient."""

    saves = ("y x",)
    quiet = True

    @classmethod
    def infer(cls, x: TensorType, *, dim: tuple[int, ...], keepdim: bool) -> TensorType:
        if any(x.shape[d] == 0 for d in dim):
            raise ShapeError(f"{cls.__name__.lower()}: shape {x.shape} has no elements along dim {dim}, and so no extreme")
        return TensorType(reduced_shape(x.shape, dim, keepdim), x.dtype)

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor, *, dim: tuple[int, ...], keepdim: bool) -> tuple[Any, ...]:
        best = ops.eq(spread(y, x, dim, keepdim), x)
        share = best.to(g.dtype)
        return (spread(g / share.sum(dim, keepdim=keepdim), x, dim, keepdim) * share,)

    samples = staticmethod(samples_reduction)


class Amax(_Extreme):
    """The largest element over dimensions."""

    numpy = staticmethod(lambda x, *, dim, keepdim: np.max(x, axis=dim, keepdims=keepdim))


class Amin(_Extreme):
    """The smallest element over dimensions."""

    numpy = staticmethod(lambda x, *, dim, keepdim: np.min(x, axis=dim, keepdims=keepdim))


@method
def sum(
    input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: dtype | None = None, out: Tensor | None = None
) -> Tensor:
    """The sum of all elements, or over the dimensions in `dim`."""
    if dtype is not None:
        input = input.to(as_dtype(dtype))
    dims = normalize_dims(dim, input.ndim, "sum")
    return ops.deliver(apply(Sum, (input,), {"dim": dims, "keepdim": keepdim}), out)


@method
def mean(
    input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: dtype | None = None, out: Tensor | None = None
) -> Tensor:
    """The mean of all elements, or over the dimensions in `dim`."""
    if dtype is not None:
        input = input.to(as_dtype(dtype))
    dims = normalize_dims(dim, input.ndim, "mean")
    return ops.deliver(apply(Mean, (input,), {"dim": dims, "keepdim": keepdim}), out)


@method
def amax(input: Tensor, dim: Dims = (), keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The largest element over dimensions; equal ones share the gradient."""
    return ops.deliver(apply(Amax, (input,), {"dim": normalize_dims(dim, input.ndim, "amax"), "keepdim": keepdim}), out)


@method
def amin(input: Tensor, dim: Dims = (), keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The smallest element over dimensions; equal ones share the gradient."""
    return ops.deliver(apply(Amin, (input,), {"dim": normalize_dims(dim, input.ndim, "amin"), "keepdim": keepdim}), out)
