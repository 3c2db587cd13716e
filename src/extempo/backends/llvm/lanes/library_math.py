"""Functions of float64 lanes: by `double_math` where that has what they are made of, else by the C library.

Values of floating lanes in, values of the same type out. The C library runs for one lane after the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..ir.builder import IRFunction, Value, f32, f64
from .double_math import exp, log1p
from .vector_math import at_least, at_most, library, magnitude


def called(name: str) -> Callable[[IRFunction, Value], Value]:
    """The function of the C library whose float64 form has that name."""
    return lambda b, x: library(b, name, x)


erfc = called("erfc")


def sigmoid(b: IRFunction, x: Value) -> Value:
    e = exp(b, -magnitude(b, x))
    return b.select(x < 0.0, e, b.const(x.type, 1.0)) / (e + 1.0)


def softplus(b: IRFunction, x: Value) -> Value:
    """log(1 + exp(x))."""
    return at_least(b, x, 0.0) + log1p(b, exp(b, -magnitude(b, x)))


def silu(b: IRFunction, x: Value) -> Value:
    """x * sigmoid(x)."""
    return x / (exp(b, -x) + 1.0)


def gelu(b: IRFunction, x: Value) -> Value:
    """x times the probability that a normal variable stays below x."""
    return erfc(b, x * -math.sqrt(0.5)) * (x * 0.5)


def gelu_tanh(b: IRFunction, x: Value) -> Value:
    """gelu with the probability approximated by a tanh; (1 + tanh(u)) / 2 is the sigmoid of 2 u."""
    return x * sigmoid(b, (x * x * 0.044715 + 1.0) * x * math.sqrt(8.0 / math.pi))


def gelu_tanh_slope(b: IRFunction, x: Value) -> Value:
    """The derivative of gelu_tanh."""
    x = at_most(b, at_least(b, x, -12.0), 12.0)  # there it is 0 and 1; far below, exp() would overflow
    square = x * x
    e = exp(b, (square * 0.044715 + 1.0) * x * -math.sqrt(8.0 / math.pi))
    s = 1.0 / (e + 1.0)
    growth = (square * (3.0 * 0.044715) + 1.0) * x * math.sqrt(8.0 / math.pi)
    return s * (growth * (e * s) + 1.0)


def mish(b: IRFunction, x: Value) -> Value:
    """x * tanh(log(1 + exp(x))), as a quotient of polynomials in exp(-|x|)."""
    e = exp(b, -magnitude(b, x))
    top = b.select(x < 0.0, e * (e + 2.0), e + e + 1.0)
    return x * (top / (top + b.select(x < 0.0, 2.0, e * e * 2.0)))


def lgamma(b: IRFunction, x: Value) -> Value:
    """The logarithm of the size of the gamma function, always in float64: float32 would lose its roots."""
    if x.type.lane is f64:
        return library(b, "lgamma", x)
    return b.cast("fptrunc", library(b, "lgamma", b.cast("fpext", x, f64)), f32)
