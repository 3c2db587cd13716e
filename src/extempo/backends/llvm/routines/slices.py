"""Functions of one slice at a time, over some dimensions: softmax, layer norm, ... written once for every layout.

A slice is what is left of a tensor when the other dimensions are fixed. Three layouts of (outer, middle, inner):

    rows      a slice is one of `outer` rows of `inner` elements; vectors run along it
    columns   a slice has `middle` elements, `inner` apart; vectors run across, a slice in each lane
    channels  a slice is `outer` stretches of `inner` elements, one for each of `middle`; vectors run along them

A function of a slice is written in terms of `SliceCode` and knows nothing of this.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from ....core.types import TensorType, count
from ..ir.builder import IRFunction, Pointer, Type, Value, f32, f64, i64, ptr
from .reductions import grouped
from .routine import Bound, build
from .sweeps import LANES, SweepFold, SweepRow, fold_row, fold_together, part_range, parts_of, write_in_parts

CACHE_LINE = 64  # bytes; vectors across are as wide, because each line is far from the next
COLUMNS_IN_STRIP = 64  # slices side by side that one unit of work has, where vectors run across

# The numbers in `meta`; behind them come those that a routine adds, then the numbers among the inputs.
OUTER, MIDDLE, INNER, N_UNITS, PER_PART, N_PARTS, OWN = range(7)

# The position of a vector in a slice: its first element, and a mask if it is not whole.
At = tuple[Value, Value | None]


class Operands:
    """The operands of a routine, in a function that runs one part of it."""

    def __init__(self, b: IRFunction, element: Type) -> None:
        words = Pointer(b.arg("context"), ptr)
        self.b = b
        self.element = element
        self._buffers = Pointer(words[0], ptr)
        self.meta = Pointer(words[1], i64)

    def whole(self, index: int, element: Type | None = None) -> Pointer:
        """Where operand `index` begins."""
        return Pointer(self._buffers[index], element or self.element)

    def number(self, index: int) -> Value:
        """The floating number at `index` of meta, in the dtype that is computed in."""
        value = Pointer(self.meta.address, f64)[index]
        return self.b.cast("fptrunc", value, f32) if self.element is f32 else value


class SliceCode(ABC):
    """One slice (or several side by side) while its function is written."""

    def __init__(self, operands: Operands, row: SweepRow, first: Value) -> None:
        self.b = row.b
        self.operands = operands
        self.row = row
        self.type = row.type
        self._first = first  # element

    def elements(self, index: int) -> Pointer:
        """Operand `index`, of the shape of all slices, from this one's first element on."""
        return self.operands.whole(index) + self._first

    def whole(self, index: int) -> Pointer:
        """Operand `index` as it is."""
        return self.operands.whole(index)

    def load(self, p: Pointer, at: At) -> Value:
        return self.row.load(p, *at)

    def store(self, value: Value, p: Pointer, at: At) -> None:
        self.row.store(value, p, *at)

    @abstractmethod
    def each(self, body: Callable[[At], None]) -> None:
        """Write `body` for every vector of the slice."""

    @abstractmethod
    def fold(self, folds: Sequence[SweepFold], term: Callable[[At], Sequence[Value]]) -> list[Value]:
        """Give every element to the folds; the results, as lanes."""

    @abstractmethod
    def n_elements(self) -> Value:
        """How many elements the slice has."""

    @abstractmethod
    def get(self, p: Pointer) -> Value:
        """A number that belongs to the slice, as lanes; `p` has one for every slice."""

    @abstractmethod
    def put(self, value: Value, p: Pointer) -> None:
        """Store such a number."""

    @abstractmethod
    def each_lane(self, body: Callable[[Value, Value], None]) -> None:
        """Write `body(number, lane)` for every slice that is worked on: which one of all it is, and its lane."""

    @abstractmethod
    def lanes(self, value: Callable[[Value, Value], Value]) -> Value:
        """The lanes of `value(number, lane)`, a floating number of each slice that is worked on."""

    @abstractmethod
    def element(self, p: Pointer, k: Value, lane: Value) -> Pointer:
        """The k-th element of the slice in that lane."""

    def mean(self, total: Value) -> Value:
        """The mean of the slice's elements, of which this is the sum."""
        return total / self.b.cast("sitofp", self.n_elements(), self.row.element)

    def top(self, x: Pointer) -> Value:
        """The largest element that is not NaN, or -inf: what is taken away before exp()."""
        b = self.b
        most = SweepFold(b, self.type, float("-inf"), lambda best, v: b.larger(v, best))
        return self.fold([most], lambda at: [self.load(x, at)])[0]


