"""Native pooling, forward: one row of windows at a time, LANES neighbouring windows in one vector.

Windows of the middle, whose columns are all inside, are done in vectors; where there are fewer than LANES of them and
no others in the row, lanes beyond the end are not read, and stored only where a later row is written over them. Windows
at the left and right border are done one by one. Rows of a window that are outside are left out for all alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..ir.builder import IRFunction, IRModule, IRVariable, Pointer, Type, Value, f64, i1, i32, i64, ptr, vector, void
from ..ir.parallel import run_parts
from .conv_tiles import TileNumbers

LANES = 8
META = (
    "n_planes",
    "planes_per_chunk",
    "n_chunks",
    "height",
    "width",
    "n_rows",  # of windows
    "n_columns",
    "kernel_height",
    "kernel_width",
    "stride_height",
    "stride_width",
    "padding_height",
    "padding_width",
    "dilation_height",
    "dilation_width",
    "first_inner",  # columns of windows that are inside
    "end_inner",
    "include_pad",
    "has_divisor",
    "divisor",  # bits of a double
)


class PoolKind(NamedTuple):
    """What is computed: maxima and where they are, or means; and of the windows what is not left to run-time numbers.

    `stride` is that of columns, 0 for any; `kernel` is a small size whose loops are written out, (0, 0) for any.
    """

    element: Type
    is_max: bool
    stride: int
    kernel: tuple[int, int] = (0, 0)

    @property
    def name(self) -> str:
        numbers = "_".join(map(str, (self.stride, *self.kernel)))
        return f"{'max' if self.is_max else 'avg'}_pool_{self.element.suffix}_{numbers}"


class Few(NamedTuple):
    """How a row of fewer than LANES windows is read and stored."""

    lanes: Value  # which lanes there are
    halves: tuple[Value, Value]  # which of twice as many elements, for a stride of 2
    whole: Value  # stores may run over


def few(b: IRFunction, n: Value, whole: Value) -> Few:
    order = b.lanes(vector(i32, LANES), range(LANES))
    short = b.cast("trunc", n, i32)
    last = short * 2 - 1  # the elements between those that are wanted are inside, too
    halves = (b.splat(last, LANES) > order, b.splat(last, LANES) > order + LANES)
    return Few(b.splat(short, LANES) > order, halves, whole)


class PoolRow:
    """One row of windows while its code is written."""

    def __init__(self, b: IRFunction, kind: PoolKind) -> None:
        self.b = b
        self.kind = kind
        self.meta = meta = TileNumbers(b, b.arg("meta"), META)
        self.plane = b.pointer(b.arg("plane"), kind.element)
        self.values = b.pointer(b.arg("values"), kind.element)
        self.indices = b.pointer(b.arg("indices"), i64)
        self.width, self.stride, self.step = meta["width"], meta["stride_width"], meta["dilation_width"]
        self.left, self.row_step = meta["padding_width"], meta["dilation_height"]
        self.top = b.arg("row") * meta["stride_height"] - meta["padding_height"]
        self.begin, self.end = self.inside(self.top, meta["kernel_height"], meta["dilation_height"], meta["height"])
        order = b.lanes(vector(i32, LANES), range(LANES))
        self._order = order * b.splat(b.cast("trunc", self.stride, i32), LANES)

    def inside(self, first: Value, kernel: Value, step: Value, size: Value) -> tuple[Value, Value]:
        """The places of a window that begins at `first` which are inside: from and up to."""
        b = self.b
        begin, end = b.var(i64, 0), b.var(i64, kernel)
        with b.if_(first < 0):  # divisions are slow, and seldom needed
            begin.set((step - 1 - first) // step)
        with b.if_(first + (kernel - 1) * step >= size):
            end.set(b.select(first < size, (size - first + step - 1) // step, 0))
        return begin.value, end.value

    def counted(self, first: Value, kernel: Value, size: Value, padding: Value, begin: Value, end: Value) -> Value:
        """How many elements along one dimension a mean is divided by."""
        b = self.b
        return b.select(self.meta["include_pad"] != 0, b.smaller(kernel, size + padding - first), end - begin)

    def divisor(self, n_columns: Value) -> Value:
        """What a mean of windows with so many columns is divided by."""
        b, meta = self.b, self.meta
        n_rows = self.counted(
            self.top, meta["kernel_height"], meta["height"], meta["padding_height"], self.begin, self.end
        )
        counted = b.cast("sitofp", n_rows * n_columns, self.kind.element)
        given = b.bitcast(meta["divisor"], f64)
        if self.kind.element is not f64:
            given = b.cast("fptrunc", given, self.kind.element)
        return b.select(meta["has_divisor"] != 0, given, counted)

    def divisor_at(self, column: Value) -> Value:
        """What the mean of one window is divided by."""
        first, kernel = column * self.stride - self.left, self.meta["kernel_width"]
        begin, end = self.inside(first, kernel, self.step, self.width)
        return self.divisor(self.counted(first, kernel, self.width, self.left, begin, end))

    def start(self, lanes: int, first: Value) -> tuple[IRVariable, IRVariable]:
        """The best value (or the sum) so far and its position; of nothing but padding, the nearest element's."""
        b = self.b
        value = b.var(vector(self.kind.element, lanes), float("-inf") if self.kind.is_max else 0.0)
        row = b.select(self.top < 0, 0, b.smaller(self.top, self.meta["height"] - 1))
        position = b.var(vector(i32, lanes), 0)
        if self.kind.is_max:
            position.set(self._positions(lanes, row * self.width + first))
        return value, position

    def _positions(self, lanes: int, first: Value) -> Value:
        b = self.b
        near = b.cast("trunc", first, i32)
        return near if lanes == 1 else b.splat(near, lanes) + self._order

    def take(self, best: IRVariable, where: IRVariable, value: Value, first: Value) -> None:
        """One more place of the windows; `first` is the position of the first lane."""
        b = self.b
        if not self.kind.is_max:
            best.set(best.value + value)
            return
        better = (value > best.value) | (value != value)
        where.set(b.select(better, self._positions(value.type.lanes, first), where.value))
        best.set(b.select(better, value, best.value))

    def inner(self, column: Value, few: Few | None) -> None:
        """LANES windows from `column` on, or the few that a short row has."""
        b, meta = self.b, self.meta
        first = column * self.stride - self.left
        best, where = self.start(LANES, first)

        def take(i: Value | int, j: Value | int) -> None:
            position = (self.top + i * self.row_step) * self.width + first + j * self.step
            self.take(best, where, self._lanes(self.plane + position, few), position)

        if self.kind.kernel == (0, 0):
            with b.loop(self.begin, self.end) as i, b.loop(0, meta["kernel_width"]) as j:
                take(i, j)
        else:
            for row in range(self.kind.kernel[0]):
                with b.if_(b.compare("<", self.top + row * self.row_step, meta["height"], unsigned=True)):
                    for place in range(self.kind.kernel[1]):
                        take(row, place)
        if self.kind.is_max:
            self._store(self.values, column, best.value, few)
            self._store(self.indices, column, b.cast("sext", where.value, i64), few)
        else:
            mean = best.value / b.splat(self.divisor(meta["kernel_width"]), LANES)
            self._store(self.values, column, mean, few)

    def _lanes(self, at: Pointer, few: Few | None) -> Value:
        """The elements at `at` and every stride further."""
        b, stride = self.b, self.kind.stride
        zero = b.const(vector(self.kind.element, LANES), 0.0)
        if stride == 1:
            return at.vector(0, LANES) if few is None else b.masked_load(at.address, few.lanes, zero)
        if stride == 2 and few is None:
            # The second half begins where the last lane's element is its last one: nothing further is read.
            low, high = at.vector(0, LANES), at.vector(LANES - 1, LANES)
            return b.shuffle(low, high, [0, 2, 4, 6, *(LANES + i for i in (1, 3, 5, 7))])
        if stride == 2 and few is not None:
            low, high = (b.masked_load(at.at(half * LANES), few.halves[half], zero) for half in range(2))
            return b.shuffle(low, high, range(0, 2 * LANES, 2))
        out = zero
        for lane in range(LANES):
            index = self.stride * lane
            if few is not None:  # lanes that are not there read the first element again
                index = b.select(b.extract(few.lanes, lane), index, 0)
            out = b.insert(out, at[index], lane)
        return out

    def _store(self, to: Pointer, column: Value, value: Value, few: Few | None) -> None:
        b = self.b
        if few is None:
            to.set_vector(column, value)
            return
        over, exact = b.if_else(few.whole)
        with over:
            to.set_vector(column, value)
        with exact:
            b.masked_store(value, to.at(column), few.lanes)

    def border(self, column: Value) -> None:
        """One window, inside or at the border."""
        b, meta = self.b, self.meta
        first = column * self.stride - self.left
        near = b.select(first < 0, 0, b.smaller(first, self.width - 1))
        best, where = self.start(1, near)
        begin, end = self.inside(first, meta["kernel_width"], self.step, self.width)
        with b.loop(self.begin, self.end) as i:
            row = (self.top + i * self.row_step) * self.width + first
            with b.loop(begin, end) as j:
                position = row + j * self.step
                self.take(best, where, self.plane[position], position)
        if self.kind.is_max:
            self.values[column] = best.value
            self.indices[column] = b.cast("sext", where.value, i64)
        else:
            self.values[column] = best.value / self.divisor_at(column)


