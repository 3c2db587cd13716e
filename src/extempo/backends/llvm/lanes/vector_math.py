"""Elementary functions on float32 lanes, and the C library lane by lane for everything else.

Values of float32 lanes in, values of the same type out. Polynomials are evaluated with fused multiply-add; a lane's
result depends on that lane alone. Infinities, NaN, signed zeros and denormals are right everywhere, and no step is
undefined for any bits that come in, because unused lanes hold anything.

Tables hold coefficients from the lowest power up: minimax fits of the function in the comment beside them, found with
40 digits and rounded to float32.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

from ..ir.builder import IRFunction, Operand, Type, Value, f32, i32, with_lanes


def split(number: float) -> tuple[float, float]:
    """A constant as float32, and what that lacks."""
    high = float(struct.unpack("<f", struct.pack("<f", number))[0])
    return high, number - high


_LOG2_E = 1.0 / math.log(2.0)
_LOG10_E = 1.0 / math.log(10.0)
_LN2_HIGH, _LN2_LOW = split(math.log(2.0))
_LOG2_E_HIGH, _LOG2_E_LOW = split(_LOG2_E)
_LOG10_E_HIGH, _LOG10_E_LOW = split(_LOG10_E)
_LOG10_2_HIGH, _LOG10_2_LOW = split(math.log10(2.0))
_ROUNDER = 1.5 * 2**23 + 127  # added to a small number, it leaves the exponent of 2**(the nearest integer) lowest
_ROUNDER_BITS = 0x4B400000 + 127
# log2(exp(-z)) / x and its part in x**2, for gelu_tanh(x) = x * sigmoid(z). A sum with 20 bits of the first is exact.
_GELU_LINEAR = -2.0 * math.sqrt(2.0 / math.pi) * _LOG2_E
_GELU_LINEAR_HIGH = round(_GELU_LINEAR * 2.0**18) * 2.0**-18
_GELU_LINEAR_LOW = _GELU_LINEAR - _GELU_LINEAR_HIGH
_GELU_CUBIC_HIGH, _GELU_CUBIC_LOW = split(_GELU_LINEAR * 0.044715)
_SMALLEST_NORMAL = 2.0**-126

# (exp(r) - 1 - r) / r**2 for |r| <= ln(2) / 2
_EXP = (
    0.5, 0.16666515171527863, 0.04166637733578682, 0.008369393646717072, 0.0013942922232672572,
)  # fmt: skip
# (2**r - 1 - r * log(2)) / r**2 for |r| <= 1 / 2
_EXP2 = (
    0.24022647738456726, 0.05550359934568405, 0.009618505835533142, 0.0013390806270763278, 0.0001532646274426952,
)  # fmt: skip
# (log(1 + f) - f + f**2 / 2) / f**3 for 1 + f from sqrt(1/2) to sqrt(2)
_LOG = (
    0.3333331346511841, -0.25000008940696716, 0.2000207155942917, -0.16667990386486053, 0.14220362901687622,
    -0.12406209856271744, 0.11883474141359329, -0.1167016550898552, 0.06749501079320908,
)  # fmt: skip
# (tanh(x) - x) / x**3 as a function of x**2, for |x| <= 0.625
_TANH = (
    -0.3333328366279602, 0.133314847946167, -0.05374300479888916, 0.020649103447794914, -0.0057154991663992405,
)  # fmt: skip


# erf(x) / x - 1 as a function of x**2, for |x| <= 0.85
_ERF_NEAR = (
    0.12837916612625122, -0.3761262893676758, 0.11283621937036514, -0.02685518004000187, 0.005189991090446711,
    -0.0008008683216758072, 7.757194543955848e-05,
)  # fmt: skip
# log(erfc(x)) for x from 0.85 to 4
_ERF_FAR = (
    0.0001562955294502899, -1.1294249296188354, -0.6335318088531494, -0.10807354748249054, 0.024984044954180717,
    -0.004119022749364376, 0.00042360610677860677, -2.014723031606991e-05,
)  # fmt: skip
# The two tables of tails begin with the logarithm of a factor near 1 that makes their next number one of float32.
# (x + 3) * exp(x**2 / 2) * P(normal variable > x) for x from 0 to 15, as a function of 6 / (x + 3) - 1
_NORMAL_TAIL = (
    -3.6338251157259616e-08,
    0.7290837168693542, 0.509332001209259, 0.23001770675182343, 0.047262854874134064, -0.010462531819939613,
    -0.006970261223614216, 0.0010250649647787213, 0.0010347377974539995, -0.00024586365907453,
    -0.0001330558879999444, 5.5686461564619094e-05,
)  # fmt: skip
# (x + 2.125) * exp(x**2) * erfc(x) for x from 0 to 10.6, as a function of 4.25 / (x + 2.125) - 1
_ERFC = (
    -1.2655826147098744e-08,
    1.0313490629196167, 0.7212574481964111, 0.32665082812309265, 0.06779657304286957, -0.014532980509102345,
    -0.009938317351043224, 0.0013918704353272915, 0.0014787520049139857, -0.00033978227293118834,
    -0.00019374940893612802, 8.032503683352843e-05,
)  # fmt: skip


def polynomial(b: IRFunction, coefficients: Sequence[float], x: Value) -> Value:
    """The polynomial with these coefficients, lowest power first.

    Neighbouring terms are paired until one is left (Estrin's scheme): twice as fast as Horner's, because the processor
    waits for results here, not for instructions.
    """
    terms: list[Value | float] = list(coefficients)
    while len(terms) > 1:
        pairs: list[Value | float] = [b.fma(x, terms[i + 1], terms[i]) for i in range(0, len(terms) - 1, 2)]
        terms = pairs + terms[len(pairs) * 2 :]
        if len(terms) > 1:
            x = x * x
    (total,) = terms
    assert isinstance(total, Value)
    return total


def library(b: IRFunction, name: str, *xs: Value) -> Value:
    """A function of the C library, called for one lane after the other; `name` is that of its float64 form."""
    type_ = xs[0].type
    callee = b.module.declare(name + "f" * (type_.lane is f32), type_.lane, [type_.lane] * len(xs))
    if type_.lanes == 1:
        return b.call(callee, *xs)
    out = b.undefined(type_)
    for lane in range(type_.lanes):
        out = b.insert(out, b.call(callee, *(b.extract(x, lane) for x in xs)), lane)
    return out


def any_lane(b: IRFunction, condition: Value) -> Value:
    """One bit: whether the condition holds in some lane."""
    if condition.type.lanes == 1:
        return condition
    whole = Type(f"i{condition.type.lanes}", "i", condition.type.lanes)
    return b.bitcast(condition, whole) != 0


def magnitude(b: IRFunction, x: Value) -> Value:
    return b.intrinsic("fabs", x)


def at_most(b: IRFunction, x: Value, high: float) -> Value:
    """The smaller of both; NaN stays."""
    return b.select(x > high, high, x)


def at_least(b: IRFunction, x: Value, low: float) -> Value:
    """The larger of both; NaN stays."""
    return b.select(x < low, low, x)


# ---- exponentials


def _exp_terms(b: IRFunction, x: Value, more: Operand = 0.0) -> tuple[Value, Value, Value]:
    """(high, rest, n) with exp(x + more) = (1 + high + rest) * 2**n, for |x| below a million and tiny `more`.

    `high` is exact.
    """
    shifted = b.fma(x, _LOG2_E, _ROUNDER)
    n = shifted - _ROUNDER
    high = b.fma(n, -_LN2_HIGH, x)
    low = b.fma(n, -_LN2_LOW, more)
    r = high + low
    rest = b.fma(r * r, polynomial(b, _EXP, r), low)
    return high, rest, _integer(b, shifted)


def _integer(b: IRFunction, shifted: Value) -> Value:
    """The number that was added to _ROUNDER."""
    return b.bitcast(shifted, with_lanes(i32, shifted.type.lanes)) - _ROUNDER_BITS


def exp_parts(b: IRFunction, x: Value) -> tuple[Value, Value]:
    """(m, n) with exp(x) = m * 2**n and m from sqrt(1/2) to sqrt(2), for |x| below a million."""
    high, rest, n = _exp_terms(b, x)
    m = high + 1.0
    lost = high - (m - 1.0)
    return m + (lost + rest), n


def _exp2_less_one(b: IRFunction, r: Value) -> Value:
    """2**r - 1 for |r| <= 1 / 2, about 2**-26 off."""
    return b.fma(r, math.log(2.0), r * r * polynomial(b, _EXP2, r))


def power_of_two(b: IRFunction, n: Value) -> Value:
    """2**n as float32, for n from -126 to 127."""
    return b.bitcast((n + 127) << 23, with_lanes(f32, n.type.lanes))


def scale(b: IRFunction, x: Value, n: Value) -> Value:
    """x * 2**n, rounded once, for |n| <= 252: in two steps, because 2**n itself may be out of range."""
    half = n >> 1
    return x * power_of_two(b, half) * power_of_two(b, n - half)


def _scale_one_plus(b: IRFunction, t: Value, n: Value) -> Value:
    """(1 + t) * 2**n for |t| < 1 / 2, rounded once, for |n| <= 252."""
    half = n >> 1
    power = power_of_two(b, half)
    return b.fma(power, t, power) * power_of_two(b, n - half)


def _exp_in_range(b: IRFunction, x: Value) -> Value:
    high, rest, n = _exp_terms(b, x)
    return _scale_one_plus(b, high + rest, n)


def exp(b: IRFunction, x: Value) -> Value:
    return _exp_in_range(b, at_most(b, at_least(b, x, -104.0), 89.0))


def decay(b: IRFunction, x: Value) -> Value:
    """exp(-|x|)."""
    return _exp_in_range(b, -at_most(b, magnitude(b, x), 104.0))


def exp2(b: IRFunction, x: Value) -> Value:
    x = at_most(b, at_least(b, x, -151.0), 129.0)
    shifted = x + _ROUNDER
    return _scale_one_plus(b, _exp2_less_one(b, x - (shifted - _ROUNDER)), _integer(b, shifted))


def expm1(b: IRFunction, x: Value) -> Value:
    high, rest, n = _exp_terms(b, at_most(b, at_least(b, x, -20.0), 89.0))
    half = power_of_two(b, n - 1)  # 2**n would overflow where the result does not yet
    y = b.fma(half, high + rest, half - 0.5)
    return b.select(magnitude(b, x) < 2.0**-26, x, y + y)


def _logistic(b: IRFunction, x: Value, t: Value, shifted: Value, limit: int) -> Value:
    """x / (1 + (1 + t) * 2**n) where `shifted` is n + _ROUNDER, for |t| < 1 / 2; it is x * 0 for n = limit + 127.

    n is above -127 and at most that, and `limit` from 25 to 100.
    """
    integer = with_lanes(i32, t.type.lanes)
    bounded = at_most(b, shifted, _ROUNDER + limit)
    power = b.bitcast(b.bitcast(bounded, integer) << 23, t.type)
    whole = power + 1.0
    lost = 1.0 - (whole - power)  # 1 where the power is too large to tell
    y = x / (b.fma(power, t, lost) + whole)
    # The rest of the power comes last: the result may be denormal, and 1 / 2**n is.
    return y * power_of_two(b, b.bitcast(bounded, integer) - b.bitcast(shifted, integer))


def _times_sigmoid(b: IRFunction, x: Value, z: Value, limit: int) -> Value:
    shifted = b.fma(z, -_LOG2_E, _ROUNDER)
    n = shifted - _ROUNDER
    r = b.fma(n, -_LN2_LOW, b.fma(n, -_LN2_HIGH, -z))
    return _logistic(b, x, b.fma(r * r, polynomial(b, _EXP, r), r), shifted, limit)


def sigmoid(b: IRFunction, x: Value) -> Value:
    return _times_sigmoid(b, b.const(x.type, 1.0), at_most(b, at_least(b, x, -105.0), 20.0), 100)


def silu(b: IRFunction, x: Value) -> Value:
    # From -120 on down n is 173, so that finite numbers give 0 and minus infinity NaN.
    return _times_sigmoid(b, x, at_most(b, at_least(b, x, -120.0), 20.0), 173 - 127)


def gelu_tanh(b: IRFunction, x: Value) -> Value:
    """x * sigmoid(2 * sqrt(2 / pi) * (x + 0.044715 * x**3)), the same as with (1 + tanh(.)) / 2."""
    z = at_most(b, at_least(b, x, -11.5), 6.0)
    # One float32 would lose a part of the exponent that is hundreds of ulp of the result.
    square = z * z
    square_low = b.fma(z, z, -square)
    p = b.fma(square, _GELU_CUBIC_HIGH, _GELU_LINEAR_HIGH)
    p_low = b.fma(square_low, _GELU_CUBIC_HIGH, b.fma(square, _GELU_CUBIC_LOW, _GELU_LINEAR_LOW))
    p_low = b.fma(square, _GELU_CUBIC_HIGH, _GELU_LINEAR_HIGH - p) + p_low
    shifted = b.fma(z, p, _ROUNDER)
    r = b.fma(z, p_low, b.fma(z, p, _ROUNDER - shifted))
    # From -11.5 on down n is 183, so that finite numbers give 0 and minus infinity NaN.
    return _logistic(b, x, _exp2_less_one(b, r), shifted, 183 - 127)


def gelu_tanh_slope(b: IRFunction, x: Value) -> Value:
    """The derivative of gelu_tanh, to 3e-7."""
    z = at_most(b, at_least(b, x, -9.5), 6.0)  # there it is 0 and 1 but for 1e-9
    square = z * z
    p = b.fma(square, _GELU_CUBIC_HIGH, _GELU_LINEAR)
    shifted = b.fma(z, p, _ROUNDER)
    t = _exp2_less_one(b, b.fma(z, p, _ROUNDER - shifted))
    power = b.bitcast(b.bitcast(shifted, with_lanes(i32, x.type.lanes)) << 23, x.type)
    e = b.fma(power, t, power)
    s = 1.0 / (e + 1.0)
    growth = z * b.fma(square, -3.0 * _GELU_CUBIC_HIGH / _LOG2_E, -_GELU_LINEAR / _LOG2_E)
    return s * b.fma(growth, e * s, 1.0)  # e * s is 1 - s, which would cancel


def relu_minus(b: IRFunction, x: Value, y: Value) -> Value:
    """max(x, 0) - y, and NaN at minus infinity: the gated units are x times a number that has become 0 there."""
    y = b.select(x == -math.inf, math.nan, y)
    return at_least(b, x, -0.0) - y  # -0.0 - 0.0 is -0.0


def mish(b: IRFunction, x: Value) -> Value:
    """x * tanh(log(1 + exp(x))), as a quotient of polynomials in exp(-|x|)."""
    negative = x < 0.0
    bounded = at_least(b, x, -120.0)
    m, n = exp_parts(b, -at_most(b, magnitude(b, x), 120.0))
    e = scale(b, m, n)
    top = b.select(negative, e + 2.0, b.fma(e, 2.0, 1.0))
    under = b.select(negative, b.fma(e, e + 2.0, 2.0), b.fma(e * e, 2.0, top))
    # Scaled last: exp(x) may be denormal where the product is not.
    y = bounded * b.select(negative, m, 1.0) * (top / under)
    y = scale(b, y, b.select(negative, n, 0))
    return b.select(x == -math.inf, math.nan, y)


def softplus(b: IRFunction, x: Value) -> Value:
    """log(1 + exp(x))."""
    e = decay(b, x)
    whole = e + 1.0
    lost = e - (whole - 1.0)
    lost = lost * b.fma(e, b.fma(e, 0.5, -1.0), 1.0)  # about lost / whole, and exactly that where whole is 1
    large = whole > math.sqrt(2.0)
    f = b.select(large, whole * 0.5, whole) - 1.0
    n = b.select(large, 1.0, b.const(x.type, 0.0))
    y = f + (b.fma(n, _LN2_LOW, log_tail(b, f)) + lost)
    return at_least(b, x, 0.0) + b.fma(n, _LN2_HIGH, y)


def tanh(b: IRFunction, x: Value) -> Value:
    size = magnitude(b, x)
    square = size * size
    near = b.fma(square * size, polynomial(b, _TANH, square), size)
    m, n = exp_parts(b, at_most(b, size + size, 20.0))
    far = 1.0 - 2.0 / b.fma(m, power_of_two(b, n), 1.0)
    return b.intrinsic("copysign", b.select(size < 0.625, near, far), x)


# ---- logarithms


def log_parts(b: IRFunction, x: Value) -> tuple[Value, Value]:
    """(f, n) with x = (1 + f) * 2**n and 1 + f from sqrt(1/2) to sqrt(2), for positive finite x."""
    integer = with_lanes(i32, x.type.lanes)
    tiny = x < _SMALLEST_NORMAL
    bits = b.bitcast(b.select(tiny, x * 2.0**23, x), integer)
    n = (bits - 0x3F3504F3) >> 23
    f = b.bitcast(bits - (n << 23), x.type) - 1.0
    n = n - b.select(tiny, b.const(integer, 23), b.const(integer, 0))
    return f, b.cast("sitofp", n, f32)


def log_tail(b: IRFunction, f: Value) -> Value:
    """log(1 + f) - f."""
    square = f * f
    return b.fma(-0.5, square, square * f * polynomial(b, _LOG, f))


def at_edges(b: IRFunction, x: Value, y: Value) -> Value:
    """y, the logarithm of x, with what it is at 0, infinity and NaN and below 0."""
    edge = b.select(x < 0.0, math.nan, b.select(x == 0.0, -math.inf, x))
    return b.select((x > 0.0) & (x < math.inf), y, edge)


def log(b: IRFunction, x: Value) -> Value:
    f, n = log_parts(b, x)
    tail = b.fma(n, _LN2_LOW, log_tail(b, f))
    return at_edges(b, x, b.fma(n, _LN2_HIGH, f + tail))


def log2(b: IRFunction, x: Value) -> Value:
    f, n = log_parts(b, x)
    high = f * _LOG2_E_HIGH
    low = b.fma(log_tail(b, f), _LOG2_E, b.fma(f, _LOG2_E_LOW, b.fma(f, _LOG2_E_HIGH, -high)))
    return at_edges(b, x, n + (high + low))


def log10(b: IRFunction, x: Value) -> Value:
    f, n = log_parts(b, x)
    high = f * _LOG10_E_HIGH
    low = b.fma(log_tail(b, f), _LOG10_E, b.fma(f, _LOG10_E_LOW, b.fma(f, _LOG10_E_HIGH, -high)))
    return at_edges(b, x, b.fma(n, _LOG10_2_HIGH, high + b.fma(n, _LOG10_2_LOW, low)))


def log1p(b: IRFunction, x: Value) -> Value:
    whole = x + 1.0
    f, n = log_parts(b, whole)
    lost = x - (whole - 1.0)  # what rounding took from 1 + x
    tail = b.fma(n, _LN2_LOW, log_tail(b, f)) + lost / whole
    y = at_edges(b, whole, b.fma(n, _LN2_HIGH, f + tail))
    return b.select(magnitude(b, x) < 2.0**-25, x, y)


# ---- error functions


def erf(b: IRFunction, x: Value) -> Value:
    size = at_most(b, magnitude(b, x), 4.0)
    square = size * size
    near = b.fma(size, polynomial(b, _ERF_NEAR, square), size)
    m, n = exp_parts(b, polynomial(b, _ERF_FAR, size))
    far = b.fma(-m, power_of_two(b, n), 1.0)
    return b.intrinsic("copysign", b.select(size < 0.85, near, far), x)


def _tail(
    b: IRFunction, size: Value, factor: Value | None, square_factor: float, offset: float, table: Sequence[float]
) -> Value:
    """factor * exp(square_factor * size**2) * (what `table` describes) / (size + offset), to about one ulp.

    Five roundings would add up to more, so what the largest of them take is carried along.
    """
    whole = size + offset
    w = 1.0 / whole
    t = b.fma(w, 2.0 * offset, -1.0)
    lost = b.fma(-w, whole, 1.0) - w * (size - (whole - offset))  # what rounding took from w, relative to it,
    lost = b.fma(lost, b.fma(t, 0.768, 1.692), table[0])  # and what the result loses by it
    square = size * size
    more = b.fma(b.fma(size, size, -square), square_factor, lost)
    high, rest, n = _exp_terms(b, square * square_factor, more)
    slope = b.fma(t, polynomial(b, table[3:], t), table[2])
    p = b.fma(t, slope, table[1])
    p_more = b.fma(t, slope, table[1] - p)
    q = b.fma(p, high + rest, p_more)
    y = p + q
    y_more = p - y + q
    if factor is None:
        return scale(b, b.fma(y, w, y_more * w), n)
    u = w * factor
    u_more = b.fma(w, factor, -u)
    return scale(b, b.fma(y, u, b.fma(y_more, u, y * u_more)), n)


def erfc(b: IRFunction, x: Value) -> Value:
    size = at_most(b, magnitude(b, x), 10.5)
    y = _tail(b, size, None, -1.0, 2.125, _ERFC)
    return b.select(x < 0.0, 2.0 - y, y)


def gelu(b: IRFunction, x: Value) -> Value:
    """x times the probability that a normal variable stays below x."""
    size = at_most(b, magnitude(b, x), 15.0)
    return relu_minus(b, x, _tail(b, size, size, -0.5, 3.0, _NORMAL_TAIL))
