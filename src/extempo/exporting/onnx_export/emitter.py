"""OnnxEmitter: an op's native code for single elements (`lower`), said in ONNX's operators.

`lower` of an elementwise op is a function of an emitter: `e.where(e.gt(x, 0.0), x, e.mul(x, slope))`. This one adds
ONNX nodes. Where ONNX has no such operator, or onnxruntime computes it in float32 only, it is made of others.
"""

from __future__ import annotations

import math
from typing import Any

from ...backends.numpy import special
from ...core.types import bool_, dtype, float32, int32, int64
from .builder import Builder, OnnxValue

Operand = Any  # a value or a number
_PLAIN = {
    "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "sin": "Sin", "cos": "Cos", "tanh": "Tanh", "sigmoid": "Sigmoid",
    "reciprocal": "Reciprocal",
}  # fmt: skip


class OnnxEmitter:
    """See the module's text; methods are those of the native emitter."""

    def __init__(self, b: Builder) -> None:
        self.b = b

    def __getattr__(self, name: str) -> Any:
        if name not in _PLAIN:
            raise AttributeError(name)
        return lambda x: self.b.emit(_PLAIN[name], x)

    def refuse_where(self, condition: OnnxValue) -> None:
        """An error of eager mode; an ONNX model has none."""

    def number(self, value: Operand, like: OnnxValue) -> OnnxValue:
        """A value in the shape of another one."""
        made: OnnxValue = self.b.Expand(self.b.value(value, like.dtype), self.b.Shape(like))
        return made

    def _pair(self, x: Operand, y: Operand) -> tuple[OnnxValue, OnnxValue]:
        like = x.dtype if isinstance(x, OnnxValue) else y.dtype
        return self.b.value(x, like), self.b.value(y, like)

    # ---- arithmetic

    def add(self, x: Operand, y: Operand) -> OnnxValue:
        return self._arithmetic("Add", "Or", x, y)

    def sub(self, x: Operand, y: Operand) -> OnnxValue:
        return self._arithmetic("Sub", "Xor", x, y)

    def mul(self, x: Operand, y: Operand) -> OnnxValue:
        return self._arithmetic("Mul", "And", x, y)

    def _arithmetic(self, kind: str, on_truth: str, x: Operand, y: Operand) -> OnnxValue:
        a, c = self._pair(x, y)
        made: OnnxValue = self.b.emit(on_truth if _is_truth(a) else kind, a, c)
        return made

    def div(self, x: Operand, y: Operand) -> OnnxValue:
        made: OnnxValue = self.b.Div(*self._pair(x, y))
        return made

    def neg(self, x: OnnxValue) -> OnnxValue:
        made: OnnxValue = self.b.Neg(x)
        return made

    def abs(self, x: OnnxValue) -> OnnxValue:
        made: OnnxValue = self.b.Abs(x)
        return made

    def sign(self, x: OnnxValue) -> OnnxValue:
        if _is_truth(x):
            return x
        return self.sub(self.b.cast(self.gt(x, 0), x.dtype), self.b.cast(self.lt(x, 0), x.dtype))

    def maximum(self, x: Operand, y: Operand) -> OnnxValue:
        return self._extreme("Max", "Or", x, y)

    def minimum(self, x: Operand, y: Operand) -> OnnxValue:
        return self._extreme("Min", "And", x, y)

    def _extreme(self, kind: str, on_truth: str, x: Operand, y: Operand) -> OnnxValue:
        a, c = self._pair(x, y)
        if a.dtype.category == 1 and a.dtype.itemsize == 2:  # onnxruntime has none for int16
            return self.b.cast(self.b.emit(kind, self.b.cast(a, int32), self.b.cast(c, int32)), a.dtype)
        made: OnnxValue = self.b.emit(on_truth if _is_truth(a) else kind, a, c)
        return made

    def fmax(self, x: Operand, y: Operand) -> OnnxValue:
        return self._known("maximum", x, y)

    def fmin(self, x: Operand, y: Operand) -> OnnxValue:
        return self._known("minimum", x, y)

    def _known(self, name: str, x: Operand, y: Operand) -> OnnxValue:
        a, c = self._pair(x, y)
        found: OnnxValue = getattr(self, name)(a, c)
        if not a.dtype.is_floating_point:
            return found
        return self.where(self.isnan(a), c, self.where(self.isnan(c), a, found))

    def copysign(self, x: Operand, y: Operand) -> OnnxValue:
        a, c = self._pair(x, y)
        size = self.abs(a)
        return self.where(self.signbit(c), self.neg(size), size)

    def rsqrt(self, x: OnnxValue) -> OnnxValue:
        return self.div(1.0, self.sqrt(x))

    def floor_divide(self, x: Operand, y: Operand) -> OnnxValue:
        a, c = self._pair(x, y)
        rest = self.sub(a, self.remainder(a, c))
        if not a.dtype.is_floating_point:
            return self.div(rest, c)
        quotient = self.round_half_even(self.div(rest, c))
        return self.where(self.logical_or(self.eq(c, 0.0), self.isinf(c)), self.floor(self.div(a, c)), quotient)

    def remainder(self, x: Operand, y: Operand) -> OnnxValue:
        a, c = self._pair(x, y)
        if not a.dtype.is_floating_point:
            made: OnnxValue = self.b.Mod(a, c)
            return made
        rest = self.fmod(a, c)
        is_wrong = self.logical_and(self.ne(rest, 0.0), self.ne(self.lt(rest, 0.0), self.lt(c, 0.0)))
        return self.where(is_wrong, self.add(rest, c), rest)

    def fmod(self, x: Operand, y: Operand) -> OnnxValue:
        made: OnnxValue = self.b.emit("Mod", *self._pair(x, y), fmod=1)
        return made

    def pow(self, x: Operand, y: Operand, *, by_roots: bool = False) -> OnnxValue:
        a, c = self._pair(x, y)
        if a.dtype.is_floating_point or a.dtype in (int32, int64):
            made: OnnxValue = self.b.Pow(a, c)
            return made
        return self.b.cast(self.b.Pow(self.b.cast(a, int64), self.b.cast(c, int64)), a.dtype)

    # ---- rounding

    def floor(self, x: OnnxValue) -> OnnxValue:
        return self._rounded("Floor", x)

    def ceil(self, x: OnnxValue) -> OnnxValue:
        return self._rounded("Ceil", x)

    def round_half_even(self, x: OnnxValue) -> OnnxValue:
        return self._rounded("Round", x)

    def trunc(self, x: OnnxValue) -> OnnxValue:
        return self.where(self.lt(x, 0), self.ceil(x), self.floor(x)) if x.dtype.is_floating_point else x

    def _rounded(self, kind: str, x: OnnxValue) -> OnnxValue:
        return self.b.emit(kind, x) if x.dtype.is_floating_point else x

    # ---- questions

    def eq(self, x: Operand, y: Operand) -> OnnxValue:
        made: OnnxValue = self.b.Equal(*self._pair(x, y))
        return made

    def ne(self, x: Operand, y: Operand) -> OnnxValue:
        return self._not(self.eq(x, y))

    def lt(self, x: Operand, y: Operand) -> OnnxValue:
        return self._compare("Less", x, y)

    def le(self, x: Operand, y: Operand) -> OnnxValue:
        return self._compare("LessOrEqual", x, y)

    def gt(self, x: Operand, y: Operand) -> OnnxValue:
        return self._compare("Greater", x, y)

    def ge(self, x: Operand, y: Operand) -> OnnxValue:
        return self._compare("GreaterOrEqual", x, y)

    def _compare(self, kind: str, x: Operand, y: Operand) -> OnnxValue:
        a, c = self._pair(x, y)
        if _is_truth(a):
            a, c = self.b.cast(a, int32), self.b.cast(c, int32)
        made: OnnxValue = self.b.emit(kind, a, c)
        return made

    def isnan(self, x: OnnxValue) -> OnnxValue:
        made: OnnxValue = self.b.IsNaN(self._floating(x))
        return made

    def isinf(self, x: OnnxValue) -> OnnxValue:
        made: OnnxValue = self.b.IsInf(self._single(x) if x.dtype.itemsize < 4 else self._floating(x))
        return made

    def isfinite(self, x: OnnxValue) -> OnnxValue:
        return self._not(self.logical_or(self.isnan(x), self.isinf(x)))

    def signbit(self, x: OnnxValue) -> OnnxValue:
        negative = self.lt(x, 0)
        return self.logical_or(negative, self.lt(self.div(1.0, x), 0.0)) if x.dtype.is_floating_point else negative

    def _floating(self, x: OnnxValue) -> OnnxValue:
        return x if x.dtype.is_floating_point else self.b.cast(x, float32)

    def truth(self, x: Operand) -> OnnxValue:
        return self.b.cast(x, bool_) if isinstance(x, OnnxValue) else self.b.constant(bool(x), bool_)

    def where(self, condition: Operand, x: Operand, y: Operand) -> OnnxValue:
        if not isinstance(x, OnnxValue) and not isinstance(y, OnnxValue):
            x = self.b.constant(x, float32 if isinstance(x, float) or isinstance(y, float) else int64)
        made: OnnxValue = self.b.Where(self.truth(condition), *self._pair(x, y))
        return made

    def logical_and(self, x: Operand, y: Operand) -> OnnxValue:
        made: OnnxValue = self.b.And(self.truth(x), self.truth(y))
        return made

    def logical_or(self, x: Operand, y: Operand) -> OnnxValue:
        made: OnnxValue = self.b.Or(self.truth(x), self.truth(y))
        return made

    def logical_xor(self, x: Operand, y: Operand) -> OnnxValue:
        made: OnnxValue = self.b.Xor(self.truth(x), self.truth(y))
        return made

    def logical_not(self, x: OnnxValue) -> OnnxValue:
        return self._not(self.truth(x))

    def _not(self, x: OnnxValue) -> OnnxValue:
        made: OnnxValue = self.b.Not(x)
        return made

    # ---- bits

    def bitwise_and(self, x: Operand, y: Operand) -> OnnxValue:
        return self._bits("And", x, y)

    def bitwise_or(self, x: Operand, y: Operand) -> OnnxValue:
        return self._bits("Or", x, y)

    def bitwise_xor(self, x: Operand, y: Operand) -> OnnxValue:
        return self._bits("Xor", x, y)

    def _bits(self, kind: str, x: Operand, y: Operand) -> OnnxValue:
        a, c = self._pair(x, y)
        if not _is_truth(a):
            self.b.require(18, f"Bitwise{kind}")
            kind = f"Bitwise{kind}"
        made: OnnxValue = self.b.emit(kind, a, c)
        return made

    def bitwise_not(self, x: OnnxValue) -> OnnxValue:
        return self._not(x) if _is_truth(x) else self.sub(self.neg(x), 1)

    def bitwise_left_shift(self, x: Operand, y: Operand) -> OnnxValue:
        a, c, inside = self._places(x, y)
        return self.where(inside, self.mul(a, self.pow(self.b.constant(2, a.dtype), c)), 0)

    def bitwise_right_shift(self, x: Operand, y: Operand) -> OnnxValue:
        a, c, inside = self._places(x, y)
        moved = self.floor_divide(a, self.pow(self.b.constant(2, a.dtype), c))
        return self.where(inside, moved, self.where(self.lt(a, 0), self.b.constant(-1, a.dtype), 0))

    def _places(self, x: Operand, y: Operand) -> tuple[OnnxValue, OnnxValue, OnnxValue]:
        a, c = self._pair(x, y)
        inside = self.logical_and(self.ge(c, 0), self.lt(c, 8 * a.dtype.itemsize - 1))
        return a, self.where(inside, c, 0), inside

    # ---- conversion

    def cast(self, x: OnnxValue, to: dtype) -> OnnxValue:
        return self.truth(x) if to is bool_ else self.b.cast(x, to)

    # ---- functions

    def _single(self, x: OnnxValue) -> OnnxValue:
        return self.b.cast(x, float32)

    def erf(self, x: OnnxValue) -> OnnxValue:
        if x.dtype is float32:
            made: OnnxValue = self.b.Erf(x)
            return made
        from .kernels import traced_kernel

        return traced_kernel(self.b, special.erf, [x], {})

    def tan(self, x: OnnxValue) -> OnnxValue:
        return self.b.Tan(x) if x.dtype is float32 else self.div(self.sin(x), self.cos(x))

    def asin(self, x: OnnxValue) -> OnnxValue:
        if x.dtype is float32:
            made: OnnxValue = self.b.Asin(x)
            return made
        return self.atan2(x, self._other_side(x))

    def acos(self, x: OnnxValue) -> OnnxValue:
        if x.dtype is float32:
            made: OnnxValue = self.b.Acos(x)
            return made
        return self.atan2(self._other_side(x), x)

    def _other_side(self, x: OnnxValue) -> OnnxValue:
        return self.sqrt(self.mul(self.sub(1.0, x), self.add(1.0, x)))

    def atan(self, x: OnnxValue) -> OnnxValue:
        if x.dtype is float32:
            made: OnnxValue = self.b.Atan(x)
            return made
        size = self.abs(x)
        is_steep = self.gt(size, 1.0)
        slope = self.where(is_steep, self.div(1.0, size), size)
        angle = self.b.cast(self.b.Atan(self._single(slope)), x.dtype)
        for _ in range(2):  # Newton's steps from the angle in float32, each doubling the digits
            sine, cosine = self.sin(angle), self.cos(angle)
            angle = self.sub(angle, self.mul(self.sub(sine, self.mul(slope, cosine)), cosine))
        return self.copysign(self.where(is_steep, self.sub(math.pi / 2, angle), angle), x)

    def sinh(self, x: OnnxValue) -> OnnxValue:
        if x.dtype is float32:
            made: OnnxValue = self.b.Sinh(x)
            return made
        grown = self.expm1(self.abs(x))
        return self.copysign(self.mul(0.5, self.add(grown, self.div(grown, self.add(grown, 1.0)))), x)

    def cosh(self, x: OnnxValue) -> OnnxValue:
        if x.dtype is float32:
            made: OnnxValue = self.b.Cosh(x)
            return made
        return self.mul(0.5, self.add(self.exp(x), self.exp(self.neg(x))))

    def asinh(self, x: OnnxValue) -> OnnxValue:
        if x.dtype is float32:
            made: OnnxValue = self.b.Asinh(x)
            return made
        size = self.abs(x)
        square = self.mul(size, size)
        inner = self.add(size, self.div(square, self.add(1.0, self.sqrt(self.add(square, 1.0)))))
        return self.copysign(self.log1p(inner), x)

    def acosh(self, x: OnnxValue) -> OnnxValue:
        if x.dtype is float32:
            made: OnnxValue = self.b.Acosh(x)
            return made
        return self.log(self.add(x, self.mul(self.sqrt(self.sub(x, 1.0)), self.sqrt(self.add(x, 1.0)))))

    def atanh(self, x: OnnxValue) -> OnnxValue:
        if x.dtype is float32:
            made: OnnxValue = self.b.Atanh(x)
            return made
        return self.mul(0.5, self.sub(self.log1p(x), self.log1p(self.neg(x))))

    def exp2(self, x: OnnxValue) -> OnnxValue:
        return self.pow(self.b.constant(2.0, x.dtype), x)

    def expm1(self, x: OnnxValue) -> OnnxValue:
        """exp(x) - 1; near 0 by half the argument's tanh, which cancels nothing."""
        t = self.b.Tanh(self.mul(x, 0.5))
        near = self.div(self.mul(t, 2.0), self.sub(1.0, t))
        return self.where(self.lt(self.abs(x), 1.0), near, self.sub(self.exp(x), 1.0))

    def log1p(self, x: OnnxValue) -> OnnxValue:
        """log(1 + x); near 0 the rounding of 1 + x is made good by a quotient."""
        u = self.add(x, 1.0)
        near = self.where(self.eq(u, 1.0), x, self.div(self.mul(self.log(u), x), self.sub(u, 1.0)))
        return self.where(self.lt(self.abs(x), 0.5), near, self.log(u))

    def log2(self, x: OnnxValue) -> OnnxValue:
        return self.mul(self.log(x), 1.0 / math.log(2.0))

    def log10(self, x: OnnxValue) -> OnnxValue:
        return self.mul(self.log(x), 1.0 / math.log(10.0))

    def softplus(self, x: OnnxValue) -> OnnxValue:
        if x.dtype is float32:
            made: OnnxValue = self.b.Softplus(x)
            return made
        return self.add(self.maximum(x, 0.0), self.log1p(self.exp(self.neg(self.abs(x)))))

    def silu(self, x: OnnxValue) -> OnnxValue:
        return self.mul(x, self.sigmoid(x))

    def mish(self, x: OnnxValue) -> OnnxValue:
        return self.mul(x, self.b.Tanh(self.softplus(x)))

    def gelu(self, x: OnnxValue) -> OnnxValue:
        return self.mul(self.mul(x, 0.5), self.add(self.erf(self.mul(x, math.sqrt(0.5))), 1.0))

    def gelu_tanh(self, x: OnnxValue) -> OnnxValue:
        cubic = self.mul(self.add(self.mul(self.mul(x, x), 0.044715), 1.0), x)
        return self.mul(self.mul(x, 0.5), self.add(self.b.Tanh(self.mul(cubic, math.sqrt(2.0 / math.pi))), 1.0))

    def gelu_tanh_slope(self, x: OnnxValue) -> OnnxValue:
        square = self.mul(x, x)
        scale = math.sqrt(2.0 / math.pi)
        t = self.b.Tanh(self.mul(self.mul(self.add(self.mul(square, 0.044715), 1.0), x), scale))
        inner = self.mul(self.add(self.mul(square, 3 * 0.044715), 1.0), scale)
        steep = self.mul(self.mul(self.mul(x, 0.5), self.sub(1.0, self.mul(t, t))), inner)
        return self.add(self.mul(self.add(t, 1.0), 0.5), steep)

    def atan2(self, x: Operand, y: Operand) -> OnnxValue:
        """The angle of (y, x) by the arc tangent of the smaller over the larger side."""
        a, c = self._pair(x, y)
        up, right = self.abs(a), self.abs(c)
        steep = self.gt(up, right)
        low, high = self.minimum(up, right), self.maximum(up, right)
        zero, one, unknown = (self.b.constant(v, a.dtype) for v in (0.0, 1.0, math.nan))
        ratio = self.where(self.eq(low, high), self.where(self.eq(high, 0.0), zero, one), self.div(low, high))
        ratio = self.where(self.logical_or(self.isnan(a), self.isnan(c)), unknown, ratio)
        angle = self.atan(ratio)
        angle = self.where(steep, self.sub(math.pi / 2, angle), angle)
        angle = self.where(self.signbit(c), self.sub(math.pi, angle), angle)
        return self.copysign(angle, a)

    def hypot(self, x: Operand, y: Operand) -> OnnxValue:
        a, c = (self.abs(v) for v in self._pair(x, y))
        low, high = self.minimum(a, c), self.maximum(a, c)
        ratio = self.div(low, self.where(self.eq(high, 0.0), 1.0, high))
        length = self.mul(high, self.sqrt(self.add(self.mul(ratio, ratio), 1.0)))
        return self.where(self.isinf(high), high, length)


def _is_truth(x: OnnxValue) -> bool:
    return x.dtype is bool_
