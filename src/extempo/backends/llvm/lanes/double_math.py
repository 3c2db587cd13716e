"""Elementary functions on float64 lanes, and float32 functions that are computed in them.

Values of floating lanes in, values of the same type out; what `vector_math` says of its functions holds here, too.
Errors of float64 results are about one ulp. Of float32 functions that are rounded from float64 none has more than a
little over half an ulp: hyperbolic functions and their inverses, tangent and inverse circular functions.
"""

from __future__ import annotations

import math

from ..ir.builder import IRFunction, Operand, Value, f32, f64, i64, with_lanes
from .trigonometry import COSINE, SINE, beyond_limit, quarter_turns
from .vector_math import at_edges, at_least, at_most, magnitude, polynomial

_LOG2_E = 1.0 / math.log(2.0)
_LN2_HIGH = float.fromhex("0x1.62e42fefa0000p-1")  # 37 bits of log(2): its multiples by whole numbers are exact
_LN2_LOW = 1.6465949582897082e-12
_ROUNDER = 1.5 * 2.0**52  # adding it to a small number leaves its nearest integer in the low bits
_ROUNDER_BITS = 0x4338000000000000
_SMALLEST_NORMAL = 2.0**-1022
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
# (exp(r) - 1 - r) / r**2, its series: the next term is below 2**-57 for |r| <= ln(2) / 2
_EXP = tuple(1.0 / math.factorial(k) for k in range(2, 15))
# (atanh(s) / s - 1) / s**2 as a function of s**2, its series, for |s| <= 3 - sqrt(8)
_ATANH = tuple(1.0 / k for k in range(3, 27, 2))
# atan(t) / t as a function of t**2 for |t| <= 1, to 4e-10: a Chebyshev fit
_ATAN = (
    0.9999999996145259, -0.33333323665627324, 0.19999595854187846, -0.14279048417102572, 0.11053784754726931,
    -0.08796117563548514, 0.06710114004043888, -0.044273668496984546, 0.022203455118568256, -0.007166164997221288,
    0.0010844927719962287,
)  # fmt: skip


# ---- exponentials


def _exp_terms(b: IRFunction, x: Value) -> tuple[Value, Value]:
    """(t, n) with exp(x) = (1 + t) * 2**n and |t| below 1 / 2, for |x| below a million; t is tiny where x is."""
    shifted = b.fma(x, _LOG2_E, _ROUNDER)
    n = shifted - _ROUNDER
    high = b.fma(n, -_LN2_HIGH, x)
    low = n * -_LN2_LOW
    r = high + low
    lost = (high - r) + low
    t = r + b.fma(r * r, polynomial(b, _EXP, r), lost)
    return t, b.bitcast(shifted, with_lanes(i64, x.type.lanes)) - _ROUNDER_BITS


def _power_of_two(b: IRFunction, n: Value) -> Value:
    """2**n for n from -1022 to 1023."""
    return b.bitcast((n + 1023) << 52, with_lanes(f64, n.type.lanes))


def exp(b: IRFunction, x: Value) -> Value:
    t, n = _exp_terms(b, at_most(b, at_least(b, x, -746.0), 710.0))
    half = n >> 1  # in two steps, because 2**n itself may be out of range
    power = _power_of_two(b, half)
    return b.fma(power, t, power) * _power_of_two(b, n - half)


def expm1(b: IRFunction, x: Value) -> Value:
    t, n = _exp_terms(b, at_most(b, at_least(b, x, -40.0), 710.0))
    half = _power_of_two(b, n - 1)  # 2**n would overflow where the result does not yet
    y = b.fma(half, t, half - 0.5)
    return b.select(magnitude(b, x) < 2.0**-54, x, y + y)


def tanh(b: IRFunction, x: Value) -> Value:
    size = magnitude(b, x)
    more = expm1(b, at_most(b, size + size, 44.0))
    return b.intrinsic("copysign", more / (more + 2.0), x)


# ---- logarithms


def _log_parts(b: IRFunction, x: Value) -> tuple[Value, Value]:
    """(f, n) with x = (1 + f) * 2**n and 1 + f from sqrt(1/2) to sqrt(2), for positive finite x."""
    integer = with_lanes(i64, x.type.lanes)
    tiny = x < _SMALLEST_NORMAL
    bits = b.bitcast(b.select(tiny, x * 2.0**54, x), integer)
    n = (bits - _SQRT_HALF_BITS) >> 52
    f = b.bitcast(bits - (n << 52), x.type) - 1.0
    shifted = b.bitcast((n - b.select(tiny, b.const(integer, 54), b.const(integer, 0))) + _ROUNDER_BITS, x.type)
    return f, shifted - _ROUNDER


def _log_of_parts(b: IRFunction, f: Value, n: Value, more: Operand) -> Value:
    """log((1 + f) * 2**n) + more, for a tiny `more`."""
    s = f / (f + 2.0)
    square = s * s
    half = f * f * 0.5
    # log(1 + f) = f - half + s * (half + 2 * square * (1 / 3 + ...))
    tail = s * b.fma(square + square, polynomial(b, _ATANH, square), half)
    return b.fma(n, _LN2_HIGH, f - (half - (tail + b.fma(n, _LN2_LOW, more))))


