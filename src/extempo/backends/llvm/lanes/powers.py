"""x ** y on lanes: the usual small exponents by multiplication, floats by the C library, integers by squaring.

Which way a lane goes depends on its own exponent alone, so a result is the same in every company. Exponents 2, 3, 1/2,
-1/2, -1 and -2 (as numbers they come to every lane) are what a product, a root or a quotient gives.
"""

from __future__ import annotations

import math

from ..ir.builder import IRFunction, Value
from . import vector_math


def power(b: IRFunction, x: Value, y: Value, by_roots: bool) -> Value:
    """Floats; `by_roots`: powers of 1/2 and -1/2 are -0.0 and -inf at -0.0, and NaN at -inf, not those of C's pow."""
    square = x * x
    result, left = _settle(b, y, {1.0: x, 2.0: square, 3.0: square * x}, b.const(x.type, 1.0), y != 0.0)
    out = b.var(x.type, result)
    with b.if_(vector_math.any_lane(b, left)):
        root = b.intrinsic("sqrt", x if by_roots else b.select(x == -math.inf, math.inf, x + 0.0))  # -0.0 + 0.0 is 0.0
        simple = {0.5: root, -0.5: 1.0 / root, -1.0: 1.0 / x, -2.0: 1.0 / square}
        result, still_left = _settle(b, y, simple, result, left)
        out.set(result)
        with b.if_(vector_math.any_lane(b, still_left)):
            out.set(b.select(still_left, vector_math.library(b, "pow", x, y), result))
    return out.value


def _settle(b: IRFunction, y: Value, simple: dict[float, Value], result: Value, left: Value) -> tuple[Value, Value]:
    """The results with those for these exponents, and which lanes have another one still."""
    for exponent, value in simple.items():
        other = y != exponent
        result, left = b.select(other, result, value), left & other
    return result, left


def integer_power(b: IRFunction, x: Value, y: Value) -> Value:
    """Integers, which wrap around; for negative exponents the whole part, 0 but for powers of 1 and -1."""
    one = b.const(x.type, 1)
    result, base, left = b.var(x.type, one), b.var(x.type, x), b.var(x.type, b.select(y < 0, 0, y))
    with b.while_(lambda: vector_math.any_lane(b, left.value != 0)):
        factor = base.value
        result.set(b.select((left.value & 1) != 0, result.value * factor, result.value))
        base.set(factor * factor)
        left.set(left.value >> 1)
    sign = b.select((y & 1) != 0, b.const(x.type, -1), one)
    whole = b.select(x == 1, one, b.select(x == -1, sign, 0))
    return b.select(y < 0, whole, result.value)
