"""One of several values for each element: extremes, bounds, conditions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import ops
from ..core.op import Elementwise, Rng, Sample, Signature, samples_binary
from ..core.tensor import Tensor
from ..core.tensor_methods import method
from ..core.types import InputType, TensorType, as_dtype, bool_, broadcast_shapes, finfo, result_dtype
from ..dispatch.dispatcher import apply
from ..errors import DtypeError, ShapeError
from .define import Operand, binary, deliver, deliver_converted, inplace_method

__all__ = [
    "clamp",
    "clamp_max",
    "clamp_min",
    "clip",
    "fmax",
    "fmin",
    "heaviside",
    "maximum",
    "minimum",
    "nan_to_num",
    "where",
]


def _share(g: Tensor, loses: Tensor, ties: Tensor) -> Tensor:
    """The gradient of the winner; equal elements take half each, and NaN (which nothing beats) all of it."""
    return where(loses, 0.0, where(ties, g * 0.5, g))


class Maximum(Elementwise):
    """The larger of both; NaN wins. Equal elements share the gradient.

    >>> ex.maximum(ex.tensor([1.0, ex.nan]), ex.tensor([3.0, 2.0]))
    tensor([3., nan])
    """

    numpy = np.maximum
    samples = staticmethod(samples_binary)
    lower = staticmethod(lambda e, a, b: e.maximum(a, b))

    @staticmethod
    def vjp(g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> tuple[Any, ...]:
        ties = ops.eq(a, b)
        return _share(g, ops.lt(a, b), ties), _share(g, ops.gt(a, b), ties)


class Minimum(Elementwise):
    """The smaller of both; NaN wins. Equal elements share the gradient.

    >>> ex.minimum(ex.tensor([1.0, ex.nan]), ex.tensor([3.0, 2.0]))
    tensor([1., nan])
    """

    numpy = np.minimum
    samples = staticmethod(samples_binary)
    lower = staticmethod(lambda e, a, b: e.minimum(a, b))

    @staticmethod
    def vjp(g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> tuple[Any, ...]:
        ties = ops.eq(a, b)
        return _share(g, ops.gt(a, b), ties), _share(g, ops.lt(a, b), ties)


class Fmax(Elementwise):
    """The larger of both; a number wins over NaN.

    >>> ex.fmax(ex.tensor([1.0, ex.nan]), ex.tensor([3.0, 2.0]))
    tensor([3., 2.])
    """

    numpy = np.fmax
    samples = staticmethod(samples_binary)
    lower = staticmethod(lambda e, a, b: e.fmax(a, b))

    @staticmethod
    def vjp(g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> tuple[Any, ...]:
        first = ops.logical_or(ops.ge(a, b), ops.isnan(b))
        return where(first, g, 0.0), where(first, 0.0, g)


class Fmin(Elementwise):
    """The smaller of both; a number wins over NaN.

    >>> ex.fmin(ex.tensor([1.0, ex.nan]), ex.tensor([3.0, 2.0]))
    tensor([1., 2.])
    """

    numpy = np.fmin
    samples = staticmethod(samples_binary)
    lower = staticmethod(lambda e, a, b: e.fmin(a, b))

    @staticmethod
    def vjp(g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> tuple[Any, ...]:
        first = ops.logical_or(ops.le(a, b), ops.isnan(b))
        return where(first, g, 0.0), where(first, 0.0, g)


class Clamp(Elementwise):
    """Each element limited to [min, max]; either bound may be None. Inside, bounds included, the gradient passes."""

    domain = "bif"
    takes_none = True

    @staticmethod
    def numpy(x: Any, low: Any, high: Any) -> Any:
        if low is not None:
            x = np.maximum(x, low)
        return x if high is None else np.minimum(x, high)

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor, low: Any, high: Any) -> tuple[Any, ...]:
        inside = ops.ge(x, low) if low is not None else ops.le(x, high)
        if low is not None and high is not None:
            inside = ops.logical_and(inside, ops.le(x, high))
        dlow = None if low is None else where(_below(x, low, high), g, 0.0)
        dhigh = None if high is None else where(_above(x, low, high), g, 0.0)
        return where(inside, g, 0.0), dlow, dhigh

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        x = rng.uniform(-2, 2, size=(3, 4))
        yield Sample(x, -1.0, 1.0)
        yield Sample(x, None, 0.5)
        yield Sample(x, rng.uniform(-1, 0, size=(4,)), rng.uniform(0, 1, size=(3, 1)))
        yield Sample(np.empty((0,)), 0.0, None)

    @staticmethod
    def lower(e: Any, x: Any, low: Any, high: Any) -> Any:
        if low is not None:
            x = e.maximum(x, low)
        return x if high is None else e.minimum(x, high)


def _below(x: Tensor, low: Any, high: Any) -> Tensor:
    below = ops.lt(x, low)
    return below if high is None else ops.logical_and(below, ops.lt(low, high))


def _above(x: Tensor, low: Any, high: Any) -> Tensor:
    above = ops.gt(x, high)
    # Where the bounds cross, the upper one is the result whatever x is.
    return above if low is None else ops.logical_or(above, ops.gt(low, high))


class Where(Elementwise):
    """Elements of `input` where the condition holds, of `other` elsewhere."""

    name = "where"
    quiet = True
    numpy = np.where
    vjp = staticmethod(lambda g, y, condition, a, b: (None, where(condition, g, 0.0), where(condition, 0.0, g)))
    lower = staticmethod(lambda e, condition, a, b: e.where(condition, a, b))

    @classmethod
    def _rule(cls, types: tuple[InputType, ...]) -> tuple[TensorType, Any]:
        condition, *choices = types
        is_truth = (
            condition.dtype in (bool_, as_dtype("uint8")) if isinstance(condition, TensorType) else condition is bool
        )
        if not is_truth:
            raise DtypeError(f"where: expected a bool condition, got {condition}; compare first, e.g. x > 0")
        if type(None) in choices:
            raise DtypeError("where: expected tensors or numbers, got None")
        try:
            shape = broadcast_shapes(*[t.shape for t in types if isinstance(t, TensorType)])
            compute = result_dtype(choices)
        except (DtypeError, ShapeError) as error:
            raise type(error)(f"where: {error}") from None
        return TensorType(shape, compute), compute

    @classmethod
    def signature(cls, types: tuple[InputType, ...], attrs: dict[str, Any]) -> Signature:
        out, compute = cls._rule(types)
        fits = all(isinstance(t, TensorType) and t.dtype is compute for t in types[1:])
        return Signature(out, None if fits else compute.numpy)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.random((3, 4)) > 0.5, rng.normal(size=(3, 4)), rng.normal(size=(4,)))
        yield Sample(rng.random((3, 1)) > 0.5, 1.5, rng.normal(size=(3, 2)))


maximum, minimum, fmax, fmin = binary(Maximum), binary(Minimum), binary(Fmax), binary(Fmin)


@method
def clamp(
    input: Tensor, min: Operand | None = None, max: Operand | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Each element limited to [min, max]; at least one bound must be given.

    >>> ex.clamp(ex.tensor([-2.0, 0.5, 3.0]), min=-1, max=1)
    tensor([-1.0000,  0.5000,  1.0000])
    """
    if min is None and max is None:
        raise ShapeError("clamp: give at least one of min and max")
    return deliver_converted(apply(Clamp, (input, min, max)), out, input, min, max)


