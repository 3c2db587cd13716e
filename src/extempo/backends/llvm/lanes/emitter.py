"""Emitter: the vocabulary in which ops write native code for one element.

`lower(e, x, y)` of an elementwise op says what happens to one element; `e` writes it for all lanes of a vector at
once. Methods take values or Python numbers, which take the type of the other operand. What a method does follows the
lanes' type: floats, integers (which wrap around) or truth values (one bit). No method is undefined for any bits that
come in: lanes beyond the end of an operand have any value, and their results are thrown away.

    @staticmethod
    def lower(e, x, slope):
        return e.where(e.gt(x, 0), x, e.mul(x, slope))
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ....core.types import dtype
from ..ir.builder import IRFunction, IRVariable, Type, Value, f32, f64, i1, i32, i64, vector, with_lanes
from . import double_math, library_math, powers, remainders, trigonometry, vector_math
from .library_math import called

Operand = Value | float | int | bool
Written = Callable[[IRFunction, Value], Value]

LANE_TYPES: dict[str, Type] = {"float32": f32, "float64": f64, "int64": i64, "int32": i32, "bool": i1}


class NotNative(Exception):
    """Raised while code is written: this op has none for these types; its NumPy kernel runs instead."""


def _function(single: Written, double: Written | None = None) -> Callable[[Emitter, Value], Value]:
    """A method for a function of one floating value, as it is written for float32 and (if not the same) for float64."""

    def method(self: Emitter, x: Value) -> Value:
        return single(self.b, x) if x.type.lane is f32 or double is None else double(self.b, x)

    return method


class Emitter:
    """Writes code into one function.

    `refused` is a variable of one bit that the kernel reports: an op sets it when it meets an element that is an error,
    and its NumPy kernel then runs and raises it. `live` are the lanes that exist, None when all do. `lanes` is how many
    there are, for what begins as a number.
    """

    def __init__(self, b: IRFunction, refused: IRVariable | None = None, lanes: int = 1) -> None:
        self.b = b
        self.lanes = lanes
        self.refused = refused
        self.live: Value | None = None
        self.may_refuse = False  # whether some element could have been an error, so far

    def refuse_where(self, condition: Value) -> None:
        """An element for which this holds is an error."""
        if self.refused is None:
            raise NotNative("this kernel cannot report that an element is an error")
        self.may_refuse = True
        if self.live is not None:
            condition = condition & self.live
        self.refused.set(self.refused.value | self.any(condition))

    def any(self, condition: Value) -> Value:
        """One bit: whether it holds in some lane."""
        return vector_math.any_lane(self.b, condition)

    # ---- operands

    def pair(self, x: Operand, y: Operand) -> tuple[Value, Value]:
        """Both as values of one type."""
        values = [v for v in (x, y) if isinstance(v, Value)]
        if not values:
            raise TypeError(f"an operation on the numbers {x} and {y} alone; compute it in Python")
        widest = max(values, key=lambda v: v.type.lanes).type
        return self.b.as_value(x, widest), self.b.as_value(y, widest)

    def number(self, value: Operand, like: Value) -> Value:
        """A number as a value of another one's type."""
        return self.b.as_value(value, like.type)

    # ---- arithmetic

    def add(self, x: Operand, y: Operand) -> Value:
        a, c = self.pair(x, y)
        return a | c if _is_truth(a) else a + c

    def sub(self, x: Operand, y: Operand) -> Value:
        a, c = self.pair(x, y)
        return a - c

    def mul(self, x: Operand, y: Operand) -> Value:
        a, c = self.pair(x, y)
        return a & c if _is_truth(a) else a * c

    def div(self, x: Operand, y: Operand) -> Value:
        """The quotient of floats."""
        a, c = self.pair(x, y)
        if not _is_float(a):
            raise TypeError(f"div: expected floating lanes, got {a.type}; integers have floor_divide")
        return a / c

    def neg(self, x: Value) -> Value:
        return -x

    def abs(self, x: Value) -> Value:
        if _is_float(x):
            return self.b.intrinsic("fabs", x)
        return self.b.select(x < 0, -x, x)

    def fma(self, x: Operand, y: Operand, z: Operand) -> Value:
        """x * y + z, rounded once."""
        return self.b.fma(x, y, z)

    def maximum(self, x: Operand, y: Operand) -> Value:
        """The larger of both; NaN wins."""
        return self._extreme(x, y, "gt", "or")

    def minimum(self, x: Operand, y: Operand) -> Value:
        """The smaller of both; NaN wins."""
        return self._extreme(x, y, "lt", "and")

    def _extreme(self, x: Operand, y: Operand, wins: str, on_truth: str) -> Value:
        a, c = self.pair(x, y)
        if _is_truth(a):
            return self.b.binary(on_truth, a, c)
        if not _is_float(a):
            return self.b.select(self._condition(f"icmp s{wins}", a, c), a, c)
        if not isinstance(y, Value):  # not NaN, so "wins or cannot be compared" is enough
            return self.b.select(self._condition(f"fcmp u{wins}", a, c), a, c)
        picked = self.b.select(self._condition(f"fcmp o{wins}", a, c), a, c)  # c where either is NaN
        return self.b.select(a != a, a, picked)

    def _condition(self, code: str, a: Value, c: Value) -> Value:
        return self.b.emit(vector(i1, a.type.lanes), f"{code} {a.type.text} {a.text}, {c.text}")

    def fmax(self, x: Operand, y: Operand) -> Value:
        """The larger of both; a number wins over NaN."""
        a, c = self.pair(x, y)
        return self.b.select((a >= c) | (c != c), a, c) if _is_float(a) else self.maximum(a, c)

    def fmin(self, x: Operand, y: Operand) -> Value:
        """The smaller of both; a number wins over NaN."""
        a, c = self.pair(x, y)
        return self.b.select((a <= c) | (c != c), a, c) if _is_float(a) else self.minimum(a, c)

    def sign(self, x: Value) -> Value:
        """-1, 0 or 1; 0 for NaN."""
        if _is_truth(x):
            return x
        return self.b.select(x > 0, 1, self.b.select(x < 0, self.number(-1, x), self.number(0, x)))

    def copysign(self, x: Operand, y: Operand) -> Value:
        return self.b.intrinsic("copysign", *self.pair(x, y))

    def sqrt(self, x: Value) -> Value:
        return self.b.intrinsic("sqrt", x)

    def rsqrt(self, x: Value) -> Value:
        return 1.0 / self.sqrt(x)

    def reciprocal(self, x: Value) -> Value:
        return 1.0 / x

    # ---- division with a remainder, and powers

    def floor_divide(self, x: Operand, y: Operand) -> Value:
        """The quotient rounded towards minus infinity."""
        a, c = self.pair(x, y)
        if _is_float(a):
            return remainders.floor_quotient(self.b, a, c)
        self.refuse_where(c == 0)
        return remainders.integer_floor_quotient(self.b, a, c)

    def remainder(self, x: Operand, y: Operand) -> Value:
        """What is left after dividing, with the sign of the divisor."""
        a, c = self.pair(x, y)
        if not _is_float(a):
            self.refuse_where(c == 0)
            return remainders.with_sign_of(self.b, remainders.integer_remainder(self.b, a, c), c)
        return remainders.with_sign_of(self.b, self.fmod(a, c), c)  # a rest of 0 has the sign of the dividend

    def fmod(self, x: Operand, y: Operand) -> Value:
        """What is left after dividing, with the sign of the dividend."""
        a, c = self.pair(x, y)
        if _is_float(a):
            return remainders.truncated(self.b, a, c)
        self.refuse_where(c == 0)
        return remainders.integer_remainder(self.b, a, c)

    def pow(self, x: Operand, y: Operand, *, by_roots: bool = False) -> Value:
        """x to the power y; `by_roots`: that of 1/2 is sqrt(x), which differs from C's power at -0.0 and -inf."""
        a, c = self.pair(x, y)
        if _is_truth(a):
            return a | ~c
        return powers.power(self.b, a, c, by_roots) if _is_float(a) else powers.integer_power(self.b, a, c)

    # ---- rounding

    def floor(self, x: Value) -> Value:
        return self.b.intrinsic("floor", x) if _is_float(x) else x

    def ceil(self, x: Value) -> Value:
        return self.b.intrinsic("ceil", x) if _is_float(x) else x

    def trunc(self, x: Value) -> Value:
        return self.b.intrinsic("trunc", x) if _is_float(x) else x

    def round_half_even(self, x: Value) -> Value:
        """To the nearest whole number; halves go to the even one."""
        return self.b.intrinsic("roundeven", x) if _is_float(x) else x

    # ---- questions

    def eq(self, x: Operand, y: Operand) -> Value:
        a, c = self.pair(x, y)
        return a == c

    def ne(self, x: Operand, y: Operand) -> Value:
        a, c = self.pair(x, y)
        return a != c

    def lt(self, x: Operand, y: Operand) -> Value:
        return self._compare("<", x, y)

    def le(self, x: Operand, y: Operand) -> Value:
        return self._compare("<=", x, y)

    def gt(self, x: Operand, y: Operand) -> Value:
        return self._compare(">", x, y)

    def ge(self, x: Operand, y: Operand) -> Value:
        return self._compare(">=", x, y)

    def _compare(self, sign: str, x: Operand, y: Operand) -> Value:
        a, c = self.pair(x, y)
        return self.b.compare(sign, a, c, unsigned=_is_truth(a))  # one signed bit would be -1

    def isnan(self, x: Value) -> Value:
        return x != x if _is_float(x) else self._truth(False, x)

    def isinf(self, x: Value) -> Value:
        return self.abs(x) == math.inf if _is_float(x) else self._truth(False, x)

    def isfinite(self, x: Value) -> Value:
        return self.abs(x) < math.inf if _is_float(x) else self._truth(True, x)

    def signbit(self, x: Value) -> Value:
        """Whether the sign bit is set; it is for -0.0 too."""
        if _is_truth(x):
            return self._truth(False, x)
        integer = with_lanes(i64 if x.type.bits == 64 else i32, x.type.lanes)
        return self.b.bitcast(x, integer) < 0

    def _truth(self, value: bool, like: Value) -> Value:
        return self.b.const(vector(i1, like.type.lanes), value)

    def truth(self, x: Operand, like: Value | None = None) -> Value:
        """Whether x is not 0; NaN is not."""
        if not isinstance(x, Value):
            assert like is not None
            return self._truth(bool(x), like)
        return x if _is_truth(x) else x != 0

    def where(self, condition: Operand, x: Operand, y: Operand) -> Value:
        """x where the condition holds, y elsewhere."""
        a, c = self.pair(x, y)
        if a.type is not c.type:
            raise TypeError(f"where: operands are {a.type} and {c.type}")
        return self.b.select(self.truth(condition, a), a, c)

    # ---- bits and logic

    def logical_and(self, x: Operand, y: Operand) -> Value:
        a, c = self.pair(x, y)
        return self.truth(a) & self.truth(c)

    def logical_or(self, x: Operand, y: Operand) -> Value:
        a, c = self.pair(x, y)
        return self.truth(a) | self.truth(c)

    def logical_xor(self, x: Operand, y: Operand) -> Value:
        a, c = self.pair(x, y)
        return self.truth(a) ^ self.truth(c)

    def logical_not(self, x: Value) -> Value:
        return ~self.truth(x)

    def bitwise_and(self, x: Operand, y: Operand) -> Value:
        a, c = self.pair(x, y)
        return a & c

    def bitwise_or(self, x: Operand, y: Operand) -> Value:
        a, c = self.pair(x, y)
        return a | c

    def bitwise_xor(self, x: Operand, y: Operand) -> Value:
        a, c = self.pair(x, y)
        return a ^ c

    def bitwise_not(self, x: Value) -> Value:
        return ~x

    def bitwise_left_shift(self, x: Operand, y: Operand) -> Value:
        """Bits moved up; 0 when all are gone, as for a negative number of places."""
        a, c, inside = self._places(x, y)
        return self.b.select(inside, a << c, 0)

    def bitwise_right_shift(self, x: Operand, y: Operand) -> Value:
        """Bits moved down, keeping the sign."""
        a, c, inside = self._places(x, y)
        return self.b.select(inside, a >> c, self.b.select(a < 0, self.number(-1, a), self.number(0, a)))

    def _places(self, x: Operand, y: Operand) -> tuple[Value, Value, Value]:
        a, c = self.pair(x, y)
        inside = (c >= 0) & (c < a.type.bits)
        return a, self.b.select(inside, c, 0), inside  # moving by more places than there are bits is undefined

    # ---- conversion

    def cast(self, x: Value, to: dtype) -> Value:
        """The value in another dtype: floats go towards zero, and NaN and what is too large to the least integer."""
        if to._name not in LANE_TYPES:
            raise NotNative(f"no native lanes of {to}")
        lane = LANE_TYPES[to._name]
        b, source = self.b, x.type
        if source.lane is lane:
            return x
        if lane is i1:
            return self.truth(x)
        if source.kind == "f" and lane.kind == "f":
            return b.cast("fpext" if lane.bits > source.bits else "fptrunc", x, lane)
        if source.kind == "f":
            return self._to_integer(x, lane)
        if lane.kind == "f":
            return b.cast("uitofp" if _is_truth(x) else "sitofp", x, lane)
        return b.cast("zext" if _is_truth(x) else "sext" if lane.bits > source.bits else "trunc", x, lane)

    def _to_integer(self, x: Value, lane: Type) -> Value:
        least = -(2.0 ** (lane.bits - 1))
        # The numbers above least - 1 come out as least; where that cannot be written, there are none in between.
        exact = lane is i32 and x.type.lane is f64
        fits = (x > least - 1.0 if exact else x >= least) & (x < -least)
        safe = self.b.cast("fptosi", self.b.select(fits, x, 0.0), lane)
        return self.b.select(fits, safe, self.b.const(with_lanes(lane, x.type.lanes), int(least)))

    # ---- functions of floating values

    exp = _function(vector_math.exp, double_math.exp)
    exp2 = _function(vector_math.exp2, called("exp2"))
    expm1 = _function(vector_math.expm1, double_math.expm1)
    log = _function(vector_math.log, double_math.log)
    log1p = _function(vector_math.log1p, double_math.log1p)
    log2 = _function(vector_math.log2, called("log2"))
    log10 = _function(vector_math.log10, called("log10"))

    sigmoid = _function(vector_math.sigmoid, library_math.sigmoid)
    softplus = _function(vector_math.softplus, library_math.softplus)
    silu = _function(vector_math.silu, library_math.silu)
    gelu = _function(vector_math.gelu, library_math.gelu)
    gelu_tanh = _function(vector_math.gelu_tanh, library_math.gelu_tanh)
    gelu_tanh_slope = _function(vector_math.gelu_tanh_slope, library_math.gelu_tanh_slope)
    mish = _function(vector_math.mish, library_math.mish)

    erf = _function(vector_math.erf, called("erf"))
    erfc = _function(vector_math.erfc, called("erfc"))
    lgamma = _function(library_math.lgamma)

    sin = _function(trigonometry.sin, called("sin"))
    cos = _function(trigonometry.cos, called("cos"))
    tan = _function(double_math.tan, called("tan"))
    asin = _function(double_math.asin, called("asin"))
    acos = _function(double_math.acos, called("acos"))
    atan = _function(double_math.atan, called("atan"))
    sinh = _function(double_math.sinh, called("sinh"))
    cosh = _function(double_math.cosh, called("cosh"))
    tanh = _function(vector_math.tanh, double_math.tanh)
    asinh = _function(double_math.asinh, called("asinh"))
    acosh = _function(double_math.acosh, called("acosh"))
    atanh = _function(double_math.atanh, called("atanh"))

    def atan2(self, x: Operand, y: Operand) -> Value:
        a, c = self.pair(x, y)
        single = a.type.lane is f32
        return double_math.atan2(self.b, a, c) if single else vector_math.library(self.b, "atan2", a, c)

    def hypot(self, x: Operand, y: Operand) -> Value:
        return vector_math.library(self.b, "hypot", *self.pair(x, y))

    def nextafter(self, x: Operand, y: Operand) -> Value:
        return vector_math.library(self.b, "nextafter", *self.pair(x, y))


def _is_truth(x: Value) -> bool:
    return x.type.bits == 1


def _is_float(x: Value) -> bool:
    return x.type.kind == "f"