def log(b: IRFunction, x: Value) -> Value:
    f, n = _log_parts(b, x)
    return at_edges(b, x, _log_of_parts(b, f, n, 0.0))


def log1p(b: IRFunction, x: Value) -> Value:
    whole = x + 1.0
    f, n = _log_parts(b, whole)
    lost = b.select(x < 1.0, x - (whole - 1.0), 1.0 - (whole - x))  # what rounding took from 1 + x
    y = at_edges(b, whole, _log_of_parts(b, f, n, lost / whole))
    return b.select(magnitude(b, x) < 2.0**-54, x, y)


# ---- float32 functions, rounded from float64


def _wide(b: IRFunction, x: Value) -> Value:
    return b.cast("fpext", x, f64)


def _rounded(b: IRFunction, y: Value) -> Value:
    return b.cast("fptrunc", y, f32)


def sinh(b: IRFunction, x: Value) -> Value:
    size = _wide(b, at_most(b, magnitude(b, x), 100.0))
    more = expm1(b, size)
    y = (more + more / (more + 1.0)) * 0.5
    return b.intrinsic("copysign", b.select(magnitude(b, x) < 2.0**-13, magnitude(b, x), _rounded(b, y)), x)


def cosh(b: IRFunction, x: Value) -> Value:
    e = exp(b, _wide(b, at_most(b, magnitude(b, x), 100.0)))
    return _rounded(b, (e + 1.0 / e) * 0.5)


def asinh(b: IRFunction, x: Value) -> Value:
    size = _wide(b, magnitude(b, x))
    square = size * size
    y = log1p(b, size + square / (b.intrinsic("sqrt", square + 1.0) + 1.0))
    y = b.select(size == math.inf, size, y)
    return b.intrinsic("copysign", _rounded(b, y), x)


def acosh(b: IRFunction, x: Value) -> Value:
    above = _wide(b, x) - 1.0
    y = log1p(b, above + b.intrinsic("sqrt", above * (above + 2.0)))
    y = b.select(above == math.inf, above, y)
    return _rounded(b, b.select(above < 0.0, math.nan, y))


def atanh(b: IRFunction, x: Value) -> Value:
    size = _wide(b, magnitude(b, x))
    y = log1p(b, (size + size) / (1.0 - size)) * 0.5
    return b.intrinsic("copysign", _rounded(b, y), x)


def tan(b: IRFunction, x: Value) -> Value:
    r, quarter = quarter_turns(b, _wide(b, x))
    square = r * r
    sine = b.fma(square * r, polynomial(b, SINE, square), r)
    cosine = b.fma(square * square, polynomial(b, COSINE, square), b.fma(square, -0.5, 1.0))
    odd = (quarter & 1) != 0
    y = _rounded(b, b.select(odd, -cosine, sine) / b.select(odd, sine, cosine))
    return beyond_limit(b, "tan", x, b.select(x == 0.0, x, y))  # keeps the sign of 0


def _atan_below_one(b: IRFunction, t: Value) -> Value:
    return t * polynomial(b, _ATAN, t * t)


def atan(b: IRFunction, x: Value) -> Value:
    size = _wide(b, magnitude(b, x))
    large = size > 1.0
    y = _atan_below_one(b, b.select(large, 1.0 / size, size))
    return b.intrinsic("copysign", _rounded(b, b.select(large, 0.5 * math.pi - y, y)), x)


def _angle(b: IRFunction, y: Value, x: Value) -> Value:
    """The angle of (x, y), neither below 0, from 0 to a quarter turn; 0 at the origin, an eighth at both infinities."""
    steep = y > x
    small, large = b.select(steep, x, y), b.select(steep, y, x)
    t = b.select(small == large, b.select(small == 0.0, small, 1.0), small / large)
    found = _atan_below_one(b, t)
    return b.select(steep, 0.5 * math.pi - found, found)


def asin(b: IRFunction, x: Value) -> Value:
    size = _wide(b, magnitude(b, x))
    y = _angle(b, size, b.intrinsic("sqrt", (1.0 - size) * (size + 1.0)))
    return b.intrinsic("copysign", _rounded(b, b.select(size > 1.0, math.nan, y)), x)


def acos(b: IRFunction, x: Value) -> Value:
    wide = _wide(b, x)
    y = _angle(b, b.intrinsic("sqrt", 1.0 - wide), b.intrinsic("sqrt", wide + 1.0))
    return _rounded(b, y + y)


def atan2(b: IRFunction, y: Value, x: Value) -> Value:
    """The angle of (x, y) from -pi to pi."""
    high, wide = _wide(b, magnitude(b, y)), _wide(b, x)
    found = _angle(b, high, magnitude(b, wide))
    negative = b.intrinsic("copysign", b.const(wide.type, 1.0), wide) < 0.0  # -0.0 is, too
    found = b.select(negative, math.pi - found, found)
    found = b.select((high != high) | (wide != wide), math.nan, found)
    return b.intrinsic("copysign", _rounded(b, found), y)