_ROW = {"plane": ptr, "values": ptr, "indices": ptr, "row": i64, "meta": ptr, "whole": i1}


def _write_row(module: IRModule, kind: PoolKind) -> None:
    with module.function("row", void, internal=True, **_ROW) as b:
        row = PoolRow(b, kind)
        first, end, n = row.meta["first_inner"], row.meta["end_inner"], row.meta["n_columns"]
        n_inner = end - first
        done = b.var(i64, first), b.var(i64, end)
        many, others = b.if_else(n_inner >= LANES)
        with many, b.loop(0, n_inner, LANES) as i:
            row.inner(b.smaller(first + i, end - LANES), None)
        with others:
            short, mixed = b.if_else((n_inner > 0) & (n_inner == n))
            with short:
                row.inner(b.const(i64, 0), few(b, n, b.arg("whole")))
            with mixed:
                done[1].set(first)
        each_border(b, row.border, done[0].value, done[1].value, n)


def each_border(b: IRFunction, border: Callable[[Value], None], first: Value, end: Value, n: Value) -> None:
    """Windows left of `first`, and from `end` on."""
    column = b.var(i64, 0)
    with b.while_(lambda: column.value < n) as again:
        with b.if_((column.value >= first) & (column.value < end)):
            column.set(end)
        with b.if_(column.value < n):
            border(column.value)
        again()
        column.set(column.value + 1)


