"""Exponentials, logarithms, roots and trigonometry of each element, and their close relatives."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import ops
from ..core.op import Elementwise, Rng, Sample, samples_binary, samples_unary
from ..core.tensor import Tensor
from ..core.tensor_methods import method
from ..dispatch.dispatcher import apply
from .define import Function, binary, deliver_converted, inplace_method, unary

__all__ = [
    "acos",
    "acosh",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "copysign",
    "cos",
    "cosh",
    "deg2rad",
    "exp",
    "exp2",
    "expm1",
    "hypot",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logaddexp2",
    "logit",
    "rad2deg",
    "reciprocal",
    "rsqrt",
    "sigmoid",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "tanh",
]


class FloatingFunction(Elementwise, abstract=True):
    """A function of one floating variable; integers become floats. Native code knows it by the op's name."""

    to_float = True
    low, high = -2.0, 2.0  # where the samples lie

    @classmethod
    def samples(cls, rng: Rng) -> Iterator[Sample]:
        yield from samples_unary(rng, cls.low, cls.high)

    @classmethod
    def lower(cls, e: Any, *inputs: Any) -> Any:
        return getattr(e, cls.name)(*inputs)


class Exp(FloatingFunction):
    """e to the power of each element.

    >>> ex.exp(ex.tensor([0.0, 1.0, -ex.inf]))
    tensor([1.0000, 2.7183, 0.0000])
    """

    numpy = np.exp
    vjp = staticmethod(lambda g, y, x: (g * y,))


class Exp2(FloatingFunction):
    """2 to the power of each element.

    >>> ex.exp2(ex.tensor([-1.0, 0.0, 3.0]))
    tensor([0.5000, 1.0000, 8.0000])
    """

    numpy = np.exp2
    vjp = staticmethod(lambda g, y, x: (g * (y * math.log(2.0)),))


class Expm1(FloatingFunction):
    """exp(x) - 1, accurate near 0.

    >>> ex.expm1(ex.tensor([0.0, 1.0]))
    tensor([0.0000, 1.7183])
    >>> ex.expm1(ex.tensor([1e-10])).item() > 0
    True
    """

    numpy = np.expm1
    vjp = staticmethod(lambda g, y, x: (g * (y + 1.0),))


class Log(FloatingFunction):
    """The natural logarithm.

    >>> ex.log(ex.tensor([0.0, 1.0, 2.0]))
    tensor([  -inf, 0.0000, 0.6931])
    """

    numpy = np.log
    low, high = 0.3, 3.0
    vjp = staticmethod(lambda g, y, x: (g / x,))


class Log2(FloatingFunction):
    """The logarithm to base 2.

    >>> ex.log2(ex.tensor([0.5, 1.0, 3.0]))
    tensor([-1.0000,  0.0000,  1.5850])
    """

    numpy = np.log2
    low, high = 0.3, 3.0
    vjp = staticmethod(lambda g, y, x: (g / (x * math.log(2.0)),))


class Log10(FloatingFunction):
    """The logarithm to base 10.

    >>> ex.log10(ex.tensor([0.5, 1.0, 1000.0]))
    tensor([-0.3010,  0.0000,  3.0000])
    """

    numpy = np.log10
    low, high = 0.3, 3.0
    vjp = staticmethod(lambda g, y, x: (g / (x * math.log(10.0)),))


class Log1p(FloatingFunction):
    """log(1 + x), accurate near 0.

    >>> ex.log1p(ex.tensor([0.0, 1.0]))
    tensor([0.0000, 0.6931])
    >>> ex.log1p(ex.tensor([1e-10])).item() > 0
    True
    """

    numpy = np.log1p
    low, high = -0.5, 2.0
    vjp = staticmethod(lambda g, y, x: (g / (x + 1.0),))


class Sqrt(FloatingFunction):
    """The square root.

    >>> ex.sqrt(ex.tensor([4.0, 9.0]))
    tensor([2., 3.])
    """

    numpy = np.sqrt
    low, high = 0.3, 3.0
    vjp = staticmethod(lambda g, y, x: (g / (y * 2.0),))