SliceBody = Callable[[SliceCode], None]


class Along(SliceCode):
    """A row, the `index`-th."""

    def __init__(self, operands: Operands, row: SweepRow, index: Value, first: Value | None = None) -> None:
        super().__init__(operands, row, index * row.n if first is None else first)
        self.index = index

    def each(self, body: Callable[[At], None]) -> None:
        self.row.each(lambda i, mask: body((i, mask)))

    def fold(self, folds: Sequence[SweepFold], term: Callable[[At], Sequence[Value]]) -> list[Value]:
        fold_row(folds, self.row, lambda i, mask: term((i, mask)))
        return [self.b.splat(fold.scalar(), LANES) for fold in folds]

    def n_elements(self) -> Value:
        return self.row.n

    def get(self, p: Pointer) -> Value:
        return self.b.splat(p[self.index], LANES)

    def put(self, value: Value, p: Pointer) -> None:
        p[self.index] = self.b.extract(value, 0)

    def each_lane(self, body: Callable[[Value, Value], None]) -> None:
        body(self.index, self.b.const(i64, 0))

    def lanes(self, value: Callable[[Value, Value], Value]) -> Value:
        return self.b.splat(value(self.index, self.b.const(i64, 0)), LANES)

    def element(self, p: Pointer, k: Value, lane: Value) -> Pointer:
        return p + k


class _Stretches(Along):
    """A channel: `n` stretches, `step` elements apart."""

    def __init__(self, operands: Operands, row: SweepRow, index: Value, n: Value, step: Value) -> None:
        super().__init__(operands, row, index)
        self._n = n
        self._step = step

    def each(self, body: Callable[[At], None]) -> None:
        with self.b.loop(0, self._n) as k:
            start = k * self._step
            self.row.each(lambda i, mask: body((start + i, mask)))

    def fold(self, folds: Sequence[SweepFold], term: Callable[[At], Sequence[Value]]) -> list[Value]:
        with self.b.loop(0, self._n) as k:
            start = k * self._step
            fold_row(folds, self.row, lambda i, mask: term((start + i, mask)))
        return [self.b.splat(fold.scalar(), LANES) for fold in folds]

    def n_elements(self) -> Value:
        return self._n * self.row.n


class _Across(SliceCode):
    """Slices side by side, one in each lane: `at` is where they begin, from the first element of their strip on."""

    def __init__(self, operands: Operands, row: SweepRow, first: Value, number: Value, at: At) -> None:
        super().__init__(operands, row, first)
        self._n, self._inner = operands.meta[MIDDLE], operands.meta[INNER]
        self._number = number  # of the strip's first slice
        self._at = at

    def _down(self, k: Value) -> At:
        return k * self._inner + self._at[0], self._at[1]

    def each(self, body: Callable[[At], None]) -> None:
        with self.b.loop(0, self._n) as k:
            body(self._down(k))

    def fold(self, folds: Sequence[SweepFold], term: Callable[[At], Sequence[Value]]) -> list[Value]:
        fold_together(folds, self._n, lambda k: term(self._down(k)))
        return [fold.lanes() for fold in folds]

    def n_elements(self) -> Value:
        return self._n

    def get(self, p: Pointer) -> Value:
        return self.row.load(p, self._number + self._at[0], self._at[1])

    def put(self, value: Value, p: Pointer) -> None:
        self.row.store(value, p, self._number + self._at[0], self._at[1])

    def each_lane(self, body: Callable[[Value, Value], None]) -> None:
        with self.b.loop(0, self.row.lanes if self._at[1] is None else self.row.n_rest) as lane:
            body(self._number + self._at[0] + lane, lane)

    def lanes(self, value: Callable[[Value, Value], Value]) -> Value:
        made = self.b.array(self.row.element, self.row.lanes)
        made.set_vector(0, self.b.const(self.type, 0.0))

        def set_lane(number: Value, lane: Value) -> None:
            made[lane] = value(number, lane)

        self.each_lane(set_lane)
        return made.vector(0, self.row.lanes)

    def element(self, p: Pointer, k: Value, lane: Value) -> Pointer:
        return p + (k * self._inner + self._at[0] + lane)


