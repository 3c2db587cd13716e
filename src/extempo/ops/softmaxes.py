"""Exponentials that are made to sum to one, and the logarithm of their sum.

Every kernel takes the largest element away first, so exp() sees nothing above 0. Half precision is computed in float32
and rounded once. Where a whole slice is -inf the softmax is 0/0 and so NaN, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import ops
from .._methods import method
from .._tensor import Tensor
from ..errors import DtypeError
from ..op import Op, Reduction, Rng, Sample
from ..running import apply
from ..storage import Array
from ..types import TensorType, as_dtype, dtype, get_default_dtype, normalize_dims
from .define import numpy_names
from .reduce import Dims, along, reduced_shape, samples_reduction, spread, wide

__all__ = ["log_softmax", "logsumexp", "softmax"]


class _Normalised(Op, abstract=True):
    """A function of a slice along one dimension that keeps its shape; only the result is saved."""

    family = "normalization"
    saves = ("y",)

    @classmethod
    def infer(cls, x: TensorType, *, dim: int) -> TensorType:
        if not x.dtype.is_floating_point:
            raise DtypeError(
                f"{cls.name}: expected a floating tensor, got {x.dtype}; use x.float(), or pass dtype=ex.float32"
            )
        return x

    @classmethod
    def batch(cls, size: int, x: Any, *, dim: int) -> Any:
        return apply(cls, (x,), {"dim": dim + 1})

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(3, 4)), dim=1)
        yield Sample(rng.normal(size=(2, 3, 4)), dim=1)
        yield Sample(rng.normal(size=(4, 3)).T, dim=0)
        yield Sample(rng.normal(size=(3,)) + 1000.0, dim=0)  # exp() of these overflows
        yield Sample(np.empty((2, 0)), dim=1)
        yield Sample(np.empty((0, 2)), dim=1)


def _below_zero(x: Array, dim: int) -> Array:
    """x minus its maximum along dim, in fresh memory of the dtype to compute in."""
    x = np.asarray(x, wide(x))
    return x - x.max(axis=dim, keepdims=True, initial=-np.inf)


class Softmax(_Normalised):
    """exp(x) / sum(exp(x)) along a dimension."""

    @staticmethod
    def numpy(x: Array, *, dim: int) -> Array:
        y = _below_zero(x, dim)
        np.exp(y, out=y)
        y /= y.sum(axis=dim, keepdims=True)
        return y

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Any, *, dim: int) -> tuple[Any, ...]:
        return (_softmax_backward_data(g, y, dim, x.dtype),)


class LogSoftmax(_Normalised):
    """log(softmax(x)) along a dimension, exact where softmax would round to 0."""

    @staticmethod
    def numpy(x: Array, *, dim: int) -> Array:
        y = _below_zero(x, dim)
        y -= np.log(np.exp(y).sum(axis=dim, keepdims=True))
        return y

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Any, *, dim: int) -> tuple[Any, ...]:
        return (g - ops.exp(y) * g.sum(dim, keepdim=True),)


class Logsumexp(Reduction):
    """log(sum(exp(x))) over dimensions."""

    saves = ("y x",)

    @staticmethod
    def infer(x: TensorType, *, dim: tuple[int, ...], keepdim: bool) -> TensorType:
        return TensorType(reduced_shape(x.shape, dim, keepdim), x.dtype)

    @staticmethod
    def numpy(x: Array, *, dim: tuple[int, ...], keepdim: bool) -> Any:
        x = np.asarray(x, wide(x))
        top = x.max(axis=dim, keepdims=True, initial=-np.inf)
        top = np.where(np.isinf(top), 0.0, top)  # inf - inf would be NaN where the answer is that infinity
        y = np.log(np.exp(x - top).sum(axis=dim, keepdims=True)) + top
        return y.reshape(reduced_shape(x.shape, dim, keepdim))

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor, *, dim: tuple[int, ...], keepdim: bool) -> tuple[Any, ...]:
        return (spread(g, x, dim, keepdim) * ops.exp(x - spread(y, x, dim, keepdim)),)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield from samples_reduction(rng)
        yield Sample(rng.normal(size=(3, 2)) + 1000.0, dim=(0,), keepdim=False)  # exp() of these overflows
        yield Sample(np.empty((0, 2)), dim=(1,), keepdim=False)


def _normalised(op: type[Op], input: Tensor, dim: int, dtype: dtype | None, out: Tensor | None) -> Tensor:
    if dtype is not None:
        input = input.to(as_dtype(dtype))
    return ops.deliver(along(op, input, dim, {}), out)


@method
@numpy_names
def softmax(input: Tensor, dim: int, dtype: dtype | None = None, *, out: Tensor | None = None) -> Tensor:
    """exp(input) / sum(exp(input)) along `dim`: positive numbers that sum to 1.

    >>> ex.softmax(ex.tensor([0.0, 0.0, 1.0]), dim=0)
    tensor([0.2119, 0.2119, 0.5761])
    """
    return _normalised(Softmax, input, dim, dtype, out)


@method
@numpy_names
def log_softmax(input: Tensor, dim: int, dtype: dtype | None = None, *, out: Tensor | None = None) -> Tensor:
    """log(softmax(input, dim)), without its rounding to log(0).

    >>> ex.log_softmax(ex.tensor([0.0, 1000.0]), dim=0)
    tensor([-1000.,     0.])
    """
    return _normalised(LogSoftmax, input, dim, dtype, out)


@method
@numpy_names
def logsumexp(input: Tensor, dim: Dims, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """log(sum(exp(input))) over the dimensions in `dim`, without overflow; integers give floats.

    >>> ex.logsumexp(ex.tensor([100.0, 100.0]), dim=0)
    tensor(100.6931)
    """
    if not input.is_floating_point():
        input = input.to(get_default_dtype())
    dims = normalize_dims(dim, input.ndim, "logsumexp")
    return ops.deliver(apply(Logsumexp, (input,), {"dim": dims, "keepdim": keepdim}), out)


def _softmax_backward_data(grad_output: Tensor, output: Tensor, dim: int, input_dtype: dtype) -> Tensor:
    """The gradient of softmax with respect to its input, from its result."""
    weighted = grad_output * output
    return (weighted - output * weighted.sum(dim, keepdim=True)).to(input_dtype)


def _safe_softmax(input: Tensor, dim: int, dtype: dtype | None = None) -> Tensor:
    """softmax, but 0 where a whole slice is -inf."""
    dead = ops.eq(input, -float("inf")).all(dim, keepdim=True)
    return ops.where(dead, 0.0, softmax(ops.where(dead, 0.0, input), dim, dtype))
