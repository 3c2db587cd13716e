"""Standardize where a row has several weights, one for each stretch of it: group norm and instance norm.

A row is a group of channels of one sample; a stretch is what one channel has of it. There are `period` groups, so row
r has the weights from (r % period) * n_stretches on. The gradients of the weights are sums over samples of what each
stretch adds; the sums of stretches are kept in scratch memory and joined at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....core.types import TensorType
from ..ir.builder import IRFunction, IRModule, Pointer, Type, Value
from .routine import Bound, build, routine_code
from .slices import INNER, N_PARTS, N_UNITS, OUTER, OWN, PER_PART, Along, At, Operands, slice_numbers
from .sweeps import LANES, SumSweep, SweepRow, fold_row, in_parts, part_range, write_part, write_row_of_sums

PART_WORK = 1 << 16  # elements

# After the numbers of the layout; eps follows.
_PERIOD, _N_STRETCHES, _EPS = range(OWN, OWN + 3)


class Stretches:
    """The layout of the weights of rows."""

    def __init__(self, period: int, n_stretches: int) -> None:
        self.period = period
        self.n_stretches = n_stretches


class _GroupRow:
    """One row while its code is written, and where its stretches and weights are."""

    def __init__(self, o: Operands, row: SweepRow, stretch: SweepRow, index: Value) -> None:
        self.b = o.b
        self.whole = Along(o, row, index)
        self._stretch = stretch
        self._first_weight = index % o.meta[_PERIOD] * o.meta[_N_STRETCHES]
        self._o = o
        self.index = index

    def each_stretch(self, body: Callable[[Value, Value, Along], None]) -> None:
        """Write `body(number among the row's stretches, number of its weight, stretch)` for each."""
        b, length = self.b, self._stretch.n
        with b.loop(0, self._o.meta[_N_STRETCHES]) as k:
            start = self.index * self.whole.row.n + k * length
            body(k, self._first_weight + k, Along(self._o, self._stretch, self.index, start))


def _each_row(o: Operands, body: Callable[[_GroupRow], None]) -> None:
    b, n = o.b, o.meta[INNER]
    row, stretch = SweepRow(b, o.element, n), SweepRow(b, o.element, n // o.meta[_N_STRETCHES])
    first, last = part_range(b, o.meta[N_UNITS], o.meta[PER_PART])
    with b.loop(first, last) as index:
        body(_GroupRow(o, row, stretch, index))


def _scale(s: Along, variance: Value) -> Value:
    return 1.0 / s.b.intrinsic("sqrt", variance + s.operands.number(_EPS))


def _forward(r: _GroupRow, has_weight: bool, has_bias: bool) -> None:
    s, b = r.whole, r.b
    x = s.elements(0)
    (total,) = s.fold([SumSweep(b, s.type)], lambda at: [s.load(x, at)])
    mean = s.mean(total)

    def square(at: At) -> list[Value]:
        v = s.load(x, at) - mean
        return [v * v]

    (squares,) = s.fold([SumSweep(b, s.type)], square)
    variance = s.mean(squares)
    s.put(mean, s.whole(5))
    s.put(variance, s.whole(6))
    scale = _scale(s, variance)

    def stretch(_: Value, weight: Value, part: Along) -> None:
        factor = scale * b.splat(part.whole(1)[weight], LANES) if has_weight else scale
        shift = b.splat(part.whole(2)[weight], LANES) if has_bias else None
        x, y = part.elements(0), part.elements(4)

        def element(at: At) -> None:
            v = (part.load(x, at) - mean) * factor
            part.store(v if shift is None else v + shift, y, at)

        part.each(element)

    r.each_stretch(stretch)


def _backward(r: _GroupRow) -> None:
    """g, x, mean, variance, weight, eps -> gradients of x, weight and bias; scratch: sums of stretches."""
    s, b = r.whole, r.b
    mean, scale = s.get(s.whole(2)), _scale(s, s.get(s.whole(3)))
    n_rows, n_stretches = s.operands.meta[OUTER], s.operands.meta[_N_STRETCHES]
    along, total = b.var(s.type, 0.0), b.var(s.type, 0.0)

    def sums(k: Value, weight: Value, part: Along) -> None:
        g, x = part.elements(0), part.elements(1)

        def terms(i: Value, mask: Value | None) -> list[Value]:
            v = part.load(g, (i, mask))
            return [v, v * ((part.load(x, (i, mask)) - mean) * scale)]

        of_g, of_gz = SumSweep(b, s.type, 2), SumSweep(b, s.type, 2)
        fold_row([of_g, of_gz], part.row, terms)
        place = r.index * n_stretches + k
        s.whole(9)[place] = of_gz.scalar()
        s.whole(9)[n_rows * n_stretches + place] = of_g.scalar()
        w = b.splat(part.whole(4)[weight], LANES)
        along.set(b.fma(w, b.splat(of_gz.scalar(), LANES), along.value))
        total.set(b.fma(w, b.splat(of_g.scalar(), LANES), total.value))

    r.each_stretch(sums)
    mean_g, mean_gz = s.mean(total.value), s.mean(along.value)

    def stretch(_: Value, weight: Value, part: Along) -> None:
        g, x, y = part.elements(0), part.elements(1), part.elements(6)
        w = b.splat(part.whole(4)[weight], LANES)

        def element(at: At) -> None:
            z = (part.load(x, at) - mean) * scale
            part.store((part.load(g, at) * w - mean_g - z * mean_gz) * scale, y, at)

        part.each(element)

    r.each_stretch(stretch)


def _write(module: IRModule, name: str, element: Type, body: Callable[[_GroupRow], None], joins: bool) -> None:
    if joins:
        write_row_of_sums(module, "join", element)

    def part(b: IRFunction) -> None:
        _each_row(Operands(b, element), body)

    write_part(module, "part", part)
    with routine_code(module, name) as (b, buffers, meta):
        in_parts(b, "part", meta[N_PARTS], buffers.address, meta.address)
        if joins:  # (samples, channels) -> channels
            n_channels, sums = meta[_PERIOD] * meta[_N_STRETCHES], Pointer(buffers[9], element)
            n_samples = meta[OUTER] // meta[_PERIOD]
            for result, place in ((7, sums), (8, sums + meta[OUTER] * meta[_N_STRETCHES])):
                b.call(module.defined["join"], place.address, buffers[result], n_samples, n_channels)
        b.ret(0)


def stretches_of(x: TensorType, dims: tuple[int, ...], weight: TensorType) -> Stretches | None:
    """The layout of weights that belong to stretches of rows: rows over the last dimensions `dims`."""
    first = dims[0]
    if dims != tuple(range(first, len(x.shape))):
        return None
    shape = (*(1,) * (len(x.shape) - len(weight.shape)), *weight.shape)
    own = [d for d, size in enumerate(shape) if size != 1]
    if not own:
        return Stretches(1, 1)
    if own[0] > first or shape[own[0] : own[-1] + 1] != x.shape[own[0] : own[-1] + 1]:
        return None
    # Dimensions between the weights' and the rows' would make the period wrong, unless they have one element.
    if any(size != 1 for size in x.shape[own[-1] + 1 : first]):
        return None
    period = n_stretches = 1
    for d in own:
        if d < first:
            period *= x.shape[d]
        else:
            n_stretches *= x.shape[d]
    return Stretches(period, n_stretches)


def bind(
    op: str,
    element: Type,
    sizes: tuple[int, int, int],
    layout: Stretches,
    has_weight: bool,
    has_bias: bool,
    reads: str,
    writes: Any,
) -> Bound:
    """The routine "standardize" or "standardize_backward" for such weights."""
    joins = op == "standardize_backward"
    name = f"{op}_stretches_{'w' * has_weight}{'b' * has_bias}_{element.suffix}"
    body = _backward if joins else lambda r: _forward(r, has_weight, has_bias)
    address = build(name, _write, element, body, joins)
    numbers = (*slice_numbers("rows", sizes, PART_WORK), layout.period, layout.n_stretches)
    scratch = 2 * sizes[0] * layout.n_stretches * element.nbytes if joins else 0
    return Bound(address, reads, writes, numbers, scratch)