def write_pool(module: IRModule, name: str, kind: PoolKind) -> None:
    """`i64 name(buffers, meta)`; buffers: the input (and a number), values (and indices)."""
    _write_row(module, kind)
    n_inputs = 1 if kind.is_max else 2
    with module.function("chunk", void, context=ptr, chunk=i64) as b:
        words = Pointer(b.arg("context"), ptr)
        buffers, meta = b.pointer(words[0], ptr), TileNumbers(b, words[1], META)
        first = b.arg("chunk") * meta["planes_per_chunk"]
        end = b.smaller(first + meta["planes_per_chunk"], meta["n_planes"])
        n_rows, n_columns = meta["n_rows"], meta["n_columns"]
        source, values = b.pointer(buffers[0], kind.element), b.pointer(buffers[n_inputs], kind.element)
        indices = b.pointer(buffers[n_inputs + 1], i64) if kind.is_max else Pointer(values.address, i64)
        with b.loop(first, end) as p, b.loop(0, n_rows) as r:
            at = (p * n_rows + r) * n_columns
            plane = source + p * meta["height"] * meta["width"]
            # A vector is longer than a row here by less than LANES, which the rows that follow in this chunk hold.
            follows = ((end - p) * n_rows - r - 1) * n_columns >= LANES
            operands = (plane.address, (values + at).address, (indices + at).address)
            b.call(module.defined["row"], *operands, r, words[1], follows)
    write_main(module, name)


def write_main(module: IRModule, name: str) -> None:
    """`i64 name(buffers, meta)`: the chunks, shared out."""
    with module.function(name, i64, buffers=ptr, meta=ptr) as b:
        context = b.array(ptr, 2)
        context[0], context[1] = b.arg("buffers"), b.arg("meta")
        run_parts(b, "chunk", context.address, TileNumbers(b, b.arg("meta"), META)["n_chunks"])
        b.ret(0)
