"""Arithmetic on each element: sums, products, signs and straight lines."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import ops
from ..core.op import Elementwise, Rng, Sample, samples_binary, samples_unary
from ..core.tensor import Tensor
from ..core.tensor_methods import TensorMethods, method
from ..core.types import bool_, get_default_dtype, result_dtype
from ..dispatch.dispatcher import apply
from ..errors import DtypeError
from . import old_forms
from .define import Function, Operand, binary, deliver, deliver_converted, inplace_method, operators, unary

__all__ = [
    "abs",
    "absolute",
    "add",
    "addcmul",
    "angle",
    "conj",
    "conj_physical",
    "lerp",
    "mul",
    "multiply",
    "neg",
    "negative",
    "positive",
    "real",
    "resolve_conj",
    "resolve_neg",
    "rsub",
    "sgn",
    "sign",
    "sub",
    "subtract",
]

Array = np.ndarray[Any, Any]


class Add(Elementwise):
    """input + other, element by element."""

    numpy = np.add
    samples = staticmethod(samples_binary)
    vjp = staticmethod(lambda g, y, a, b: (g, g))
    lower = staticmethod(lambda e, a, b: e.add(a, b))


class Sub(Elementwise):
    """input - other, element by element."""

    domain = "if"
    numpy = np.subtract
    samples = staticmethod(samples_binary)
    vjp = staticmethod(lambda g, y, a, b: (g, -g))
    lower = staticmethod(lambda e, a, b: e.sub(a, b))


class Mul(Elementwise):
    """input * other, element by element.

    >>> ex.mul(ex.tensor([1.0, 2.0]), ex.tensor([[3.0], [4.0]]))
    tensor([[3., 6.],
            [4., 8.]])
    """

    wide_numbers = True
    numpy = np.multiply
    samples = staticmethod(samples_binary)
    vjp = staticmethod(lambda g, y, a, b: (g * b, g * a))
    lower = staticmethod(lambda e, a, b: e.mul(a, b))


class Neg(Elementwise):
    """-input.

    >>> ex.neg(ex.tensor([1.0, -2.0]))
    tensor([-1.,  2.])
    """

    domain = "if"
    quiet = True
    numpy = np.negative
    samples = staticmethod(samples_unary)
    vjp = staticmethod(lambda g, y, x: (-g,))
    lower = staticmethod(lambda e, x: e.neg(x))


class Zero(Elementwise):
    """Zeros in the shape of the input: the gradient of everything piecewise constant."""

    quiet = True
    numpy = np.zeros_like
    samples = staticmethod(samples_unary)
    vjp = staticmethod(lambda g, y, x: (zero(g),))
    lower = staticmethod(lambda e, x: e.number(0, x))


def zero(x: Tensor) -> Tensor:
    """Zeros in the shape of x."""
    return apply(Zero, (x,))


class Abs(Elementwise):
    """The absolute value; its gradient at 0 is 0.

    >>> ex.abs(ex.tensor([-1.5, 2.0]))
    tensor([1.5000, 2.0000])
    """

    domain = "if"
    quiet = True
    numpy = np.absolute
    samples = staticmethod(samples_unary)
    vjp = staticmethod(lambda g, y, x: (g * sign(x),))
    lower = staticmethod(lambda e, x: e.abs(x))


class Sign(Elementwise):
    """-1, 0 or 1 by the sign of each element; NaN gives 0.

    >>> ex.sign(ex.tensor([-3.0, 0.0, 0.5]))
    tensor([-1.,  0.,  1.])
    """

    vjp = staticmethod(lambda g, y, x: (zero(g),))
    lower = staticmethod(lambda e, x: e.sign(x))

    @staticmethod
    def numpy(x: Array) -> Array:
        return np.greater(x, 0).astype(x.dtype) - np.less(x, 0).astype(x.dtype) if x.dtype != np.bool_ else x.copy()

    samples = staticmethod(samples_unary)


class Lerp(Elementwise):
    """From `input` (weight 0) to `end` (weight 1) in a straight line; both ends are met exactly."""

    domain = "f"
    vjp = staticmethod(lambda g, y, x, end, weight: (g - g * weight, g * weight, g * (end - x)))

    @staticmethod
    def numpy(x: Any, end: Any, weight: Any) -> Any:
        distance = end - x
        return np.where(np.abs(weight) < 0.5, x + weight * distance, end - distance * (1 - weight))

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        x, end = rng.normal(size=(3, 4)), rng.normal(size=(4,))
        yield Sample(x, end, 0.3)
        yield Sample(x, end, rng.uniform(0, 1, size=(3, 1)))
        yield Sample(x, np.empty((0, 3, 4)), 1.5)

    @staticmethod
    def lower(e: Any, x: Any, end: Any, weight: Any) -> Any:
        distance = e.sub(end, x)
        near = e.add(x, e.mul(weight, distance))
        return e.where(e.lt(e.abs(weight), 0.5), near, e.sub(end, e.mul(distance, e.sub(1.0, weight))))


mul = multiply = binary(Mul, "multiply")
neg = negative = unary(Neg, "negative")
abs = absolute = unary(Abs, "absolute")
sign: Function = unary(Sign)
sgn = sign
method(sign, "sgn")
inplace_method("sgn_", sign)


_plus, _minus = binary(Add, inplace=False), binary(Sub, inplace=False)
_PLAIN = (bool, int, float)


def _times(other: Operand, alpha: Operand, fellow: Operand) -> Any:
    """alpha * other in the dtype of the sum with `fellow`.

    A number that stands for others is not looked at where a factor of 1 changes nothing.
    """
    if not isinstance(alpha, Tensor):
        stands_for_others = type(alpha) not in _PLAIN and isinstance(other, Tensor) and other.is_floating_point()
        if not stands_for_others and alpha == 1:
            return other
    if isinstance(other, Tensor):
        kind = result_dtype([x._type if isinstance(x, Tensor) else x.__class__ for x in (other, fellow)])
        other = other if other.dtype is kind else other.to(kind)
        if kind is bool_ and not isinstance(alpha, Tensor):
            alpha = bool(alpha)
    return apply(Mul, (other, alpha))


@method
def add(input: Operand, other: Operand, *_old: Any, alpha: Operand = 1, out: Tensor | None = None) -> Tensor:
    """input + alpha * other.

    >>> ex.add(ex.tensor([1.0, 2.0]), ex.tensor([10.0, 20.0]), alpha=2)
    tensor([21., 42.])
    """
    if _old:
        alpha, other = old_forms.scaled("add", "alpha", other, *_old)
    return _plus(input, _times(other, alpha, input), out=out)


@method
def sub(input: Operand, other: Operand, *_old: Any, alpha: Operand = 1, out: Tensor | None = None) -> Tensor:
    """input - alpha * other.

    >>> ex.sub(ex.tensor([1.0, 2.0]), ex.tensor([0.5, 0.5]), alpha=2)
    tensor([0., 1.])
    """
    if _old:
        alpha, other = old_forms.scaled("sub", "alpha", other, *_old)
    return _minus(input, _times(other, alpha, input), out=out)


subtract = method(sub, "subtract")
inplace_method("add_", add)
inplace_method("sub_", sub)
inplace_method("subtract_", sub)


def rsub(input: Operand, other: Operand, *, alpha: Operand = 1) -> Tensor:
    """other - alpha * input.

    >>> ex.rsub(ex.tensor([1.0, 2.0]), 10)
    tensor([9., 8.])
    """
    return sub(other, input, alpha=alpha)


@method
def addcmul(
    input: Tensor, tensor1: Tensor, tensor2: Tensor, *_old: Any, value: Operand = 1, out: Tensor | None = None
) -> Tensor:
    """input + value * tensor1 * tensor2.

    >>> ex.addcmul(ex.tensor([1.0, 1.0]), ex.tensor([2.0, 3.0]), ex.tensor([4.0, 5.0]), value=0.5)
    tensor([5.0000, 8.5000])
    """
    if _old:
        value, tensor1, tensor2 = old_forms.scaled("addcmul", "value", tensor1, tensor2, *_old)
    result = add(input, mul(tensor1, tensor2), alpha=value)
    return deliver_converted(result, out, input, tensor1, tensor2)


@method
def lerp(input: Tensor, end: Tensor, weight: Operand, *, out: Tensor | None = None) -> Tensor:
    """From `input` (weight 0) to `end` (weight 1) in a straight line.

    >>> ex.lerp(ex.tensor([0.0, 10.0]), ex.tensor([4.0, 20.0]), 0.25)
    tensor([ 1.0000, 12.5000])
    """
    return deliver_converted(apply(Lerp, (input, end, weight)), out, input, end, weight)


inplace_method("addcmul_", addcmul)
inplace_method("lerp_", lerp)


@method
def angle(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """pi for negative numbers, 0 for the others: the angle in the complex plane.

    >>> ex.angle(ex.tensor([-2.0, 0.0, 2.0]))
    tensor([3.1416, 0.0000, 0.0000])
    """
    x = input if input.is_floating_point() else input.to(get_default_dtype())
    result = ops.where(ops.isnan(x), x.detach(), ops.where(ops.lt(x, 0), math.pi, zero(x)))
    return deliver_converted(result, out, input)


def real(input: Tensor) -> Tensor:
    """The tensor itself: Extempo has no complex tensors.

    >>> x = ex.tensor([1.0, -2.0])
    >>> ex.real(x) is x, x.real is x
    (True, True)
    """
    return input


def _set_real(self: Tensor, value: Any) -> None:
    self.copy_(value)


setattr(TensorMethods, "real", property(real, _set_real))  # noqa: B010 # mypy knows the stub's class, not this one
conj, resolve_conj, resolve_neg = real, real, real
for _name in ("conj", "conj_physical_", "resolve_conj", "resolve_neg"):
    method(real, _name)


@method
def conj_physical(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The tensor itself: Extempo has no complex tensors.

    >>> ex.conj_physical(ex.tensor([1.0, -2.0]))
    tensor([ 1., -2.])
    """
    return deliver(input, out, input)


operators(Add, "add")
operators(Sub, "sub")
operators(Mul, "mul")


method(neg, "__neg__")
method(abs, "__abs__")


@method
def positive(input: Tensor) -> Tensor:
    """The tensor itself; bool tensors are refused, as in PyTorch.

    >>> x = ex.tensor([1.0, -2.0])
    >>> ex.positive(x) is x
    True
    """
    if input.dtype is bool_:
        raise DtypeError("positive: expected numbers, got a bool tensor")
    return input


method(positive, "__pos__")
