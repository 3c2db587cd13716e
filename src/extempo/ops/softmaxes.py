"""Exponentials that are made to sum to one, and the logarithm of their sum.

Every kernel takes the largest element away first, so exp() sees nothing above 0. Half precision is computed in float32
and rounded once. Where a whole slice is -inf the softmax is 0/0 and so NaN, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import ops
from ..core.op import GRADIENTS_ONLY, IN_GRADIENTS_ONLY, Op, Reduction, Rng, Routine, Sample
from ..core.storage import Array
from ..core.tensor import Tensor
from ..core.types import TensorType, as_dtype, dtype, float32, get_default_dtype, normalize_dim, normalize_dims
from ..dispatch.dispatcher import apply
from ..dispatch.inline_cache import cached_by_types
from ..errors import DtypeError
from .define import numpy_method
from .reduce import Dims, along, reduced_shape, samples_reduction, wide, widened

if TYPE_CHECKING:
    from ..ragged_tensors.rows import Rows

__all__ = ["log_softmax", "logsumexp", "softmax"]


class _Normalised(Op, abstract=True):
    """A function of a slice along one dimension that keeps its shape; only the result is saved."""

    family = "normalization"
    saves = ("y",)
    batch = "shift_dim"

    @classmethod
    def infer(cls, x: TensorType, *, dim: int) -> TensorType:
        if not x.dtype.is_floating_point:
            raise DtypeError(
                f"{cls.name}: expected a floating tensor, got {x.dtype}; use x.float(), or pass dtype=ex.float32"
            )
        return x

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

    lower = Routine("softmax")
    ragged = staticmethod(lambda rows, x: apply(ops.segments.SegmentSoftmax, (x, *rows.segments)))
    vjp = staticmethod(lambda g, y, x, *, dim: (apply(SoftmaxBackward, (g, y), {"dim": dim}),))

    @staticmethod
    def numpy(x: Array, *, dim: int) -> Array:
        y = _below_zero(x, dim)
        np.exp(y, out=y)
        y /= y.sum(axis=dim, keepdims=True)
        return y

    onnx = staticmethod(lambda b, x, *, dim: b.Softmax(x, axis=dim))


class LogSoftmax(_Normalised):
    """log(softmax(x)) along a dimension, exact where softmax would round to 0."""

    lower = Routine("log_softmax")
    ragged = staticmethod(lambda rows, x: apply(ops.segments.SegmentLogSoftmax, (x, *rows.segments)))
    vjp = staticmethod(lambda g, y, x, *, dim: (apply(LogSoftmaxBackward, (g, y), {"dim": dim}),))

    @staticmethod
    def numpy(x: Array, *, dim: int) -> Array:
        y = _below_zero(x, dim)
        y -= np.log(np.exp(y).sum(axis=dim, keepdims=True))
        return y

    onnx = staticmethod(lambda b, x, *, dim: b.LogSoftmax(x, axis=dim))


class _NormalisedBackward(Op, abstract=True):
    """The gradient of a function of slices, from the cotangent g of its result y and that result."""

    family = "normalization"
    saves = ("y", "g y")
    batch = "shift_dim"
    infer = staticmethod(lambda g, y, *, dim: y)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(3, 4)), rng.normal(size=(3, 4)), dim=1)
        yield Sample(rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 3, 4)), dim=1)
        yield Sample(np.empty((2, 0)), np.empty((2, 0)), dim=1)

    onnx = GRADIENTS_ONLY


class SoftmaxBackward(_NormalisedBackward):
    """(g - sum(g * y)) * y along a dimension: the gradient of softmax from its result y."""

    lower = Routine("softmax_backward")
    ragged = staticmethod(lambda rows, g, y: apply(ops.segments.SegmentSoftmaxBackward, (g, y, *rows.segments)))

    @staticmethod
    def numpy(g: Array, y: Array, *, dim: int) -> Any:
        g, y = widened(g, y)
        return (g - (g * y).sum(axis=dim, keepdims=True)) * y

    @staticmethod
    def vjp(h: Tensor, _: Any, g: Any, y: Tensor, *, dim: int) -> tuple[Any, ...]:
        def into_y() -> Tensor:
            return h * (g - (g * y).sum(dim, keepdim=True)) - g * (h * y).sum(dim, keepdim=True)

        return apply(SoftmaxBackward, (h, y), {"dim": dim}), into_y


class LogSoftmaxBackward(_NormalisedBackward):
    """g - exp(y) * sum(g) along a dimension: the gradient of log_softmax from its result y."""

    lower = Routine("log_softmax_backward")
    ragged = staticmethod(lambda rows, g, y: apply(ops.segments.SegmentLogSoftmaxBackward, (g, y, *rows.segments)))

    @staticmethod
    def numpy(g: Array, y: Array, *, dim: int) -> Any:
        g, y = widened(g, y)
        return g - np.exp(y) * g.sum(axis=dim, keepdims=True)

    @staticmethod
    def vjp(h: Tensor, _: Any, g: Any, y: Tensor, *, dim: int) -> tuple[Any, ...]:
        into_g = h - (h * ops.exp(y)).sum(dim, keepdim=True)
        return into_g, lambda: -h * ops.exp(y) * g.sum(dim, keepdim=True)


class Logsumexp(Reduction):
    """log(sum(exp(x))) over dimensions."""

    saves = ("y x",)
    lower = Routine("logsumexp")
    infer = staticmethod(lambda x, *, dim, keepdim: TensorType(reduced_shape(x.shape, dim, keepdim), x.dtype))
    vjp = staticmethod(lambda g, y, x, *, dim, keepdim: (apply(LogsumexpBackward, (g, y, x), {"dim": dim}),))

    @staticmethod
    def numpy(x: Array, *, dim: tuple[int, ...], keepdim: bool) -> Any:
        x = np.asarray(x, wide(x))
        top = x.max(axis=dim, keepdims=True, initial=-np.inf)
        top = np.where(np.isinf(top), 0.0, top)  # inf - inf would be NaN where the answer is that infinity
        y = np.log(np.exp(x - top).sum(axis=dim, keepdims=True)) + top
        return y.reshape(reduced_shape(x.shape, dim, keepdim))

    @staticmethod
    def ragged(rows: Rows, x: Tensor) -> Tensor:
        values = x.to(float32) if x.dtype.itemsize == 2 else x
        top = apply(ops.segments.SegmentAmax, (values.detach(), *rows.segments))
        top = ops.where(ops.isinf(top), 0.0, top)  # as in the kernel
        below = values - ops.segments.segment_spread(top, *rows.segments)
        return (ops.log(ops.segments.segment_sum(ops.exp(below), *rows.segments)) + top).to(x.dtype)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield from samples_reduction(rng)
        yield Sample(rng.normal(size=(3, 2)) + 1000.0, dim=(0,), keepdim=False)  # exp() of these overflows
        yield Sample(np.empty((0, 2)), dim=(1,), keepdim=False)

    onnx = staticmethod(lambda b, x, *, dim, keepdim: b.reduce("ReduceLogSumExp", x, dim, keepdim))


class LogsumexpBackward(Op):
    """g * exp(x - y): the gradient of logsumexp over `dim`, from its result y, whose dimensions may be kept or not."""

    family = "reduction"
    saves = ("y x", "g y x", "g y x")
    lower = Routine("logsumexp_backward")
    ragged = IN_GRADIENTS_ONLY
    infer = staticmethod(lambda g, y, x, *, dim: x)

    @staticmethod
    def numpy(g: Array, y: Array, x: Array, *, dim: tuple[int, ...]) -> Any:
        kept = reduced_shape(x.shape, dim, True)
        g, y, x = widened(g, y, x)
        return g.reshape(kept) * np.exp(x - y.reshape(kept))

    @staticmethod
    def vjp(h: Tensor, _: Any, g: Any, y: Tensor, x: Tensor, *, dim: tuple[int, ...]) -> tuple[Any, ...]:
        kept = reduced_shape(x._type.shape, dim, True)
        part = h * ops.exp(x - y.reshape(kept))

        def into_g() -> Tensor:
            return part.sum(dim).reshape(g.shape)

        def into_y() -> Tensor:
            return -(part * g.reshape(kept)).sum(dim).reshape(g.shape)

        return into_g, into_y, lambda: part * g.reshape(kept)

    @staticmethod
    def batch(size: int, g: Tensor, y: Tensor, x: Tensor, *, dim: tuple[int, ...]) -> Tensor:
        if x.ndim == 1:  # the one element of each sample, as a dimension to reduce
            return apply(LogsumexpBackward, (g, y, x.unsqueeze(1)), {"dim": (1,)}).squeeze(1)
        return apply(LogsumexpBackward, (g, y, x), {"dim": tuple(d + 1 for d in dim)})

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.normal(size=3), rng.normal(size=3), rng.normal(size=(3, 4)), dim=(1,))
        yield Sample(rng.normal(size=(1, 3, 1)), rng.normal(size=(1, 3, 1)), rng.normal(size=(2, 3, 4)), dim=(0, 2))
        yield Sample(rng.normal(size=()), rng.normal(size=()), rng.normal(size=()), dim=())

    onnx = GRADIENTS_ONLY


@cached_by_types
def normalised(op: type[Op], input: Tensor, dim: int, dtype: dtype | None, out: Tensor | None) -> Tensor:
    if dtype is not None:
        input = input.to(as_dtype(dtype))
    return ops.deliver(along(op, input, dim, {}), out)


@numpy_method
def softmax(input: Tensor, dim: int, dtype: dtype | None = None, *, out: Tensor | None = None) -> Tensor:
    """exp(input) / sum(exp(input)) along `dim`: positive numbers that sum to 1.

    >>> ex.softmax(ex.tensor([0.0, 0.0, 1.0]), dim=0)
    tensor([0.2119, 0.2119, 0.5761])
    """
    return normalised(Softmax, input, dim, dtype, out)


@numpy_method
def log_softmax(input: Tensor, dim: int, dtype: dtype | None = None, *, out: Tensor | None = None) -> Tensor:
    """log(softmax(input, dim)), without its rounding to log(0).

    >>> ex.log_softmax(ex.tensor([0.0, 1000.0]), dim=0)
    tensor([-1000.,     0.])
    """
    return normalised(LogSoftmax, input, dim, dtype, out)


@numpy_method
def logsumexp(input: Tensor, dim: Dims, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """log(sum(exp(input))) over the dimensions in `dim`, without overflow; integers give floats.

    >>> ex.logsumexp(ex.tensor([100.0, 100.0]), dim=0)
    tensor(100.6931)
    """
    if not input.is_floating_point():
        input = input.to(get_default_dtype())
    dims = normalize_dims(dim, input.ndim, "logsumexp")
    return ops.deliver_converted(apply(Logsumexp, (input,), {"dim": dims, "keepdim": keepdim}), out)


def _softmax_backward_data(grad_output: Tensor, output: Tensor, dim: int, input_dtype: dtype) -> Tensor:
    """The gradient of softmax with respect to its input, from its result."""
    d = normalize_dim(dim, output.ndim, "softmax_backward")
    if not output.ndim:
        grad_output, output = grad_output.reshape(1), output.reshape(1)
        return apply(SoftmaxBackward, (grad_output, output), {"dim": 0}).to(input_dtype).reshape(())
    return apply(SoftmaxBackward, (grad_output, output), {"dim": d}).to(input_dtype)


def _safe_softmax(input: Tensor, dim: int, dtype: dtype | None = None) -> Tensor:
    """softmax, but 0 where a whole slice is -inf."""
    dead = ops.eq(input, -float("inf")).all(dim, keepdim=True)
    return ops.where(dead, 0.0, softmax(ops.where(dead, 0.0, input), dim, dtype))