# ---- all slices


def _write_rows(o: Operands, first: Value, last: Value, body: SliceBody) -> None:
    row = SweepRow(o.b, o.element, o.meta[INNER])
    with o.b.loop(first, last) as index:
        body(Along(o, row, index))


def _write_channels(o: Operands, first: Value, last: Value, body: SliceBody) -> None:
    row = SweepRow(o.b, o.element, o.meta[INNER])
    step = o.meta[MIDDLE] * o.meta[INNER]
    with o.b.loop(first, last) as index:
        body(_Stretches(o, row, index, o.meta[OUTER], step))


def _write_columns(o: Operands, first: Value, last: Value, body: SliceBody) -> None:
    b, inner = o.b, o.meta[INNER]
    strips = (inner + (COLUMNS_IN_STRIP - 1)) // COLUMNS_IN_STRIP
    with b.loop(first, last) as unit:
        outer, left = unit // strips, unit % strips * COLUMNS_IN_STRIP
        row = SweepRow(b, o.element, b.smaller(inner - left, COLUMNS_IN_STRIP), CACHE_LINE // o.element.nbytes)
        begin, number = outer * o.meta[MIDDLE] * inner + left, outer * inner + left
        row.each(lambda i, mask: body(_Across(o, row, begin, number, (i, mask))))


_WRITERS = {"rows": _write_rows, "columns": _write_columns, "channels": _write_channels}


def part_of_slices(element: Type, layout: str, body: SliceBody) -> Callable[[IRFunction], None]:
    """What writes a function that runs one part: `body(slice)` for every slice of it."""

    def part(b: IRFunction) -> None:
        operands = Operands(b, element)
        first, last = part_range(b, operands.meta[N_UNITS], operands.meta[PER_PART])
        _WRITERS[layout](operands, first, last, body)

    return part


def layout_of(shape: tuple[int, ...], dims: tuple[int, ...]) -> tuple[str, tuple[int, int, int]] | None:
    """The layout of slices over `dims`, and its sizes; None for one that has no name, or without elements."""
    if 0 in shape:
        return None
    groups = grouped(shape, dims)
    pattern = "".join("r" if reduced else "k" for reduced, _ in groups)
    sizes = [size for _, size in groups]
    if pattern in ("r", "kr"):
        return "rows", (count(sizes[:-1]), 1, sizes[-1])
    if pattern in ("", "k"):  # slices of one element
        return "rows", (count(sizes), 1, 1)
    if pattern in ("rk", "krk"):
        return "columns", (count(sizes[:-2]), sizes[-2], sizes[-1])
    if pattern == "rkr":
        return "channels", (sizes[0], sizes[1], sizes[2])
    return None


def bind_slices(
    name: str,
    element: Type,
    x: TensorType,
    dims: tuple[int, ...],
    body: SliceBody,
    reads: str,
    writes: tuple[TensorType, ...],
    part_work: int,
) -> Bound | None:
    """The routine for slices of x over `dims`; `part_work` elements are enough for a thread of its own."""
    found = layout_of(x.shape, dims)
    if found is None:
        return None
    layout, sizes = found
    address = build(f"{name}_{element.suffix}_{layout}", write_in_parts, N_PARTS, part_of_slices(element, layout, body))
    return Bound(address, reads, writes, slice_numbers(layout, sizes, part_work))


def slice_numbers(layout: str, sizes: tuple[int, int, int], part_work: int) -> tuple[int, ...]:
    """The numbers of a layout in `meta`: its sizes, and how the work is cut into parts."""
    outer, middle, inner = sizes
    n_units = {"rows": outer, "columns": outer * -(-inner // COLUMNS_IN_STRIP), "channels": middle}[layout]
    n_parts, per_part = parts_of(n_units, count(sizes) // n_units, part_work)
    return outer, middle, inner, n_units, per_part, n_parts
