"""softmax, log_softmax and logsumexp, and their gradients: one kernel each.

exp() sees nothing above 0, because the largest element of a slice is taken away first. A NaN makes the sum NaN and so
the whole slice, as does a slice of nothing but -inf.
"""

from __future__ import annotations

import math

from ....core.types import TensorType
from ..ir.builder import IRFunction, Value, f32, i32, with_lanes
from ..lanes import vector_math
from ..lanes.emitter import Emitter
from .routine import Attrs, Bound, Inputs, element_of, routine
from .slices import At, SliceBody, SliceCode, bind_slices
from .sweeps import SumSweep

# Elements of one part. exp() takes about 1 ns an element, a gradient without it a quarter of that.
WITH_EXP = 1 << 15
WITHOUT_EXP = 1 << 17

# Adding this to a small number leaves its nearest integer in the low bits, moved so that a shift by 23 bits makes them
# the exponent of 2**(n + 64), which is in range for every n that exp() of a negative number needs.
_ROUNDER = 1.5 * 2**23 + 127 + 64


def exp_below_zero(b: IRFunction, x: Value) -> Value:
    """exp(x) for x <= 0 or NaN, to 1.1 ulp; half the instructions of a general one."""
    if x.type.lane is not f32:
        return Emitter(b).exp(x)
    x = b.select(x < -104.0, -104.0, x)
    shifted = b.fma(x, math.log2(math.e), _ROUNDER)
    n = shifted - _ROUNDER
    r = b.fma(n, -vector_math._LN2_LOW, b.fma(n, -vector_math._LN2_HIGH, x))
    m = b.fma(r * r, vector_math.polynomial(b, vector_math._EXP, r), r) + 1.0
    scale = b.bitcast(b.bitcast(shifted, with_lanes(i32, x.type.lanes)) << 23, x.type)
    return m * scale * 2.0**-64


def _softmax(s: SliceCode) -> None:
    x, y = s.elements(0), s.elements(1)
    top = s.top(x)

    def power(at: At) -> list[Value]:
        value = exp_below_zero(s.b, s.load(x, at) - top)
        s.store(value, y, at)
        return [value]

    (total,) = s.fold([SumSweep(s.b, s.type, unroll=1)], power)
    share = 1.0 / total
    s.each(lambda at: s.store(s.load(y, at) * share, y, at))


def _softmax_backward(s: SliceCode) -> None:
    g, y, out = (s.elements(i) for i in range(3))
    (along,) = s.fold([SumSweep(s.b, s.type)], lambda at: [s.load(g, at) * s.load(y, at)])
    s.each(lambda at: s.store((s.load(g, at) - along) * s.load(y, at), out, at))


def _log_softmax(s: SliceCode) -> None:
    x, y = s.elements(0), s.elements(1)
    top = s.top(x)
    (total,) = s.fold([SumSweep(s.b, s.type, unroll=1)], lambda at: [exp_below_zero(s.b, s.load(x, at) - top)])
    log = Emitter(s.b).log(total)
    s.each(lambda at: s.store(s.load(x, at) - top - log, y, at))


def _log_softmax_backward(s: SliceCode) -> None:
    g, y, out = (s.elements(i) for i in range(3))
    e = Emitter(s.b)
    (total,) = s.fold([SumSweep(s.b, s.type)], lambda at: [s.load(g, at)])
    s.each(lambda at: s.store(s.load(g, at) - e.exp(s.load(y, at)) * total, out, at))


def _logsumexp(s: SliceCode) -> None:
    b, x = s.b, s.elements(0)
    e, top = Emitter(b), s.top(x)
    endless = e.isinf(top)  # then inf - inf would be NaN where the answer is that infinity
    finite = b.select(endless, 0.0, top)

    def power(at: At) -> list[Value]:
        below = s.load(x, at) - finite
        return [exp_below_zero(b, b.select(below > 0.0, 0.0, below))]

    (total,) = s.fold([SumSweep(b, s.type, unroll=1)], power)
    s.put(b.select(endless, top + total * 0.0, e.log(total) + finite), s.whole(1))  # NaN in total is an answer, too


def _logsumexp_backward(s: SliceCode) -> None:
    x, out = s.elements(2), s.elements(3)
    e, g, y = Emitter(s.b), s.get(s.whole(0)), s.get(s.whole(1))
    s.each(lambda at: s.store(e.exp(s.load(x, at) - y) * g, out, at))


def _register(op: str, body: SliceBody, part_work: int) -> None:
    """An op with attribute `dim`, whose operands all have the type of the result."""

    @routine(op)
    def bind(types: Inputs, attrs: Attrs) -> Bound | None:
        x, element = types[0], element_of(types[0])
        if element is None or any(t != x for t in types):
            return None
        return bind_slices(op, element, x, (attrs["dim"],), body, "c" * len(types), (x,), part_work)


_register("softmax", _softmax, WITH_EXP)
_register("softmax_backward", _softmax_backward, WITHOUT_EXP)
_register("log_softmax", _log_softmax, WITH_EXP)
_register("log_softmax_backward", _log_softmax_backward, WITH_EXP)


@routine("logsumexp")
def bind_logsumexp(types: Inputs, attrs: Attrs) -> Bound | None:
    (x,), dim = types, attrs["dim"]
    element = element_of(x)
    if element is None:
        return None
    shape = tuple(1 if d in dim else s for d, s in enumerate(x.shape) if attrs["keepdim"] or d not in dim)
    return bind_slices("logsumexp", element, x, dim, _logsumexp, "c", (TensorType(shape, x.dtype),), WITH_EXP)


@routine("logsumexp_backward")
def bind_logsumexp_backward(types: Inputs, attrs: Attrs) -> Bound | None:
    g, y, x = types
    element = element_of(x)
    if element is None or element_of(g) is not element or element_of(y) is not element:
        return None
    return bind_slices("logsumexp_backward", element, x, attrs["dim"], _logsumexp_backward, "ccc", (x,), WITH_EXP)