class Sin(FloatingFunction):
    """The sine, in radians.

    >>> ex.sin(ex.tensor([0.0, 1.0, ex.pi / 2]))
    tensor([0.0000, 0.8415, 1.0000])
    """

    numpy = np.sin
    vjp = staticmethod(lambda g, y, x: (g * ops.cos(x),))


class Cos(FloatingFunction):
    """The cosine, in radians.

    >>> ex.cos(ex.tensor([0.0, 1.0, ex.pi]))
    tensor([ 1.0000,  0.5403, -1.0000])
    """

    numpy = np.cos
    vjp = staticmethod(lambda g, y, x: (-g * ops.sin(x),))


class Tan(FloatingFunction):
    """The tangent, in radians.

    >>> ex.tan(ex.tensor([-1.0, 0.0, 1.0]))
    tensor([-1.5574,  0.0000,  1.5574])
    """

    numpy = np.tan
    low, high = -1.0, 1.0
    vjp = staticmethod(lambda g, y, x: (g * (y * y + 1.0),))


class Asin(FloatingFunction):
    """The inverse sine.

    >>> ex.asin(ex.tensor([-1.0, 0.0, 1.0]))
    tensor([-1.5708,  0.0000,  1.5708])
    """

    numpy = np.arcsin
    low, high = -0.9, 0.9
    vjp = staticmethod(lambda g, y, x: (g * ops.rsqrt(1.0 - x * x),))


class Acos(FloatingFunction):
    """The inverse cosine.

    >>> ex.acos(ex.tensor([-1.0, 0.0, 1.0]))
    tensor([3.1416, 1.5708, 0.0000])
    """

    numpy = np.arccos
    low, high = -0.9, 0.9
    vjp = staticmethod(lambda g, y, x: (-g * ops.rsqrt(1.0 - x * x),))


class Atan(FloatingFunction):
    """The inverse tangent.

    >>> ex.atan(ex.tensor([-1.0, 0.0, ex.inf]))
    tensor([-0.7854,  0.0000,  1.5708])
    """

    numpy = np.arctan
    vjp = staticmethod(lambda g, y, x: (g / (x * x + 1.0),))


class Sinh(FloatingFunction):
    """The hyperbolic sine.

    >>> ex.sinh(ex.tensor([-1.0, 0.0, 1.0]))
    tensor([-1.1752,  0.0000,  1.1752])
    """

    numpy = np.sinh
    vjp = staticmethod(lambda g, y, x: (g * ops.cosh(x),))


class Cosh(FloatingFunction):
    """The hyperbolic cosine.

    >>> ex.cosh(ex.tensor([-1.0, 0.0, 1.0]))
    tensor([1.5431, 1.0000, 1.5431])
    """

    numpy = np.cosh
    vjp = staticmethod(lambda g, y, x: (g * ops.sinh(x),))


class Tanh(FloatingFunction):
    """The hyperbolic tangent.

    >>> ex.tanh(ex.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.7616,  0.0000,  0.7616])
    """

    numpy = np.tanh
    quiet = True
    vjp = staticmethod(lambda g, y, x: (g * (1.0 - y * y),))


class Asinh(FloatingFunction):
    """The inverse hyperbolic sine.

    >>> ex.asinh(ex.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.8814,  0.0000,  0.8814])
    """

    numpy = np.arcsinh
    vjp = staticmethod(lambda g, y, x: (g * ops.rsqrt(x * x + 1.0),))


class Acosh(FloatingFunction):
    """The inverse hyperbolic cosine.

    >>> ex.acosh(ex.tensor([1.0, 2.0]))
    tensor([0.0000, 1.3170])
    """

    numpy = np.arccosh
    low, high = 1.2, 3.0
    vjp = staticmethod(lambda g, y, x: (g * ops.rsqrt(x * x - 1.0),))


class Atanh(FloatingFunction):
    """The inverse hyperbolic tangent.

    >>> ex.atanh(ex.tensor([-0.5, 0.0, 0.5]))
    tensor([-0.5493,  0.0000,  0.5493])
    """

    numpy = np.arctanh
    low, high = -0.9, 0.9
    vjp = staticmethod(lambda g, y, x: (g / (1.0 - x * x),))


