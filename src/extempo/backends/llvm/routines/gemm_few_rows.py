"""Products of a few rows, without tiles: sweeps over a row-major B, dot products with a column-major one.

Both read B once, in place. A sweep rounds like a panel: a chain of fused multiply-adds in the order of k. A dot
product has as many chains as a vector has lanes, summed in halves at the end. Strides are in bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..ir.builder import IRFunction, IRModule, Value, i64, ptr, vector, void
from .gemm_tiles import Tiling, first_lanes

SWEEP_ROWS = 3  # of A for which B is swept over once, row by row, instead of cut into tiles
SWEEP_STEPS = 4  # rows of B that are swept over together
DOT_COLUMNS = {1: 8, 2: 4, 3: 4}  # columns of a tile of dot products, by its number of rows


# ---- sweeps

SWEEP_ARGS = {
    "a": ptr, "a_row": i64, "a_step": i64, "b": ptr, "b_step": i64, "c": ptr, "c_row": i64, "k": i64, "n_columns": i64,
    "bias": ptr,
}  # fmt: skip


class _Sweep:
    """The result stays in the nearest cache, and B goes past it in long runs, a few of its rows at a time."""

    def __init__(self, b: IRFunction, t: Tiling, n_rows: int) -> None:
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


def write_sweep(module: IRModule, name: str, t: Tiling, n_rows: int) -> None:
    """A few rows of A times a row-major B, with the same roundings as a panel."""
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


def fold_each(b: IRFunction, vectors: Sequence[Value]) -> Value:
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

    def __init__(self, b: IRFunction, t: Tiling, n_rows: int) -> None:
        self.b, self.t, self.n_columns = b, t, DOT_COLUMNS[n_rows]
        self.rows = [b.byte_offset(b.arg("a"), b.arg("a_row") * r) for r in range(n_rows)]
        self.sums = [[b.var(t.vector) for _ in range(self.n_columns)] for _ in range(n_rows)]
        self.n_whole = b.arg("k") - b.arg("k") % t.lanes
        self.tail = first_lanes(b, b.arg("k") - self.n_whole, t.lanes)

    def multiply(self, column: Value, rest: Value) -> None:
        """Columns from `column` on, of which `rest` are there; in place of others the last one again."""
        b, t = self.b, self.t
        starts = [
            b.byte_offset(b.arg("b"), (column + b.smaller(b.const(i64, i), rest - 1)) * b.arg("b_column"))
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


def write_dots(module: IRModule, name: str, t: Tiling, n_rows: int) -> None:
    """`n_rows` rows of A times columns of B, where both have their k side by side."""
    with module.function(name, void, internal=True, **DOT_ARGS) as b:
        dots = _Dots(b, t, n_rows)
        with b.loop(0, b.arg("n_columns"), dots.n_columns) as column:
            rest = b.arg("n_columns") - column
            dots.multiply(column, rest)
            dots.finish(column, rest)