clip = method(clamp, "clip")
inplace_method("clamp_", clamp)
inplace_method("clip_", clamp)


@method
def clamp_min(input: Tensor, min: Operand, *, out: Tensor | None = None) -> Tensor:
    """Each element at least `min`.

    >>> ex.clamp_min(ex.tensor([-2.0, 0.5, 3.0]), -1)
    tensor([-1.0000,  0.5000,  3.0000])
    """
    return clamp(input, min=min, out=out)


@method
def clamp_max(input: Tensor, max: Operand, *, out: Tensor | None = None) -> Tensor:
    """Each element at most `max`.

    >>> ex.clamp_max(ex.tensor([-2.0, 0.5, 3.0]), 1)
    tensor([-2.0000,  0.5000,  1.0000])
    """
    return clamp(input, max=max, out=out)


inplace_method("clamp_min_", clamp_min)
inplace_method("clamp_max_", clamp_max)


def where(condition: Tensor, input: Any = None, other: Any = None, *, out: Tensor | None = None) -> Any:
    """Elements of `input` where the condition holds, of `other` elsewhere; of the condition alone, its indices.

    >>> x = ex.tensor([-1.0, 2.0])
    >>> ex.where(x > 0, x, 0.0)
    tensor([0., 2.])
    """
    if input is None and other is None:
        return condition.nonzero(as_tuple=True)
    return deliver(apply(Where, (condition, input, other)), out, condition, input, other)


def _where_method(self: Tensor, condition: Tensor, other: Operand) -> Tensor:
    """This tensor where the condition holds, `other` elsewhere."""
    return apply(Where, (condition, self, other))


method(_where_method, "where")


@method
def heaviside(input: Tensor, values: Tensor, *, out: Tensor | None = None) -> Tensor:
    """0 below zero, 1 above, and `values` at zero; it has no gradient.

    >>> ex.heaviside(ex.tensor([-2.0, 0.0, 3.0]), ex.tensor([0.5]))
    tensor([0.0000, 0.5000, 1.0000])
    """
    if not (isinstance(input, Tensor) and isinstance(values, Tensor)):
        kinds = f"{type(input).__name__} and {type(values).__name__}"
        raise DtypeError(f"heaviside: expected two tensors, got {kinds}; make tensors with ex.tensor(...)")
    if input.dtype is not values.dtype:
        raise DtypeError(
            f"heaviside: expected both of one dtype, got {input.dtype} and {values.dtype}; convert with .to()"
        )
    step = ops.gt(input, 0).to(input.dtype)
    return deliver(where(ops.eq(input, 0), values.detach(), step), out, input, values)


@method
def nan_to_num(
    input: Tensor,
    nan: float | None = None,
    posinf: float | None = None,
    neginf: float | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """NaN and infinities replaced: by 0, and by the largest and smallest number of the dtype, unless given.

    >>> ex.nan_to_num(ex.tensor([1.0, ex.nan, ex.inf]), posinf=9.0)
    tensor([1., 0., 9.])
    """
    if not input.is_floating_point():
        return deliver(input.clone(), out, input)
    limits = finfo(input.dtype)
    result = where(ops.isnan(input), 0.0 if nan is None else nan, input)
    result = where(ops.eq(result, math.inf), limits.max if posinf is None else posinf, result)
    return deliver(where(ops.eq(result, -math.inf), limits.min if neginf is None else neginf, result), out, input)


inplace_method("heaviside_", heaviside)
inplace_method("nan_to_num_", nan_to_num)