class Rsqrt(FloatingFunction):
    """1 / sqrt(x).

    >>> ex.rsqrt(ex.tensor([4.0, 16.0]))
    tensor([0.5000, 0.2500])
    """

    low, high = 0.3, 3.0
    numpy = staticmethod(lambda x: 1 / np.sqrt(x))
    vjp = staticmethod(lambda g, y, x: (g * (y * y * y) * -0.5,))


class Reciprocal(FloatingFunction):
    """1 / x.

    >>> ex.reciprocal(ex.tensor([2.0, -4.0]))
    tensor([ 0.5000, -0.2500])
    """

    low, high = 0.3, 3.0
    numpy = staticmethod(lambda x: 1 / x)
    vjp = staticmethod(lambda g, y, x: (-g * (y * y),))


class Sigmoid(FloatingFunction):
    """1 / (1 + exp(-x)).

    >>> ex.sigmoid(ex.tensor([-1.0, 0.0, 1.0]))
    tensor([0.2689, 0.5000, 0.7311])
    """

    numpy = staticmethod(lambda x: 1 / (1 + np.exp(-x)))
    vjp = staticmethod(lambda g, y, x: (g * (y * (1.0 - y)),))


class Logit(FloatingFunction):
    """log(x / (1 - x)), the inverse of the sigmoid; NaN outside 0 to 1."""

    low, high = 0.1, 0.9
    numpy = staticmethod(lambda x: np.log(x / (1 - x)))
    lower = staticmethod(lambda e, x: e.log(e.div(x, e.sub(1.0, x))))

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        inside = ops.logical_and(ops.ge(x, 0), ops.le(x, 1))
        return (ops.where(inside, g / (x * (1.0 - x)), math.nan),)


