"""Exponentials, logarithms, roots and trigonometry of each element, and their close relatives."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import ops
from .._methods import method
from .._tensor import Tensor, apply
from ..op import Elementwise, Rng, Sample, samples_binary, samples_unary
from .define import binary, deliver, inplace_method, unary

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
    """A function of one floating variable; integers become floats."""

    to_float = True
    low, high = -2.0, 2.0  # where the samples lie

    @classmethod
    def samples(cls, rng: Rng) -> Iterator[Sample]:
        yield from samples_unary(rng, cls.low, cls.high)


class Exp(FloatingFunction):
    """e to the power of each element."""

    numpy = np.exp

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (g * y,)


class Exp2(FloatingFunction):
    """2 to the power of each element."""

    numpy = np.exp2

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (g * (y * math.log(2.0)),)


class Expm1(FloatingFunction):
    """exp(x) - 1, accurate near 0."""

    numpy = np.expm1

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (g * (y + 1.0),)


class Log(FloatingFunction):
    """The natural logarithm."""

    numpy = np.log
    low, high = 0.3, 3.0

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (g / x,)


class Log2(FloatingFunction):
    """The logarithm to base 2."""

    numpy = np.log2
    low, high = 0.3, 3.0

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (g / (x * math.log(2.0)),)


class Log10(FloatingFunction):
    """The logarithm to base 10."""

    numpy = np.log10
    low, high = 0.3, 3.0

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (g / (x * math.log(10.0)),)


class Log1p(FloatingFunction):
    """log(1 + x), accurate near 0."""

    numpy = np.log1p
    low, high = -0.5, 2.0

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (g / (x + 1.0),)


class Sqrt(FloatingFunction):
    """The square root."""

    numpy = np.sqrt
    low, high = 0.3, 3.0

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (g / (y * 2.0),)


class Sin(FloatingFunction):
    """The sine, in radians."""

    numpy = np.sin

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (g * ops.cos(x),)


class Cos(FloatingFunction):
    """The cosine, in radians."""

    numpy = np.cos

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (-g * ops.sin(x),)


class Tan(FloatingFunction):
    """The tangent, in radians."""

    numpy = np.tan
    low, high = -1.0, 1.0

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (g * (y * y + 1.0),)


class Asin(FloatingFunction):
    """The inverse sine."""

    numpy = np.arcsin
    low, high = -0.9, 0.9

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (g * ops.rsqrt(1.0 - x * x),)


class Acos(FloatingFunction):
    """The inverse cosine."""

    numpy = np.arccos
    low, high = -0.9, 0.9

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (-g * ops.rsqrt(1.0 - x * x),)


class Atan(FloatingFunction):
    """The inverse tangent."""

    numpy = np.arctan

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (g / (x * x + 1.0),)


class Sinh(FloatingFunction):
    """The hyperbolic sine."""

    numpy = np.sinh

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (g * ops.cosh(x),)


class Cosh(FloatingFunction):
    """The hyperbolic cosine."""

    numpy = np.cosh

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (g * ops.sinh(x),)


class Tanh(FloatingFunction):
    """The hyperbolic tangent."""

    numpy = np.tanh
    quiet = True

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (g * (1.0 - y * y),)


class Asinh(FloatingFunction):
    """The inverse hyperbolic sine."""

    numpy = np.arcsinh

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (g * ops.rsqrt(x * x + 1.0),)


class Acosh(FloatingFunction):
    """The inverse hyperbolic cosine."""

    numpy = np.arccosh
    low, high = 1.2, 3.0

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (g * ops.rsqrt(x * x - 1.0),)


class Atanh(FloatingFunction):
    """The inverse hyperbolic tangent."""

    numpy = np.arctanh
    low, high = -0.9, 0.9

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (g / (1.0 - x * x),)


class Rsqrt(FloatingFunction):
    """1 / sqrt(x)."""

    low, high = 0.3, 3.0

    @staticmethod
    def numpy(x: Any) -> Any:
        return 1 / np.sqrt(x)

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (g * (y * y * y) * -0.5,)


class Reciprocal(FloatingFunction):
    """1 / x."""

    low, high = 0.3, 3.0

    @staticmethod
    def numpy(x: Any) -> Any:
        return 1 / x

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (-g * (y * y),)


class Sigmoid(FloatingFunction):
    """1 / (1 + exp(-x))."""

    @staticmethod
    def numpy(x: Any) -> Any:
        return 1 / (1 + np.exp(-x))

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (g * (y * (1.0 - y)),)


class Logit(FloatingFunction):
    """log(x / (1 - x)), the inverse of the sigmoid; NaN outside 0 to 1."""

    low, high = 0.1, 0.9

    @staticmethod
    def numpy(x: Any) -> Any:
        return np.log(x / (1 - x))

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        inside = ops.logical_and(ops.ge(x, 0), ops.le(x, 1))
        return (ops.where(inside, g / (x * (1.0 - x)), math.nan),)


class Atan2(Elementwise):
    """The angle of the point (other, input), from -pi to pi."""

    to_float = True
    numpy = np.arctan2

    @staticmethod
    def vjp(g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> tuple[Any, ...]:
        scaled = g / (a * a + b * b)
        return scaled * b, scaled * -a

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield from samples_binary(rng, 0.3, 2.0)


class Hypot(Elementwise):
    """sqrt(input**2 + other**2), without overflow on the way."""

    domain = "f"
    numpy = np.hypot

    @staticmethod
    def vjp(g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> tuple[Any, ...]:
        return g * (a / y), g * (b / y)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield from samples_binary(rng, 0.3, 2.0)


class Copysign(Elementwise):
    """The size of `input` with the sign of `other`."""

    to_float = True
    numpy = np.copysign

    @staticmethod
    def vjp(g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> tuple[Any, ...]:
        return ops.where(ops.eq(a, 0), 0.0, g * (y / a)), ops.zero(g)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield from samples_binary(rng, 0.3, 2.0)


class Logaddexp(Elementwise):
    """log(exp(input) + exp(other)), without overflow on the way."""

    domain = "f"
    numpy = np.logaddexp
    samples = staticmethod(samples_binary)

    @staticmethod
    def vjp(g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> tuple[Any, ...]:
        # exp(a - y) is NaN where both are infinite; there the larger one takes the gradient.
        return g * ops.sigmoid(a - b), g * ops.sigmoid(b - a)


class Logaddexp2(Elementwise):
    """log2(2**input + 2**other), without overflow on the way."""

    domain = "f"
    numpy = np.logaddexp2
    samples = staticmethod(samples_binary)

    @staticmethod
    def vjp(g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> tuple[Any, ...]:
        way = (a - b) * math.log(2.0)
        return g * ops.sigmoid(way), g * ops.sigmoid(-way)


exp = unary(Exp)
exp2 = unary(Exp2)
expm1 = unary(Expm1)
log = unary(Log)
log2 = unary(Log2)
log10 = unary(Log10)
log1p = unary(Log1p)
sqrt = unary(Sqrt)
sin = unary(Sin)
cos = unary(Cos)
tan = unary(Tan)
asin = arcsin = unary(Asin, "arcsin")
acos = arccos = unary(Acos, "arccos")
atan = arctan = unary(Atan, "arctan")
sinh = unary(Sinh)
cosh = unary(Cosh)
tanh = unary(Tanh)
asinh = arcsinh = unary(Asinh, "arcsinh")
acosh = arccosh = unary(Acosh, "arccosh")
atanh = arctanh = unary(Atanh, "arctanh")
rsqrt, reciprocal, sigmoid = unary(Rsqrt), unary(Reciprocal), unary(Sigmoid)
atan2 = arctan2 = binary(Atan2, "arctan2")
hypot, copysign = binary(Hypot), binary(Copysign)
logaddexp, logaddexp2 = binary(Logaddexp, inplace=False), binary(Logaddexp2, inplace=False)


@method
def square(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """input * input."""
    return ops.pow(input, 2, out=out)


inplace_method("square_", square)


@method
def logit(input: Tensor, eps: float | None = None, *, out: Tensor | None = None) -> Tensor:
    """log(x / (1 - x)), the inverse of the sigmoid; with `eps`, of x limited to eps..1 - eps."""
    return deliver(apply(Logit, (input if eps is None else ops.clamp(input, eps, 1.0 - eps),)), out)


@method
def deg2rad(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Degrees as radians."""
    return ops.mul(input, math.pi / 180.0, out=out)


@method
def rad2deg(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Radians as degrees."""
    return ops.mul(input, 180.0 / math.pi, out=out)


for _fn in (logit, deg2rad, rad2deg):
    inplace_method(_fn.__name__ + "_", _fn)
