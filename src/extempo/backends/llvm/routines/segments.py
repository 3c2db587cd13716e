"""Functions of rows of different length, stored one after the other: sums, extremes, softmax, running sums.

The same bodies as for regular slices (`slices`, `rows`), in two layouts: rows of single elements have vectors along
them, rows of vectors have them across. Where a row begins and ends is read from the offsets, so one kernel runs rows
of any lengths.
"""

from __future__ import annotations

from typing import Any

from ....core.types import TensorType, count, int64
from ..ir.builder import IRFunction, IRModule, Pointer, Type, Value, f32, i32, i64, vector
from .extremes import _first_place
from .routine import Attrs, Bound, Inputs, build, element_of, routine
from .rows import WITH_EXP, WITHOUT_EXP, _log_softmax, _log_softmax_backward, _softmax, _softmax_backward
from .slices import (
    CACHE_LINE,
    COLUMNS_IN_STRIP,
    INNER,
    N_PARTS,
    N_UNITS,
    PER_PART,
    Along,
    At,
    Operands,
    SliceBody,
    SliceCode,
    _Across,
)
from .sweeps import SumSweep, SweepFold, SweepRow, larger, part_range, parts_of, smaller, write_in_parts


class _SegmentOperands(Operands):
    """The values and the result, which bodies count from 0; offsets and the numbers of rows are between them."""

    def __init__(self, b: IRFunction, element: Type, n_values: int, n_between: int) -> None:
        super().__init__(b, element)
        self._n_values = n_values
        self._n_between = n_between
        self.offsets = super().whole(n_values, i64)

    def whole(self, index: int, element: Type | None = None) -> Pointer:
        return super().whole(index if index < self._n_values else index + self._n_between, element)


class _Columns(_Across):
    """Vectors of a row side by side, `n` of them one below the other."""

    def __init__(self, operands: Operands, row: SweepRow, first: Value, number: Value, at: At, n: Value) -> None:
        super().__init__(operands, row, first, number, at)
        self._n = n


def _write_rows(o: _SegmentOperands, first: Value, last: Value, body: SliceBody) -> None:
    with o.b.loop(first, last) as index:
        start = o.offsets[index]
        body(Along(o, SweepRow(o.b, o.element, o.offsets[index + 1] - start), index, start))