class Atan2(Elementwise):
    """The angle of the point (other, input), from -pi to pi.

    >>> ex.atan2(ex.tensor([1.0, -1.0]), ex.tensor([1.0, 1.0]))
    tensor([ 0.7854, -0.7854])
    """

    to_float = True
    numpy = np.arctan2
    samples = staticmethod(lambda rng: samples_binary(rng, 0.3, 2.0))
    lower = staticmethod(lambda e, a, b: e.atan2(a, b))

    @staticmethod
    def vjp(g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> tuple[Any, ...]:
        square = a * a + b * b
        scaled = g / ops.where(ops.eq(square, 0), 1.0, square)  # at the origin there is no angle, and no gradient
        return scaled * b, scaled * -a


class Hypot(Elementwise):
    """sqrt(input**2 + other**2), without overflow on the way.

    >>> ex.hypot(ex.tensor([3.0, 5.0]), ex.tensor([4.0, 12.0]))
    tensor([ 5., 13.])
    """

    domain = "f"
    numpy = np.hypot
    vjp = staticmethod(lambda g, y, a, b: (g * (a / y), g * (b / y)))
    samples = staticmethod(lambda rng: samples_binary(rng, 0.3, 2.0))
    lower = staticmethod(lambda e, a, b: e.hypot(a, b))


class Copysign(Elementwise):
    """The size of `input` with the sign of `other`.

    >>> ex.copysign(ex.tensor([1.0, 2.0]), ex.tensor([-0.0, 3.0]))
    tensor([-1.,  2.])
    """

    to_float = True
    numpy = np.copysign
    vjp = staticmethod(lambda g, y, a, b: (g * ops.where(ops.eq(a, 0), 0.0, y / a), ops.zero(g)))
    samples = staticmethod(lambda rng: samples_binary(rng, 0.3, 2.0))
    lower = staticmethod(lambda e, a, b: e.copysign(a, b))


class Logaddexp(Elementwise):
    """log(exp(input) + exp(other)), without overflow on the way.

    >>> ex.logaddexp(ex.tensor([0.0, 100.0]), ex.tensor([0.0, 100.0]))
    tensor([  0.6931, 100.6931])
    """

    domain = "f"
    numpy = np.logaddexp
    samples = staticmethod(samples_binary)

    @staticmethod
    def vjp(g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> tuple[Any, ...]:
        # exp(a - y) is NaN where both are infinite; there the larger one takes the gradient.
        return g * ops.sigmoid(a - b), g * ops.sigmoid(b - a)

    @staticmethod
    def lower(e: Any, a: Any, b: Any) -> Any:
        apart = e.neg(e.abs(e.sub(a, b)))  # NaN for equal infinities
        return e.where(e.eq(a, b), e.add(a, math.log(2.0)), e.add(e.maximum(a, b), e.softplus(apart)))


class Logaddexp2(Elementwise):
    """log2(2**input + 2**other), without overflow on the way.

    >>> ex.logaddexp2(ex.tensor([0.5, 200.0]), ex.tensor([0.5, 200.0]))
    tensor([  1.5000, 201.0000])
    """

    domain = "f"
    numpy = np.logaddexp2
    samples = staticmethod(samples_binary)

    @staticmethod
    def vjp(g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> tuple[Any, ...]:
        apart = (a - b) * math.log(2.0)
        return g * ops.sigmoid(apart), g * ops.sigmoid(-apart)

    @staticmethod
    def lower(e: Any, a: Any, b: Any) -> Any:
        apart = e.neg(e.abs(e.sub(a, b)))  # NaN for equal infinities
        more = e.mul(e.log1p(e.exp2(apart)), 1.0 / math.log(2.0))
        return e.where(e.eq(a, b), e.add(a, 1.0), e.add(e.maximum(a, b), more))


exp = unary(Exp)
exp2 = unary(Exp2)
expm1 = unary(Expm1)
log = unary(Log)
log2 = unary(Log2)
log10 = unary(Log10)
log1p = unary(Log1p)
sqrt = unary(Sqrt)
sin: Function = unary(Sin)
cos: Function = unary(Cos)
tan = unary(Tan)
asin = arcsin = unary(Asin, "arcsin")
acos = arccos = unary(Acos, "arccos")
atan = arctan = unary(Atan, "arctan")
sinh: Function = unary(Sinh)
cosh: Function = unary(Cosh)
tanh = unary(Tanh)
asinh = arcsinh = unary(Asinh, "arcsinh")
acosh = arccosh = unary(Acosh, "arccosh")
atanh = arctanh = unary(Atanh, "arctanh")
rsqrt: Function = unary(Rsqrt)
reciprocal, sigmoid = unary(Reciprocal), unary(Sigmoid)
atan2 = arctan2 = binary(Atan2, "arctan2")
hypot, copysign = binary(Hypot), binary(Copysign)
logaddexp, logaddexp2 = binary(Logaddexp, inplace=False), binary(Logaddexp2, inplace=False)


@method
def square(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """input * input.

    >>> ex.square(ex.tensor([2.0, -3.0]))
    tensor([4., 9.])
    """
    return ops.pow(input, 2, out=out)


inplace_method("square_", square)


@method
def logit(input: Tensor, eps: float | None = None, *, out: Tensor | None = None) -> Tensor:
    """log(x / (1 - x)), the inverse of the sigmoid; with `eps`, of x limited to eps..1 - eps.

    >>> ex.logit(ex.tensor([0.25, 0.5, 0.75]))
    tensor([-1.0986,  0.0000,  1.0986])
    """
    return deliver_converted(apply(Logit, (input if eps is None else ops.clamp(input, eps, 1.0 - eps),)), out, input)


@method
def deg2rad(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Degrees as radians.

    >>> ex.deg2rad(ex.tensor([90.0, 180.0]))
    tensor([1.5708, 3.1416])
    """
    return ops.mul(input, math.pi / 180.0, out=out)


@method
def rad2deg(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Radians as degrees.

    >>> ex.rad2deg(ex.tensor([1.0, ex.pi]))
    tensor([ 57.2958, 180.0000])
    """
    return ops.mul(input, 180.0 / math.pi, out=out)


for _fn in (logit, deg2rad, rad2deg):
    inplace_method(_fn.__name__ + "_", _fn)
