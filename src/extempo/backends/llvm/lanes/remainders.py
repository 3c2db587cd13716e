"""Division with a remainder, as NumPy does it: floats exactly, integers without the two divisions that trap.

Values of two operands of one type in, a value of that type out. Integers wrap around. A divisor of 0 gives anything:
who asks for it reports an error.
"""

from __future__ import annotations

import math

from ..ir.builder import IRFunction, Value, f32
from . import vector_math


def with_sign_of(b: IRFunction, rest: Value, divisor: Value) -> Value:
    """A remainder of truncating division made into one of flooring division."""
    return b.select((rest != 0) & ((rest < 0) ^ (divisor < 0)), rest + divisor, rest)


def truncated(b: IRFunction, x: Value, y: Value) -> Value:
    """What truncating division of floats leaves, which is exact: C's fmod.

    While the quotient is a whole number that the lanes can tell from its neighbours, x - q * y is one, too, and q is
    wrong by one at most. Other lanes (large quotients, infinities, NaN) are the C library's.
    """
    size, divisor = b.intrinsic("fabs", x), b.intrinsic("fabs", y)
    quotient = b.intrinsic("trunc", size / divisor)
    rest = b.fma(-quotient, divisor, size)
    rest = b.select(rest < 0.0, rest + divisor, b.select(rest >= divisor, rest - divisor, rest))
    settled = (quotient < (2.0**22 if x.type.lane is f32 else 2.0**51)) & (divisor < math.inf)
    out = b.var(x.type, b.intrinsic("copysign", rest, x))
    others = ~settled
    with b.if_(vector_math.any_lane(b, others)):
        out.set(b.select(others, vector_math.library(b, "fmod", x, y), out.value))
    return out.value


def floor_quotient(b: IRFunction, x: Value, y: Value) -> Value:
    """floor(x / y), from the exact remainder: the quotient itself may round up to the next whole number."""
    rest = truncated(b, x, y)
    quotient = (x - rest) / y
    quotient = b.select((rest != 0.0) & ((rest < 0.0) ^ (y < 0.0)), quotient - 1.0, quotient)
    whole = b.intrinsic("floor", quotient)
    whole = b.select(quotient - whole > 0.5, whole + 1.0, whole)
    plain = x / y
    signed_zero = b.intrinsic("copysign", b.const(x.type, 0.0), plain)
    return b.select(y == 0.0, plain, b.select(quotient == 0.0, signed_zero, whole))


def _safe(b: IRFunction, divisor: Value) -> Value:
    """The divisor, or 1 where the processor would trap: at 0, and at -1 with the least integer above it."""
    return b.select((divisor == 0) | (divisor == -1), 1, divisor)


def integer_remainder(b: IRFunction, x: Value, y: Value) -> Value:
    """What truncating division leaves; 0 for a divisor of -1."""
    return x % _safe(b, y)


def integer_floor_quotient(b: IRFunction, x: Value, y: Value) -> Value:
    safe = _safe(b, y)
    quotient = x // safe
    rest = x - quotient * safe
    below = (rest != 0) & ((rest < 0) ^ (safe < 0))
    quotient = b.select(below, quotient - 1, quotient)
    return b.select(y == -1, -x, quotient)
