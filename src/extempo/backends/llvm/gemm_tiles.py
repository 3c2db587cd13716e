"""The innermost loops of matrix products: tiles of the result held in registers, and the packing that feeds them.

Nothing here knows the size of a product. A *panel* is a few rows of A times any number of slivers of B; a sliver is as
many columns as a tile is wide. The sum over k of one element of the result is a chain of fused multiply-adds in the
order of k, whatever tile computes it. Strides are in bytes. A may lie in any way: its elements are spread over lanes
one by one. B must have its columns side by side, or be packed.

A packed sliver has its columns side by side, k after k; a packed tile of A has MAX_ROWS rows side by side, k after k.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from .builder import Function, Module, Pointer, Type, Value, i32, i64, ptr, vector, void

MAX_ROWS = 6  # of a tile: 6 x 2 accumulators, 2 vectors of B and 1 of A are 15 of the 16 registers of AVX2
VECTORS = 2  # of a tile's row
GROUP = 8  # lanes that are packed at once
UNROLLED = 4  # steps of k at once where everything is packed
SWEEP_ROWS = 3  # of A for which B is swept over once, row by row, instead of cut into tiles
SWEEP_STEPS = 4  # rows of B that are swept over together
DOT_COLUMNS = {1: 8, 2: 4, 3: 4}  # columns of a tile of dot products, by its number of rows


class Tiling(NamedTuple):
    """The element type, and how many of them a vector register holds."""

    element: Type
    lanes: int

    @property
    def name(self) -> str:
        return f"{self.element.suffix}x{self.lanes}"

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return self.element.nbytes

    @property
    def columns(self) -> int:
        """The width of a sliver, in elements."""
        return self.lanes * VECTORS

    @property
    def sliver_step(self) -> int:
        """Bytes from one k of a packed sliver to the next."""
        return self.columns * self.size

    @property
    def tile_step(self) -> int:
        """Bytes from one k of a packed tile of A to the next."""
        return MAX_ROWS * self.size

    @property
    def vector(self) -> Type:
        return vector(self.element, self.lanes)


def opaque(b: Function, value: Value) -> Value:
    """The same value, but nothing is known of it.

    Multiples of one stride would otherwise be rewritten into a chain of additions, as long as the products themselves.
    """
    return b.emit(value.type, f'call {value.type.text} asm "", "=r,0"({value.type.text} {value.text})')


def null(b: Function) -> Value:
    return b.const(ptr, 0)


def offset_or_null(b: Function, address: Value, offset: Value | int) -> Value:
    """`address` moved by `offset` bytes; null stays null."""
    return b.select(address != 0, b.byte_offset(address, offset), null(b))


def smaller(b: Function, x: Value, y: Value | int) -> Value:
    return b.select(x < y, x, y)


def first_lanes(b: Function, n_lanes: Value, lanes: int) -> Value:
    """A mask of the first `n_lanes` lanes; it may be more than there are, or negative."""
    few = b.cast("trunc", smaller(b, n_lanes, lanes), i32)  # as many bits as most lanes have
    return b.splat(few, lanes) > b.lanes(vector(i32, lanes), range(lanes))


def _prefetch(b: Function, address: Value) -> None:
    """Ask for a cache line that will be written soon."""
    b.call(b.module.declare("llvm.prefetch.p0", void, [ptr, i32, i32, i32]), address, 1, 3, 1)


# ---- panels

PANEL_ARGS = {
    "a": ptr, "a_row": i64, "a_step": i64, "b": ptr, "b_step": i64, "b_sliver": i64, "c": ptr, "c_row": i64, "k": i64,
    "n_slivers": i64, "bias": ptr, "accumulate": i64,
}  # fmt: skip


class _Tile:
    """Accumulators of `n_rows` x VECTORS and the loop over k that fills them."""

    def __init__(self, b: Function, t: Tiling, n_rows: int, packed: bool) -> None:
        self.b, self.t, self.n_rows, self.packed = b, t, n_rows, packed
        self.sums = [[b.var(t.vector) for _ in range(VECTORS)] for _ in range(n_rows)]
        self.row_offsets: list[Value | int] = [r * t.size for r in range(n_rows)]
        if not packed:
            self.row_offsets = [0, *(opaque(b, b.arg("a_row") * r) for r in range(1, n_rows))]

    def vector_offset(self, v: int) -> int:
        return v * self.t.lanes * self.t.size

    def multiply(self, columns: Value) -> None:
        """All sums over k, from zero."""
        b, t = self.b, self.t
        for row in self.sums:
            for total in row:
                total.set(0.0)
        a_step: Value | int = t.tile_step if self.packed else b.arg("a_step")
        b_step: Value | int = t.sliver_step if self.packed else b.arg("b_step")
        left, right = b.var(ptr, b.arg("a")), b.var(ptr, columns)

        def steps(count: int) -> None:
            p, q = left.value, right.value
            for _ in range(count):
                self._step(p, q)
                p, q = b.byte_offset(p, a_step), b.byte_offset(q, b_step)
            left.set(p)
            right.set(q)

        n_unrolled = b.arg("k") - b.arg("k") % UNROLLED if self.packed else b.const(i64, 0)
        if self.packed:
            with b.loop(0, n_unrolled, UNROLLED):
                steps(UNROLLED)
        with b.loop(n_unrolled, b.arg("k")):
            steps(1)

    def _step(self, p: Value, q: Value) -> None:
        """One k: an outer product."""
        b, t = self.b, self.t
        parts = [b.load(t.vector, b.byte_offset(q, self.vector_offset(v))) for v in range(VECTORS)]
        for offset, row in zip(self.row_offsets, self.sums, strict=True):
            x = b.splat(b.load(t.element, b.byte_offset(p, offset)), t.lanes)
            for total, part in zip(row, parts, strict=True):
                total.set(b.fma(x, part, total.value))

    def finish(self, c: Value, bias: Value) -> None:
        """Add what C holds already, if it is accumulated to, then the bias, if there is one; store."""
        b, t = self.b, self.t
        row_starts = [b.byte_offset(c, b.arg("c_row") * r) for r in range(self.n_rows)]
        with b.if_(b.arg("accumulate") != 0):
            for start, row in zip(row_starts, self.sums, strict=True):
                for v, total in enumerate(row):
                    total.set(b.load(t.vector, b.byte_offset(start, self.vector_offset(v))) + total.value)
        with b.if_(bias != 0):
            for v in range(VECTORS):
                added = b.load(t.vector, b.byte_offset(bias, self.vector_offset(v)))
                for row in self.sums:
                    row[v].set(row[v].value + added)
        for start, row in zip(row_starts, self.sums, strict=True):
            for v, total in enumerate(row):
                b.store(total.value, b.byte_offset(start, self.vector_offset(v)))


def write_panel(module: Module, name: str, t: Tiling, n_rows: int, packed: bool) -> None:
    """`n_rows` rows of A times `n_slivers` slivers: C = A B, or C += A B, then + bias.

    With `packed`, A and B are, and their strides are not read.
    """
    with module.function(name, void, internal=False, **PANEL_ARGS) as b:
        tile = _Tile(b, t, n_rows, packed)
        columns, c, bias = b.var(ptr, b.arg("b")), b.var(ptr, b.arg("c")), b.var(ptr, b.arg("bias"))
        with b.loop(0, b.arg("n_slivers")):
            if packed:  # C is large, and far away
                for r in range(n_rows):
                    _prefetch(b, b.byte_offset(c.value, b.arg("c_row") * r))
            tile.multiply(columns.value)
            tile.finish(c.value, bias.value)
            columns.set(b.byte_offset(columns.value, b.arg("b_sliver")))
            c.set(b.byte_offset(c.value, t.sliver_step))
            bias.set(offset_or_null(b, bias.value, t.sliver_step))


def write_partial_tile(module: Module, name: str, t: Tiling) -> None:
    """A tile that is narrower than a sliver, from where it was computed to C; adds C and bias as a panel does."""
    args = {"tile": ptr, "n_rows": i64, "n_columns": i64, "c": ptr, "c_row": i64, "bias": ptr, "accumulate": i64}
    with module.function(name, void, internal=True, **args) as b:
        tile, bias = Pointer(b.arg("tile"), t.element), Pointer(b.arg("bias"), t.element)
        zeros = b.const(t.vector, 0.0)
        with b.loop(0, b.arg("n_columns"), t.lanes) as column:
            mask = first_lanes(b, b.arg("n_columns") - column, t.lanes)
            with b.loop(0, b.arg("n_rows")) as row:
                value = b.var(t.vector, tile.vector(row * t.columns + column, t.lanes))
                target = b.byte_offset(b.arg("c"), row * b.arg("c_row") + column * t.size)
                with b.if_(b.arg("accumulate") != 0):
                    value.set(b.masked_load(target, mask, zeros) + value.value)
                with b.if_(bias.address != 0):
                    value.set(value.value + b.masked_load(bias.at(column), mask, zeros))
                b.masked_store(value.value, target, mask)


# ---- packing


def transpose(b: Function, rows: Sequence[Value]) -> list[Value]:
    """As many vectors as each has lanes, with rows and lanes exchanged: first single lanes, then pairs, then fours."""
    rows = list(rows)
    n, run = len(rows), 1
    while run < n:
        starts = range(0, n, 2 * run)
        low = [lane + source * n for s in starts for source in (0, 1) for lane in range(s, s + run)]
        high = [lane + run for lane in low]
        made = list(rows)
        for i in [i for s in starts for i in range(s, s + run)]:
            made[i] = b.shuffle(rows[i], rows[i + run], low)
            made[i + run] = b.shuffle(rows[i], rows[i + run], high)
        rows = made
        run *= 2
    return rows


PACK_ARGS = {"source": ptr, "lane": i64, "step": i64, "n_lanes": i64, "k": i64, "out": ptr, "out_step": i64}


class _Pack:
    """Up to GROUP lanes, k steps each, to `out`: the lanes of one step side by side, GROUP of them written."""

    def __init__(self, b: Function, t: Tiling) -> None:
        self.b, self.t = b, t
        self.type = vector(t.element, GROUP)
        self.n_lanes = b.arg("n_lanes")

    def out(self, step: Value) -> Value:
        return self.b.byte_offset(self.b.arg("out"), step * self.b.arg("out_step"))

    def beside(self) -> None:
        """Lanes lie side by side. Those that are not there become zeros."""
        b = self.b
        mask = first_lanes(b, self.n_lanes, GROUP)
        zeros = b.const(self.type, 0.0)
        with b.loop(0, b.arg("k")) as step:
            source = b.byte_offset(b.arg("source"), step * b.arg("step"))
            b.store(b.masked_load(source, mask, zeros), self.out(step))

    def along(self) -> None:
        """Steps lie side by side: GROUP x GROUP blocks are transposed. Lanes that are not there repeat the last one."""
        b, t = self.b, self.t
        last = self.n_lanes - 1
        starts = [
            b.byte_offset(b.arg("source"), smaller(b, b.const(i64, lane), last) * b.arg("lane"))
            for lane in range(GROUP)
        ]
        blocks, single = b.if_else(b.arg("k") >= GROUP)
        with blocks, b.loop(0, b.arg("k"), GROUP) as step:
            begin = smaller(b, step, b.arg("k") - GROUP)  # the last block is shifted back and repeats some steps
            turned = transpose(b, [b.load(self.type, b.byte_offset(start, begin * t.size)) for start in starts])
            for i, lanes in enumerate(turned):
                b.store(lanes, self.out(begin + i))
        with single, b.loop(0, b.arg("k")) as step:
            out = Pointer(self.out(step), t.element)
            for i, start in enumerate(starts):
                out[i] = Pointer(start, t.element)[step]


def write_pack(module: Module, name: str, t: Tiling) -> None:
    """Pack a group of lanes, columns of B or rows of A, of which either lanes or steps lie side by side."""
    with module.function(name, void, internal=True, **PACK_ARGS) as b:
        pack = _Pack(b, t)
        beside, along = b.if_else((b.arg("lane") == t.size) | (pack.n_lanes <= 0))
        with beside:
            pack.beside()
        with along:
            pack.along()


def write_copy_slivers(module: Module, name: str, t: Tiling) -> None:
    """Pack whole slivers of a B that lies by rows, together: so each row of B is read in one go, once."""
    args = {"source": ptr, "step": i64, "k": i64, "n_slivers": i64, "out": ptr}
    with module.function(name, void, internal=True, **args) as b:
        out_sliver = b.arg("k") * t.sliver_step
        with b.loop(0, b.arg("k")) as step:
            source = b.var(ptr, b.byte_offset(b.arg("source"), step * b.arg("step")))
            out = b.var(ptr, b.byte_offset(b.arg("out"), step * t.sliver_step))
            with b.loop(0, b.arg("n_slivers")):
                p, q = source.value, out.value
                for v in range(VECTORS):
                    offset = v * t.lanes * t.size
                    b.store(b.load(t.vector, b.byte_offset(p, offset)), b.byte_offset(q, offset))
                source.set(b.byte_offset(p, t.sliver_step))
                out.set(b.byte_offset(q, out_sliver))


# ---- sweeps

SWEEP_ARGS = {
    "a": ptr, "a_row": i64, "a_step": i64, "b": ptr, "b_step": i64, "c": ptr, "c_row": i64, "k": i64, "n_columns": i64,
    "bias": ptr,
}  # fmt: skip


class _Sweep:
    """The result stays in the nearest cache, and B goes past it in long runs, a few of its rows at a time."""

    def __init__(self, b: Function, t: Tiling, n_rows: int) -> None:
        self.b, self.t = b, t
        self.results = [b.byte_offset(b.arg("c"), b.arg("c_row") * r) for r in range(n_rows)]
        self.rows = [b.byte_offset(b.arg("a"), b.arg("a_row") * r) for r in range(n_rows)]
        self.n_whole = b.arg("n_columns") - b.arg("n_columns") % t.lanes
        self.tail = first_lanes(b, b.arg("n_columns") - self.n_whole, t.lanes)

    def for_columns(self, change: Callable[[Callable[[Value], Value], Value, int], Value]) -> None:
        """result = change(read, result, row) for every vector of every row; `read(start)` reads the same columns."""
        b, t = self.b, self.t

        def at(column: Value, masked: bool) -> None:
            def read(start: Value) -> Value:
                address = b.byte_offset(start, column * t.size)
                if masked:
                    return b.masked_load(address, self.tail, b.const(t.vector, 0.0))
                return b.load(t.vector, address)

            for r, result in enumerate(self.results):
                changed, to = change(read, result, r), b.byte_offset(result, column * t.size)
                if masked:
                    b.masked_store(changed, to, self.tail)
                else:
                    b.store(changed, to)

        with b.loop(0, self.n_whole, t.lanes) as column:
            at(column, False)
        with b.if_(self.n_whole < b.arg("n_columns")):
            at(self.n_whole, True)

    def add_steps(self, step: Value, n_steps: int) -> None:
        """Add the products of some rows of B, in order."""
        b, t = self.b, self.t
        starts = [b.byte_offset(b.arg("b"), (step + i) * b.arg("b_step")) for i in range(n_steps)]
        spread = [
            [
                b.splat(b.load(t.element, b.byte_offset(row, (step + i) * b.arg("a_step"))), t.lanes)
                for i in range(n_steps)
            ]
            for row in self.rows
        ]

        def change(read: Callable[[Value], Value], result: Value, r: int) -> Value:
            total = read(result)
            for x, start in zip(spread[r], starts, strict=True):
                total = b.fma(x, read(start), total)
            return total

        self.for_columns(change)


def write_sweep(module: Module, name: str, t: Tiling, n_rows: int) -> None:
    """A few rows of A times a B that lies by rows, with the same roundings as a panel."""
    with module.function(name, void, internal=True, **SWEEP_ARGS) as b:
        sweep, k = _Sweep(b, t, n_rows), b.arg("k")
        sweep.for_columns(lambda read, result, r: b.const(t.vector, 0.0))
        n_together = k - k % SWEEP_STEPS
        with b.loop(0, n_together, SWEEP_STEPS) as step:
            sweep.add_steps(step, SWEEP_STEPS)
        with b.loop(n_together, k) as step:
            sweep.add_steps(step, 1)
        with b.if_(b.arg("bias") != 0):
            sweep.for_columns(lambda read, result, r: read(result) + read(b.arg("bias")))


# ---- dot products


def fold_each(b: Function, vectors: Sequence[Value]) -> Value:
    """A vector with the sum of the lanes of each of `vectors`, halves first. Their number is a power of two."""
    values = list(vectors)
    group = values[0].type.lanes  # lanes that belong to one sum
    while group > 1:
        half = group // 2
        pairs = list(zip(values[::2], values[1::2], strict=True)) if len(values) > 1 else [(values[0], values[0])]
        n_lanes = values[0].type.lanes * (2 if len(values) > 1 else 1)
        low = [i for start in range(0, n_lanes, group) for i in range(start, start + half)]
        values = [b.shuffle(x, y, low) + b.shuffle(x, y, [i + half for i in low]) for x, y in pairs]
        group = half
    while len(values) > 1:  # more sums than lanes
        order = range(2 * values[0].type.lanes)
        values = [b.shuffle(x, y, order) for x, y in zip(values[::2], values[1::2], strict=True)]
    return values[0]


DOT_ARGS = {
    "a": ptr, "a_row": i64, "b": ptr, "b_column": i64, "c": ptr, "c_row": i64, "k": i64, "n_columns": i64, "bias": ptr,
}  # fmt: skip


class _Dots:
    """`n_rows` rows of A times a few columns of B at once; lanes run along k and are summed last."""

    def __init__(self, b: Function, t: Tiling, n_rows: int) -> None:
        self.b, self.t, self.n_columns = b, t, DOT_COLUMNS[n_rows]
        self.rows = [b.byte_offset(b.arg("a"), b.arg("a_row") * r) for r in range(n_rows)]
        self.sums = [[b.var(t.vector) for _ in range(self.n_columns)] for _ in range(n_rows)]
        self.n_whole = b.arg("k") - b.arg("k") % t.lanes
        self.tail = first_lanes(b, b.arg("k") - self.n_whole, t.lanes)

    def multiply(self, column: Value, rest: Value) -> None:
        """Columns from `column` on, of which `rest` are there; in place of others the last one again."""
        b, t = self.b, self.t
        starts = [
            b.byte_offset(b.arg("b"), (column + smaller(b, b.const(i64, i), rest - 1)) * b.arg("b_column"))
            for i in range(self.n_columns)
        ]
        for total in [total for row in self.sums for total in row]:
            total.set(0.0)
        zeros = b.const(t.vector, 0.0)
        with b.loop(0, self.n_whole * t.size, t.lanes * t.size) as offset:
            self._step(starts, lambda start: b.load(t.vector, b.byte_offset(start, offset)))
        with b.if_(self.n_whole < b.arg("k")):
            offset = self.n_whole * t.size
            self._step(starts, lambda start: b.masked_load(b.byte_offset(start, offset), self.tail, zeros))

    def _step(self, starts: Sequence[Value], read: Callable[[Value], Value]) -> None:
        left = [read(row) for row in self.rows]
        for i, start in enumerate(starts):
            right = read(start)
            for x, row in zip(left, self.sums, strict=True):
                row[i].set(self.b.fma(x, right, row[i].value))

    def finish(self, column: Value, rest: Value) -> None:
        b, t = self.b, self.t
        out = vector(t.element, self.n_columns)
        mask = first_lanes(b, rest, self.n_columns)
        for r, row in enumerate(self.sums):
            total = b.var(out, fold_each(b, [x.value for x in row]))
            with b.if_(b.arg("bias") != 0):
                at = b.byte_offset(b.arg("bias"), column * t.size)
                total.set(total.value + b.masked_load(at, mask, b.const(out, 0.0)))
            target = b.byte_offset(b.arg("c"), b.arg("c_row") * r + column * t.size)
            whole, part = b.if_else(rest >= self.n_columns)
            with whole:
                b.store(total.value, target)
            with part:
                b.masked_store(total.value, target, mask)


def write_dots(module: Module, name: str, t: Tiling, n_rows: int) -> None:
    """`n_rows` rows of A times columns of B, where both have their k side by side."""
    with module.function(name, void, internal=True, **DOT_ARGS) as b:
        dots = _Dots(b, t, n_rows)
        with b.loop(0, b.arg("n_columns"), dots.n_columns) as column:
            rest = b.arg("n_columns") - column
            dots.multiply(column, rest)
            dots.finish(column, rest)
