"""Sine and cosine on float32 lanes.

Values of float32 lanes in, values of the same type out. The angle is reduced to a quarter turn in float64, which is
exact enough up to 2**30; lanes beyond that are left to the C library, which knows more digits of pi.
"""

from __future__ import annotations

import math

from ..ir.builder import IRFunction, Value, f32, f64, i32, i64, with_lanes
from .vector_math import any_lane, library, magnitude, polynomial

_QUARTER_TURN_LOW = 6.123233995736766e-17  # what pi / 2 in float64 lacks
_ROUNDER = 1.5 * 2.0**52  # adding it to a small number leaves its nearest integer in the low bits
_LIMIT = 2.0**30

# (sin(r) / r - 1) / r**2 and (cos(r) - 1 + r**2 / 2) / r**4 as functions of r**2, for |r| <= pi / 4
SINE = (-0.1666666716337204, 0.008333379402756691, -0.00019853028061334044, 2.831773826983408e-06)
COSINE = (0.04166664555668831, -0.00138873013202101, 2.443066841806285e-05)


def sin(b: IRFunction, x: Value) -> Value:
    y = _by_quarters(b, x, 0)
    return beyond_limit(b, "sin", x, b.select(x == 0.0, x, y))  # keeps the sign of 0


def cos(b: IRFunction, x: Value) -> Value:
    return beyond_limit(b, "cos", x, _by_quarters(b, x, 1))


def _by_quarters(b: IRFunction, x: Value, ahead: int) -> Value:
    """The sine of x and `ahead` quarter turns, for |x| below the limit."""
    wide, quarter = quarter_turns(b, b.cast("fpext", x, f64))
    r, quarter = b.cast("fptrunc", wide, f32), b.cast("trunc", quarter, i32) + ahead
    square = r * r
    sine = b.fma(square * r, polynomial(b, SINE, square), r)
    cosine = b.fma(square * square, polynomial(b, COSINE, square), b.fma(square, -0.5, 1.0))
    y = b.select((quarter & 1) != 0, cosine, sine)
    return b.select((quarter & 2) != 0, -y, y)


def quarter_turns(b: IRFunction, x: Value) -> tuple[Value, Value]:
    """(r, n) of float64 lanes below the limit: x is n quarter turns, an integer modulo 2**32, and r."""
    shifted = b.fma(x, 2.0 / math.pi, _ROUNDER)
    n = shifted - _ROUNDER
    r = b.fma(n, -_QUARTER_TURN_LOW, b.fma(n, -0.5 * math.pi, x))
    return r, b.bitcast(shifted, with_lanes(i64, x.type.lanes))


def beyond_limit(b: IRFunction, name: str, x: Value, y: Value) -> Value:
    """y, and the C library's result for lanes of large numbers."""
    large = magnitude(b, x) > _LIMIT
    out = b.var(x.type, y)
    with b.if_(any_lane(b, large)):
        out.set(b.select(large, library(b, name, x), y))
    return out.value
