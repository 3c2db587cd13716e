"""The innermost loops of matrix products: tiles of the result, held in registers.

Nothing here knows the size of a product. A *panel* is a few rows of A times any number of slivers of B; a sliver is as
many columns as a tile is wide. The sum over k of one element of the result is a chain of fused multiply-adds in the
order of k, whatever tile computes it. Strides are in bytes. A may have any strides: its elements are spread over lanes
one by one. B must have its columns side by side, or be packed.
"""

from __future__ import annotations

from typing import NamedTuple

from ..ir.builder import IRFunction, IRModule, Pointer, Type, Value, i32, i64, ptr, vector, void

MAX_ROWS = 6  # of a tile: 6 x 2 accumulators, 2 vectors of B and 1 of A are 15 of the 16 registers of AVX2
WIDE_ROWS = 12  # of a packed tile of AVX-512: the same are 27 of its 32 registers
VECTORS = 2  # of a tile's row
UNROLLED = 4  # steps of k at once where everything is packed


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
    def is_wide(self) -> bool:
        """Whether the registers are those of AVX-512, of which there are twice as many."""
        return self.lanes * self.size == 64

    @property
    def packed_rows(self) -> int:
        """The height of the tallest packed tile of A."""
        return WIDE_ROWS if self.is_wide else MAX_ROWS

    @property
    def tile_step(self) -> int:
        """Bytes from one k of a packed tile of A to the next."""
        return self.packed_rows * self.size

    @property
    def vector(self) -> Type:
        return vector(self.element, self.lanes)


def opaque(b: IRFunction, value: Value) -> Value:
    """The same value, but nothing is known of it.

    Multiples of one stride would otherwise be rewritten into a chain of additions, as long as the products themselves.
    """
    return b.emit(value.type, f'call {value.type.text} asm "", "=r,0"({value.type.text} {value.text})')


def null(b: IRFunction) -> Value:
    return b.const(ptr, 0)


def offset_or_null(b: IRFunction, address: Value, offset: Value | int) -> Value:
    """`address` moved by `offset` bytes; null stays null."""
    return b.select(address != 0, b.byte_offset(address, offset), null(b))


def first_lanes(b: IRFunction, n_lanes: Value, lanes: int) -> Value:
    """A mask of the first `n_lanes` lanes; it may be more than there are, or negative."""
    few = b.cast("trunc", b.smaller(n_lanes, lanes), i32)  # as many bits as most lanes have
    return b.splat(few, lanes) > b.lanes(vector(i32, lanes), range(lanes))


def _prefetch(b: IRFunction, address: Value) -> None:
    """Ask for a cache line that will be written soon."""
    b.call(b.module.declare("llvm.prefetch.p0", void, [ptr, i32, i32, i32]), address, 1, 3, 1)


# ---- panels

PANEL_ARGS = {
    "a": ptr, "a_row": i64, "a_step": i64, "b": ptr, "b_step": i64, "b_sliver": i64, "c": ptr, "c_row": i64, "k": i64,
    "n_slivers": i64, "bias": ptr, "accumulate": i64,
}  # fmt: skip
STACK_ARGS = {
    "a": ptr, "a_tile": i64, "b": ptr, "c": ptr, "c_row": i64, "k": i64, "n_tiles": i64, "bias": ptr, "accumulate": i64,
}  # fmt: skip
PARTIAL_ARGS = {
    "tile": ptr, "n_rows": i64, "n_columns": i64, "c": ptr, "c_row": i64, "bias": ptr, "accumulate": i64,
}  # fmt: skip


class _Tile:
    """Accumulators of `n_rows` x VECTORS and the loop over k that fills them."""

    def __init__(self, b: IRFunction, t: Tiling, n_rows: int, packed: bool) -> None:
        self.b, self.t, self.n_rows, self.packed = b, t, n_rows, packed
        self.sums = [[b.var(t.vector) for _ in range(VECTORS)] for _ in range(n_rows)]
        self.row_offsets: list[Value | int] = [r * t.size for r in range(n_rows)]
        if not packed:
            self.row_offsets = [0, *(opaque(b, b.arg("a_row") * r) for r in range(1, n_rows))]

    def vector_offset(self, v: int) -> int:
        return v * self.t.lanes * self.t.size

    def multiply(self, rows: Value, columns: Value) -> None:
        """All sums over k, from zero."""
        b, t = self.b, self.t
        for row in self.sums:
            for total in row:
                total.set(0.0)
        a_step: Value | int = t.tile_step if self.packed else b.arg("a_step")
        b_step: Value | int = t.sliver_step if self.packed else b.arg("b_step")
        left, right = b.var(ptr, rows), b.var(ptr, columns)

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


def write_panel(module: IRModule, name: str, t: Tiling, n_rows: int) -> None:
    """`n_rows` rows of A times `n_slivers` slivers: C = A B, or C += A B, then + bias."""
    with module.function(name, void, internal=False, **PANEL_ARGS) as b:
        tile = _Tile(b, t, n_rows, packed=False)
        columns, c, bias = b.var(ptr, b.arg("b")), b.var(ptr, b.arg("c")), b.var(ptr, b.arg("bias"))
        with b.loop(0, b.arg("n_slivers")):
            tile.multiply(b.arg("a"), columns.value)
            tile.finish(c.value, bias.value)
            columns.set(b.byte_offset(columns.value, b.arg("b_sliver")))
            c.set(b.byte_offset(c.value, t.sliver_step))
            bias.set(offset_or_null(b, bias.value, t.sliver_step))


def write_stack(module: IRModule, name: str, t: Tiling, n_rows: int) -> None:
    """`n_tiles` packed tiles of A, `n_rows` rows each, times one packed sliver: C = A B, or C += A B, then + bias.

    Such products are large, and C is far away: what a tile will need of it is asked for in time.
    """
    with module.function(name, void, internal=False, **STACK_ARGS) as b:
        tile = _Tile(b, t, n_rows, packed=True)
        rows, c = b.var(ptr, b.arg("a")), b.var(ptr, b.arg("c"))
        with b.loop(0, b.arg("n_tiles")):
            for r in range(n_rows):
                _prefetch(b, b.byte_offset(c.value, b.arg("c_row") * r))
            tile.multiply(rows.value, b.arg("b"))
            tile.finish(c.value, b.arg("bias"))
            rows.set(b.byte_offset(rows.value, b.arg("a_tile")))
            c.set(b.byte_offset(c.value, b.arg("c_row") * n_rows))


def write_partial_tile(module: IRModule, name: str, t: Tiling) -> None:
    """A tile that is narrower than a sliver, from where it was computed to C; adds C and bias as a panel does."""
    with module.function(name, void, internal=False, **PARTIAL_ARGS) as b:
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
