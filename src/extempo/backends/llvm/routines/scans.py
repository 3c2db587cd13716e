"""Running totals as native code: sums, products, linear recurrences, log-sums and places of extremes along a dimension.

The shape is (outer, n, inner). Down columns (inner above 1) a strip of neighbouring columns is walked row by row, with
its state in the first cache. Along rows eight of them go together: squares of elements are turned, so that a vector
holds one element of each row, stepped, and turned back. Every result is made by the same steps in the same order,
whatever its neighbours do, so it is the same on any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ....core.types import TensorType, count, int64
from ..elementwise.loops import MEMORY
from ..ir.builder import IRFunction, IRModule, Pointer, Type, Value, i1, i64, ptr, vector
from ..lanes.emitter import Emitter
from .layout import transposed
from .routine import FLOATS, Attrs, Bound, Inputs, build, routine
from .sweeps import LANES, SweepRow, part_range, parts_of, write_in_parts

PART_WORK = 1 << 16  # elements; about 30 us
STRIP = 512  # columns that are walked together: their state stays in the first cache

_OUTER, _N, _INNER, _STRIPS, _N_TASKS, _PER_PART, _N_PARTS = range(7)

# step(b, state, elements, their place along the row, whether they are the first) -> (state, result)
Step = Callable[[IRFunction, Sequence[Value], Sequence[Value], Value, Value], tuple[list[Value], Value]]


class ScanKind(NamedTuple):
    """One scan in one dtype."""

    name: str
    inputs: tuple[Type, ...]
    state: tuple[tuple[Type, float], ...]  # what is carried from step to step, and what it begins with
    result: Type
    step: Step
    reverse: bool = False

    def started(self, b: IRFunction, lanes: int) -> list[Value]:
        return [b.const(vector(type_, lanes), start) for type_, start in self.state]

    def place(self, k: Value, n: Value) -> Value:
        """Where the k-th step is."""
        return n - 1 - k if self.reverse else k


class _ScanOperands:
    """The arrays and sizes of a call, read where one part of it begins."""

    def __init__(self, b: IRFunction, kind: ScanKind) -> None:
        words = Pointer(b.arg("context"), ptr)
        buffers, self.meta = Pointer(words[0], ptr), Pointer(words[1], i64)
        self.inputs = [Pointer(buffers[i], element) for i, element in enumerate(kind.inputs)]
        self.result = Pointer(buffers[len(kind.inputs)], kind.result)
        self.first, self.last = part_range(b, self.meta[_N_TASKS], self.meta[_PER_PART])


def _loaded(b: IRFunction, kind: ScanKind, x: Value) -> Value:
    """An element as it is computed with: whole numbers and truths are counted in 64 bits, but not compared."""
    element = kind.state[0][0]
    if x.type.kind == "f" or x.type.lane is element:
        return x
    return b.cast("zext" if x.type.bits == 8 else "sext", x, element)


# ---- down columns


def _write_columns(b: IRFunction, kind: ScanKind) -> None:
    """Tasks are (outer, strip of the columns)."""
    given = _ScanOperands(b, kind)
    n, inner, strips = (given.meta[i] for i in (_N, _INNER, _STRIPS))
    kept = [b.array(type_, STRIP) for type_, _ in kind.state]
    with b.loop(given.first, given.last) as task:
        left = task % strips * STRIP
        corner = task // strips * n * inner + left
        row = SweepRow(b, kind.result, b.smaller(inner - left, STRIP))

        def start(i: Value, mask: Value | None) -> None:
            for place, value in zip(kept, kind.started(b, LANES), strict=True):
                place.set_vector(i, value)

        row.each(start)
        with b.loop(0, n) as k:
            place = kind.place(k, n)
            _write_strip(b, kind, given, row, kept, corner + place * inner, place, k == 0)


def _write_strip(
    b: IRFunction,
    kind: ScanKind,
    given: _ScanOperands,
    row: SweepRow,
    kept: Sequence[Pointer],
    at: Value,
    place: Value,
    is_first: Value,
) -> None:
    """One step of all columns of a strip."""

    def step(i: Value, mask: Value | None) -> None:
        elements = [_loaded(b, kind, row.load(x, at + i, mask)) for x in given.inputs]
        state = [p.vector(i, LANES) for p in kept]
        after, y = kind.step(b, state, elements, b.splat(place, LANES), b.splat(is_first, LANES))
        for p, value in zip(kept, after, strict=True):
            p.set_vector(i, value)
        row.store(y, given.result, at + i, mask)

    row.each(step)


# ---- along rows


def _write_rows(b: IRFunction, kind: ScanKind) -> None:
    """Tasks are groups of eight rows."""
    given = _ScanOperands(b, kind)
    with b.loop(given.first, given.last) as task:
        top = task * LANES
        eight, fewer = b.if_else(top + LANES <= given.meta[_OUTER])
        with eight:
            _write_eight_rows(b, kind, given, top)
        with fewer, b.loop(top, given.meta[_OUTER]) as at:
            states = [b.var(type_, start) for type_, start in kind.state]
            with b.loop(0, given.meta[_N]) as k:
                state = _write_one(b, kind, given, at, k, [s.value for s in states])
                for variable, value in zip(states, state, strict=True):
                    variable.set(value)


def _write_one(
    b: IRFunction, kind: ScanKind, given: _ScanOperands, at: Value, k: Value, state: Sequence[Value]
) -> list[Value]:
    """Step k of row `at`."""
    n = given.meta[_N]
    place = kind.place(k, n)
    elements = [_loaded(b, kind, x[at * n + place]) for x in given.inputs]
    after, y = kind.step(b, state, elements, place, k == 0)
    given.result[at * n + place] = y
    return after


def _write_eight_rows(b: IRFunction, kind: ScanKind, given: _ScanOperands, top: Value) -> None:
    n = given.meta[_N]
    states = [
        b.var(vector(type_, LANES), value) for (type_, _), value in zip(kind.state, kind.started(b, LANES), strict=True)
    ]
    whole = n & -LANES
    with b.loop(0, whole, LANES) as k:
        left = n - LANES - k if kind.reverse else k
        squares = [transposed(b, [x.vector((top + r) * n + left, LANES) for r in range(LANES)]) for x in given.inputs]
        results = [b.undefined(vector(kind.result, LANES))] * LANES
        for j in range(LANES):
            column = LANES - 1 - j if kind.reverse else j
            elements = [_loaded(b, kind, square[column]) for square in squares]
            is_first = b.splat(k == 0, LANES) if j == 0 else b.const(vector(i1, LANES), False)
            place = b.splat(left + column, LANES)
            after, results[column] = kind.step(b, [s.value for s in states], elements, place, is_first)
            for variable, value in zip(states, after, strict=True):
                variable.set(value)
        for r, values in enumerate(transposed(b, results)):
            given.result.set_vector((top + r) * n + left, values)
    _write_rest_of_eight(b, kind, given, top, whole, [s.value for s in states])


def _write_rest_of_eight(
    b: IRFunction, kind: ScanKind, given: _ScanOperands, top: Value, whole: Value, state: Sequence[Value]
) -> None:
    """The last steps of eight rows, one after the other."""
    kept = [b.array(type_, LANES) for type_, _ in kind.state]
    for p, value in zip(kept, state, strict=True):
        p.set_vector(0, value)
    with b.loop(0, LANES) as r, b.loop(whole, given.meta[_N]) as k:
        after = _write_one(b, kind, given, top + r, k, [p[r] for p in kept])
        for p, value in zip(kept, after, strict=True):
            p[r] = value


# ---- the steps


def _sum_step(
    b: IRFunction, s: Sequence[Value], x: Sequence[Value], k: Value, first: Value
) -> tuple[list[Value], Value]:
    y = s[0] + x[0]
    return [y], y


def _product_step(
    b: IRFunction, s: Sequence[Value], x: Sequence[Value], k: Value, first: Value
) -> tuple[list[Value], Value]:
    y = s[0] * x[0]
    return [y], y


def _recurrence_step(
    b: IRFunction, s: Sequence[Value], x: Sequence[Value], k: Value, first: Value
) -> tuple[list[Value], Value]:
    y = b.select(first, x[1], x[0] * s[0] + x[1])  # the first factor counts for nothing, infinite as it may be
    return [y], y


def _log_sum_step(
    b: IRFunction, s: Sequence[Value], x: Sequence[Value], k: Value, first: Value
) -> tuple[list[Value], Value]:
    e = Emitter(b, lanes=s[0].type.lanes)
    apart = e.neg(e.abs(e.sub(s[0], x[0])))  # NaN for equal infinities
    twice = e.add(x[0], 0.6931471805599453)
    y = e.where(e.eq(s[0], x[0]), twice, e.add(e.maximum(s[0], x[0]), e.softplus(apart)))
    return [y], y


def _place_step(most: bool) -> Step:
    """Where the extreme was last met; a NaN wins, and after it only another one does."""

    def step(
        b: IRFunction, s: Sequence[Value], x: Sequence[Value], k: Value, first: Value
    ) -> tuple[list[Value], Value]:
        wins = x[0] >= s[0] if most else x[0] <= s[0]
        wins = (wins | (x[0] != x[0]) | first) if x[0].type.kind == "f" else wins | first
        place = b.select(wins, k, s[1])
        return [b.select(wins, x[0], s[0]), place], place

    return step


# ---- binding to sizes


def _bind(kind: ScanKind, x: TensorType, out: TensorType, dim: int) -> Bound | None:
    """The scan of tensors like x along `dim`; None without elements."""
    if 0 in x.shape:
        return None
    shape = x.shape or (1,)
    outer, n, inner = count(shape[:dim]), shape[dim], count(shape[dim + 1 :])
    in_rows = inner == 1
    strips = -(-inner // STRIP)
    n_tasks, work = (-(-outer // LANES), LANES * n) if in_rows else (outer * strips, n * min(inner, STRIP))
    n_parts, per_part = parts_of(n_tasks, work, PART_WORK)
    name = f"{kind.name}_{kind.inputs[0].suffix}_{'rows' if in_rows else 'columns'}{'_back' if kind.reverse else ''}"
    address = build(name, _write, kind, in_rows)
    meta = (outer, n, inner, strips, n_tasks, per_part, n_parts)
    return Bound(address, "c" * len(kind.inputs), (out,), meta)


def _write(module: IRModule, name: str, kind: ScanKind, in_rows: bool) -> None:
    write_in_parts(module, name, _N_PARTS, lambda b: (_write_rows if in_rows else _write_columns)(b, kind))


def _register_total(op: str, step: Step, start: float, float_start: float) -> None:
    @routine(op)
    def bind(types: Inputs, attrs: Attrs) -> Bound | None:
        x = types[0]
        element = MEMORY.get(x.dtype._name)
        if element is None:
            return None
        floating = x.dtype.is_floating_point
        total = element if floating else i64
        state = ((total, float_start if floating else start),)
        kind = ScanKind(op, (element,), state, total, step, attrs["reverse"])
        return _bind(kind, x, TensorType(x.shape, x.dtype if floating else int64), attrs["dim"])


_register_total("cumsum", _sum_step, 0, -0.0)  # -0.0 + x is x, whatever x is
_register_total("cumprod", _product_step, 1, 1.0)


@routine("recurrence")
def bind_recurrence(types: Inputs, attrs: Attrs) -> Bound | None:
    b = types[1]
    element = FLOATS.get(b.dtype._name)
    if element is None:
        return None
    kind = ScanKind("recurrence", (element, element), ((element, 0.0),), element, _recurrence_step, attrs["reverse"])
    return _bind(kind, b, b, attrs["dim"])


@routine("logcumsumexp")
def bind_log_sum(types: Inputs, attrs: Attrs) -> Bound | None:
    (x,) = types
    element = FLOATS.get(x.dtype._name)
    if element is None:
        return None
    kind = ScanKind("logcumsumexp", (element,), ((element, float("-inf")),), element, _log_sum_step)
    return _bind(kind, x, x, attrs["dim"])


def _register_place(op: str, most: bool) -> None:
    @routine(op)
    def bind(types: Inputs, attrs: Attrs) -> Bound | None:
        (x,) = types
        element = MEMORY.get(x.dtype._name)
        if element is None:
            return None
        kind = ScanKind(op, (element,), ((element, 0), (i64, 0)), i64, _place_step(most))
        return _bind(kind, x, TensorType(x.shape, int64), attrs["dim"])


_register_place("cummax", most=True)
_register_place("cummin", most=False)
