"""Standardize: what layer, batch, group, instance and root-mean-square norm are made of, and its gradient.

Statistics of half-precision inputs are float32.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import ops
from ..core.op import GRADIENTS_ONLY, IN_GRADIENTS_ONLY, Op, Rng, Routine, Sample
from ..core.storage import Array
from ..core.tensor import Tensor
from ..core.types import InputType, TensorType, count, float32
from ..dispatch.dispatcher import apply
from .reduce import widened


class Standardize(Op):
    """Zero mean and unit variance over `dims`, then scaled and shifted: y, and the mean and variance it had before.

    weight and bias broadcast against x or are None. The variance is that of the elements (no correction). Unless
    `centred`, the mean is taken to be 0, and the variance is the mean square.
    """

    public_name = "batch_norm, layer_norm or the like"
    family = "reduction"
    materialize = False
    saves = ("y.1 y.2 x weight", "y.1 y.2 x weight", "", "")
    lower = Routine("standardize")
    ragged = "layers.standardize"

    @staticmethod
    def infer(
        x: TensorType, weight: InputType, bias: InputType, eps: InputType, *, dims: tuple[int, ...], centred: bool
    ) -> tuple[TensorType, ...]:
        stats = TensorType(tuple(1 if d in dims else s for d, s in enumerate(x.shape)), statistics_dtype(x.dtype))
        return x, stats, stats

    @staticmethod
    def numpy(
        x: Array, weight: Any, bias: Any, eps: float, *, dims: tuple[int, ...], centred: bool
    ) -> tuple[Array, Array, Array]:
        (wide,) = widened(x)
        n = wide.dtype.type(count(x.shape[d] for d in dims))
        mean = wide.sum(dims, keepdims=True) / n
        if not centred:
            mean = np.zeros_like(mean)
        y = wide - mean
        variance = np.square(y).sum(dims, keepdims=True) / n
        y *= 1 / np.sqrt(variance + wide.dtype.type(eps))
        if weight is not None:
            y *= weight.astype(wide.dtype, copy=False)
        if bias is not None:
            y += bias.astype(wide.dtype, copy=False)
        return y.astype(x.dtype, copy=False), mean, variance

    @staticmethod
    def vjp(
        g: Any, y: Any, x: Any, weight: Any, bias: Any, eps: Any, *, dims: tuple[int, ...], centred: bool
    ) -> tuple[Any, ...]:
        gy, gmean, gvariance = g
        _, mean, variance = y
        n = count(x.shape[d] for d in dims)

        @functools.cache
        def gradients() -> Any:
            found = apply(StandardizeBackward, (gy, x, mean, variance, weight, eps), {"dims": dims, "centred": centred})
            return (found,) if weight is None else found

        def into_x() -> Any:
            parts = [] if gy is None else [gradients()[0]]
            if gmean is not None and centred:
                parts.append((gmean / n).expand(x.shape))
            if gvariance is not None:
                parts.append((x - mean if centred else x) * (gvariance * (2 / n)))
            return functools.reduce(ops.add, parts) if parts else None

        if gy is None:
            return into_x, None, None, None
        # The bias alone needs no saved values, and then there are none.
        together = isinstance(x, Tensor) and weight is not None and bias is not None and bias.shape == weight.shape
        return into_x, lambda: gradients()[1], (lambda: gradients()[2]) if together else gy, None

    @staticmethod
    def batch(size: int, x: Tensor, weight: Any, bias: Any, eps: Any, *, dims: tuple[int, ...], centred: bool) -> Any:
        attrs = {"dims": tuple(d + 1 for d in dims), "centred": centred}
        return apply(Standardize, (x, _aligned(weight, x.ndim), _aligned(bias, x.ndim), eps), attrs)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        def draw(*shape: int) -> Array:
            return rng.normal(size=shape)

        yield Sample(draw(3, 4), draw(4), draw(4), 1e-5, dims=(1,), centred=True)
        yield Sample(draw(2, 3, 4), draw(3, 1), draw(3, 1), 0.1, dims=(0, 2), centred=True)
        yield Sample(draw(2, 3, 2), None, None, 1e-5, dims=(1, 2), centred=True)
        yield Sample(draw(3, 4), None, draw(4), 1e-5, dims=(1,), centred=True)
        yield Sample(draw(3, 4), draw(4), None, 1e-5, dims=(1,), centred=False)
        yield Sample(draw(4, 3), draw(3), draw(3), 0.1, dims=(0,), centred=True)
        yield Sample(np.empty((0, 4)), draw(4), None, 1e-5, dims=(1,), centred=True)

    @staticmethod
    def onnx(
        b: Any, x: Any, weight: Any, bias: Any, eps: float, *, dims: tuple[int, ...], centred: bool
    ) -> tuple[Any, Any, Any]:
        x = b.cast(x, statistics_dtype(x.dtype))
        mean = b.reduce("ReduceMean", x, dims, True)
        mean = mean if centred else b.Mul(mean, 0.0)
        y = b.Sub(x, mean) if centred else x
        variance = b.reduce("ReduceMean", b.Mul(y, y), dims, True)
        y = b.Div(y, b.Sqrt(b.Add(variance, eps)))
        y = y if weight is None else b.Mul(y, b.cast(weight, y.dtype))
        return y if bias is None else b.Add(y, b.cast(bias, y.dtype)), mean, variance


class StandardizeBackward(Op):
    """The gradients of `Standardize` with respect to x and, where there are weights, to weight and bias.

    From the cotangent g of its first result, and the mean (read only if `centred`) and variance that it found.
    """

    family = "reduction"
    materialize = False
    saves = ("x mean variance weight", *("g x mean variance weight",) * 4, "")
    lower = Routine("standardize_backward")
    ragged = IN_GRADIENTS_ONLY

    @staticmethod
    def infer(
        g: TensorType,
        x: TensorType,
        mean: TensorType,
        variance: TensorType,
        weight: InputType,
        eps: InputType,
        **attrs: Any,
    ) -> Any:
        return (x, weight, weight) if isinstance(weight, TensorType) else x

    @staticmethod
    def numpy(
        g: Array,
        x: Array,
        mean: Array,
        variance: Array,
        weight: Any,
        eps: float,
        *,
        dims: tuple[int, ...],
        centred: bool,
    ) -> Any:
        n = mean.dtype.type(count(x.shape[d] for d in dims))
        scale = 1 / np.sqrt(variance + mean.dtype.type(eps))
        wide_x, wide = widened(x, g)
        z = (wide_x - mean if centred else wide_x) * scale
        weighted = wide if weight is None else wide * weight.astype(wide.dtype, copy=False)
        into_x = weighted - z * ((weighted * z).sum(dims, keepdims=True) / n)
        if centred:
            into_x -= weighted.sum(dims, keepdims=True) / n
        into_x = (into_x * scale).astype(x.dtype, copy=False)
        if weight is None:
            return into_x
        return into_x, *(_summed_to(t, weight.shape).astype(weight.dtype, copy=False) for t in (wide * z, wide))

    @staticmethod
    def vjp(
        h: Any,
        y: Any,
        g: Any,
        x: Any,
        mean: Any,
        variance: Any,
        weight: Any,
        eps: Any,
        *,
        dims: tuple[int, ...],
        centred: bool,
    ) -> tuple[Any, ...]:
        into_x, into_weight, into_bias = (h, None, None) if weight is None else h

        @functools.cache
        def scale() -> Tensor:
            return ops.rsqrt(variance + eps)

        @functools.cache
        def distance() -> Tensor:
            return x - mean if centred else x

        @functools.cache
        def z() -> Tensor:
            return distance() * scale()

        @functools.cache
        def through() -> Any:
            """The gradient is linear in g times weight, and its own adjoint."""
            attrs = {"dims": dims, "centred": centred}
            return apply(StandardizeBackward, (into_x, x, mean, variance, None, eps), attrs)

        @functools.cache
        def of_z() -> Any:
            parts = []
            if into_x is not None:
                weighted = g if weight is None else g * weight
                along, across = ((t * z()).mean(dims, keepdim=True) for t in (weighted, into_x))
                parts.append(-scale() * (into_x * along + weighted * across))
            if into_weight is not None:
                parts.append(g * into_weight)
            return functools.reduce(ops.add, parts) if parts else None

        def of_g() -> Any:
            parts = [] if into_x is None else [through() if weight is None else through() * weight]
            if into_weight is not None:
                parts.append(z() * into_weight)
            if into_bias is not None:
                parts.append(into_bias.expand(g.shape))
            return functools.reduce(ops.add, parts) if parts else None

        def of_x() -> Any:
            return None if of_z() is None else of_z() * scale()

        def of_mean() -> Any:
            return None if of_z() is None else -(of_z() * scale()).sum(dims, keepdim=True)

        def of_variance() -> Any:
            """Through the scale: once in front, once in z."""
            parts = [] if of_z() is None else [(of_z() * distance()).sum(dims, keepdim=True)]
            if into_x is not None:
                weighted = g if weight is None else g * weight
                parts.append((through() * weighted).sum(dims, keepdim=True) / scale())
            return functools.reduce(ops.add, parts) * (scale() * scale() * scale() * -0.5) if parts else None

        def of_weight() -> Any:
            return None if into_x is None else through() * g

        return of_g, of_x, of_mean if centred else None, of_variance, None if weight is None else of_weight, None

    @staticmethod
    def batch(
        size: int,
        g: Tensor,
        x: Tensor,
        mean: Tensor,
        variance: Tensor,
        weight: Any,
        eps: Any,
        *,
        dims: tuple[int, ...],
        centred: bool,
    ) -> Any:
        attrs = {"dims": tuple(d + 1 for d in dims), "centred": centred}
        if weight is None:
            return apply(StandardizeBackward, (g, x, mean, variance, None, eps), attrs)
        into_x, *others = apply(StandardizeBackward, (g, x, mean, variance, _aligned(weight, x.ndim), eps), attrs)
        return into_x, *(t.reshape(weight.shape) for t in others)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        def call(shape: tuple[int, ...], dims: tuple[int, ...], weight: Any, centred: bool = True) -> Sample:
            g, x = rng.normal(size=shape), rng.normal(size=shape)
            mean = x.mean(dims, keepdims=True) * centred
            variance = np.square(x - mean).mean(dims, keepdims=True)
            return Sample(g, x, mean, variance, weight, 0.1, dims=dims, centred=centred)

        yield call((3, 4), (1,), rng.normal(size=4))
        yield call((2, 3, 4), (0, 2), rng.normal(size=(3, 1)))
        yield call((3, 4), (1,), None)
        yield call((3, 4), (1,), rng.normal(size=4), centred=False)
        yield call((0, 4), (1,), rng.normal(size=4))

    onnx = GRADIENTS_ONLY


def _aligned(t: Any, ndim: int) -> Any:
    """A batch of weights, whose new dimension must meet that of a batch of inputs with `ndim` dimensions."""
    return t if t is None else t.reshape(t.shape[0], *(1,) * (ndim - t.ndim), *t.shape[1:])


def _summed_to(x: Array, shape: tuple[int, ...]) -> Array:
    """Summed over the dimensions along which `shape` is broadcast."""
    extra = x.ndim - len(shape)
    dims = (*range(extra), *(d for d, s in enumerate(shape, extra) if s == 1 and x.shape[d] != 1))
    total: Array = x.sum(dims)
    return total.reshape(shape)


def statistics_dtype(d: Any) -> Any:
    """The dtype of means and variances of a floating tensor."""
    return float32 if d.itemsize == 2 else d