def _write_columns(o: _SegmentOperands, first: Value, last: Value, body: SliceBody) -> None:
    b, inner = o.b, o.meta[INNER]
    strips = (inner + (COLUMNS_IN_STRIP - 1)) // COLUMNS_IN_STRIP
    with b.loop(first, last) as unit:
        index, left = unit // strips, unit % strips * COLUMNS_IN_STRIP
        start, stop = o.offsets[index], o.offsets[index + 1]
        row = SweepRow(b, o.element, b.smaller(inner - left, COLUMNS_IN_STRIP), CACHE_LINE // o.element.nbytes)
        begin, number = start * inner + left, index * inner + left
        row.each(lambda i, mask: body(_Columns(o, row, begin, number, (i, mask), stop - start)))


def _write(module: IRModule, name: str, element: Type, in_rows: bool, body: SliceBody, counts: tuple[int, int]) -> None:
    def part(b: IRFunction) -> None:
        o = _SegmentOperands(b, element, *counts)
        first, last = part_range(b, o.meta[N_UNITS], o.meta[PER_PART])
        (_write_rows if in_rows else _write_columns)(o, first, last, body)

    write_in_parts(module, name, N_PARTS, part)


def _bind(name: str, types: Inputs, n_values: int, out: TensorType, body: SliceBody, part_work: int) -> Bound | None:
    """The routine for rows of values; `out` has the shape of the values, or one element for each row."""
    x, element, offsets = types[0], element_of(types[0]), types[n_values]
    if element is None or any(t != x for t in types[:n_values]):
        return None
    n_rows, inner = offsets.shape[0] - 1, count(x.shape[1:])
    if any(not isinstance(t, TensorType) or t.dtype is not int64 for t in types[n_values:]) or not n_rows * inner:
        return None
    in_rows = inner == 1
    full = f"{name}_{element.suffix}_{'rows' if in_rows else 'columns'}"
    counts = (n_values, len(types) - n_values)
    address = build(full, _write, element, in_rows, body, counts)
    n_units = n_rows if in_rows else n_rows * -(-inner // COLUMNS_IN_STRIP)
    work = max(x.shape[0], out.shape[0]) * inner // n_units
    n_parts, per_part = parts_of(n_units, max(work, 1), part_work)
    return Bound(address, "c" * len(types), (out,), (n_rows, 0, inner, n_units, per_part, n_parts))


def _one_each(types: Inputs) -> TensorType:
    x, offsets = types[:2]
    return TensorType((offsets.shape[0] - 1, *x.shape[1:]), x.dtype)


def _same_shape(types: Inputs) -> TensorType:
    return types[0]


def _for_elements(types: Inputs) -> TensorType:
    t, row_of = types[0], types[2]
    return TensorType((row_of.shape[0], *t.shape[1:]), t.dtype)


def _register(name: str, body: SliceBody, out: Any, part_work: int, n_values: int = 1) -> None:
    @routine(name)
    def bind(types: Inputs, attrs: Attrs) -> Bound | None:
        return _bind(name, types, n_values, out(types), body, part_work)


# ---- bodies


def _sum(s: SliceCode) -> None:
    x = s.elements(0)
    (total,) = s.fold([SumSweep(s.b, s.type)], lambda at: [s.load(x, at)])
    s.put(total, s.whole(1))


def _spread(s: SliceCode) -> None:
    y, value = s.elements(1), s.get(s.whole(0))
    s.each(lambda at: s.store(value, y, at))


def _best(s: SliceCode, most: bool) -> Value:
    x = s.elements(0)
    worst, combine = (float("-inf"), larger(s.b)) if most else (float("inf"), smaller(s.b))
    return s.fold([SweepFold(s.b, s.type, worst, combine)], lambda at: [s.load(x, at)])[0]


def _extreme(most: bool) -> SliceBody:
    return lambda s: s.put(_best(s, most), s.whole(1))


def _place(most: bool) -> SliceBody:
    """Where the extreme is: the first of equal ones, or the first NaN; 0 in a row without elements."""

    def along(s: Along) -> None:
        b, best = s.b, _best(s, most)
        found = b.var(i64, 0)
        with b.if_(s.row.n > 0):
            found.set(_first_place(b, s.row, s.elements(0), b.extract(best, 0)))
        s.operands.whole(1, i64)[s.index] = found.value

    def across(s: SliceCode) -> None:
        b, row, x = s.b, s.row, s.elements(0)
        word = vector(i32 if s.operands.element is f32 else i64, row.lanes)
        best = b.var(s.type, float("-inf") if most else float("inf"))
        place, k = b.var(word, 0), b.var(i64, 0)

        def look(at: At) -> None:
            v, so_far = s.load(x, at), best.value
            better = v > so_far if most else v < so_far
            better = ((better | (v != v)) & (so_far == so_far)) | (b.splat(k.value, row.lanes) == 0)
            best.set(b.select(better, v, so_far))
            number = k.value if word.lane is i64 else b.cast("trunc", k.value, i32)
            place.set(b.select(better, b.splat(number, row.lanes), place.value))
            k.set(k.value + 1)

        s.each(look)
        found = place.value if word.lane is i64 else b.cast("sext", place.value, i64)
        s.put(found, s.operands.whole(1, i64))

    return lambda s: along(s) if isinstance(s, Along) else across(s)


def _running(reverse: bool) -> SliceBody:
    def body(s: SliceCode) -> None:
        b, x, y, n = s.b, s.elements(0), s.elements(1), s.n_elements()
        if isinstance(s, Along):
            so_far = b.var(s.operands.element, 0.0)
            with b.loop(0, n) as k:
                i = n - 1 - k if reverse else k
                so_far.set(so_far.value + x[i])
                y[i] = so_far.value
            return
        assert isinstance(s, _Columns)
        total = b.var(s.type, 0.0)
        with b.loop(0, n) as k:
            at = s._down(n - 1 - k if reverse else k)
            total.set(total.value + s.load(x, at))
            s.store(total.value, y, at)

    return body


_register("segment_sum", _sum, _one_each, WITHOUT_EXP)
_register("segment_spread", _spread, _for_elements, WITHOUT_EXP)
_register("segment_amax", _extreme(most=True), _one_each, WITHOUT_EXP)
_register("segment_amin", _extreme(most=False), _one_each, WITHOUT_EXP)
_register("segment_softmax", _softmax, _same_shape, WITH_EXP)
_register("segment_softmax_backward", _softmax_backward, _same_shape, WITHOUT_EXP, 2)
_register("segment_log_softmax", _log_softmax, _same_shape, WITH_EXP)
_register("segment_log_softmax_backward", _log_softmax_backward, _same_shape, WITH_EXP, 2)


@routine("segment_places")
def bind_places(types: Inputs, attrs: Attrs) -> Bound | None:
    """argmax and argmin; other places are NumPy's."""
    op, x = attrs["op"], types[0]
    if op not in ("argmax", "argmin") or not isinstance(x, TensorType) or x.shape[0] >= 1 << 31:
        return None
    out = TensorType(_one_each(types).shape, int64)
    return _bind(f"segment_{op}", types, 1, out, _place(op == "argmax"), WITHOUT_EXP)


@routine("segment_cumsum")
def bind_cumsum(types: Inputs, attrs: Attrs) -> Bound | None:
    reverse = attrs["reverse"]
    name = f"segment_cumsum{'_back' if reverse else ''}"
    return _bind(name, types, 1, _same_shape(types), _running(reverse), WITHOUT_EXP)
