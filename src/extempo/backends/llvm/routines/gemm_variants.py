"""The variants of a matrix product, as code that works on a record; a plan (`gemm_plan`) says which one is used.

Each is a function of (record, chunk), and threads may share the chunks, which only read the `gemm_record.Record`:

    dots       few rows, B by columns (x @ weight.T for a few x): lanes run along k
    sweep      one to three rows, B by rows: all of B goes past the result once
    columns    some rows: slivers of B, read in place or packed a few at a time, each for all rows
    packed     more rows: the same with A packed, too
    blocks     many rows: B is packed for a block of k, then each block of rows packs its part of A and takes all of it

`packed` and `blocks` also take a B that was packed before, for many products, whatever the number of rows.
Blocks of k are added up in order, so how the work is shared never changes a result.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from ..ir.builder import Callee, IRFunction, IRModule, Type, Value, i64, ptr, vector, void
from ..ir.parallel import run_shared
from .gemm_few_rows import DOT_COLUMNS, write_dots, write_sweep
from .gemm_packing import GROUP, PACK_ARGS, write_copy_slivers, write_pack
from .gemm_record import Record
from .gemm_tiles import (
    MAX_ROWS,
    PANEL_ARGS,
    PARTIAL_ARGS,
    STACK_ARGS,
    Tiling,
    first_lanes,
    null,
    offset_or_null,
    write_partial_tile,
)

PACK_CHUNK = 16  # slivers that are packed in one chunk of a block
TOGETHER = 4  # slivers, or tiles of A, that are packed together where each k is a run of memory

CHUNK_ARGS = {"record": ptr, "chunk": i64}
ROW_OF_TILES_ARGS = {
    "panel": ptr, "height": i64, "a": ptr, "a_row": i64, "a_step": i64, "b": ptr, "b_step": i64, "b_sliver": i64,
    "n_columns": i64, "k": i64, "c": ptr, "c_row": i64, "bias": ptr, "accumulate": i64,
}  # fmt: skip
TILES_ARGS = {
    "record": ptr, "b": ptr, "b_step": i64, "b_sliver": i64, "column": i64, "n_columns": i64, "k_index": i64,
}  # fmt: skip
STACKS_ARGS = {
    "record": ptr, "first": i64, "last": i64, "a": ptr, "a_tile": i64, "b": ptr, "column": i64, "n_columns": i64,
    "k_index": i64,
}  # fmt: skip
PACK_ROWS_ARGS = {"record": ptr, "first": i64, "last": i64, "k_start": i64, "k": i64, "out": ptr}
PACK_SLIVERS_ARGS = {"source": ptr, "column": i64, "step": i64, "n_columns": i64, "k": i64, "out": ptr}
# What other modules import from the one that has it.
SHARED: dict[str, dict[str, Type]] = {
    "row_of_tiles": ROW_OF_TILES_ARGS, "pack_slivers": PACK_SLIVERS_ARGS, "columns": CHUNK_ARGS,
    "partial_tile": PARTIAL_ARGS, "pack": PACK_ARGS,
}  # fmt: skip


def _call_by_address(b: IRFunction, function: Value, types: dict[str, Type], *args: Value | int) -> None:
    """Call a panel or a stack."""
    b.call_address(function, void, *(b.as_value(x, type_) for x, type_ in zip(args, types.values(), strict=True)))


class GemmVariants:
    """Writes the functions for one tiling into modules. `symbol` gives the name that a function has everywhere."""

    def __init__(self, module: IRModule, t: Tiling, symbol: Callable[[str], str]) -> None:
        self.module, self.t, self.symbol = module, t, symbol

    def own(self, name: str) -> Callee:
        """A function of this module, or one that another module shares."""
        full = self.symbol(name)
        return self.module.defined.get(full) or self.module.declare(full, void, list(SHARED[name].values()))

    # ---- packing

    def write_pack_slivers(self) -> None:
        """Columns as slivers, k steps long, one after the other; the last one is filled up."""
        t, module = self.t, self.module
        write_pack(module, self.symbol("pack"), t)
        write_copy_slivers(module, self.symbol("copy_slivers"), t)
        with module.function(self.symbol("pack_slivers"), void, internal=False, **PACK_SLIVERS_ARGS) as b:
            first, b_column, b_step = b.arg("source"), b.arg("column"), b.arg("step")
            n_columns, k = b.arg("n_columns"), b.arg("k")
            copied = b.var(i64, 0)
            with b.if_(b_column == t.size):
                copied.set(n_columns - n_columns % t.columns)
                with b.loop(0, copied.value, t.columns * TOGETHER) as column:
                    n = b.smaller((copied.value - column) // t.columns, TOGETHER)
                    source, out = (
                        b.byte_offset(first, column * t.size),
                        b.byte_offset(b.arg("out"), column * k * t.size),
                    )
                    b.call(self.own("copy_slivers"), source, b_step, k, n, out)
            with b.loop(copied.value, n_columns, t.columns) as column, b.loop(0, t.columns, GROUP) as lane:
                n_lanes = b.smaller(n_columns - column - lane, GROUP)
                at = b.select(n_lanes > 0, column + lane, b.const(i64, 0))
                out = b.byte_offset(b.arg("out"), column * k * t.size + lane * t.size)
                source = b.byte_offset(first, at * b_column)
                b.call(self.own("pack"), source, b_column, b_step, n_lanes, k, out, t.sliver_step)

    def write_pack_rows(self) -> None:
        """Tiles of A from a k on, one after the other."""
        t = self.t
        with self.module.function(self.symbol("pack_rows"), void, internal=False, **PACK_ROWS_ARGS) as b:
            r = Record(b, b.arg("record"))
            a_row, a_step, k = r["a_row"], r["a_step"], b.arg("k")
            start = b.byte_offset(r["a"], b.arg("k_start") * a_step)
            n_lanes = -(-t.packed_rows // GROUP) * GROUP
            lanes = vector(t.element, n_lanes)
            beside, along = b.if_else(a_row == t.size)
            with beside, b.loop(b.arg("first"), b.arg("last"), TOGETHER) as tile:
                n_tiles = b.smaller(b.arg("last") - tile, TOGETHER)
                out = b.byte_offset(b.arg("out"), (tile - b.arg("first")) * k * t.tile_step)
                inside = (n_tiles == TOGETHER) & (r.tile_start(tile + (TOGETHER - 1)) + n_lanes <= r["m"])
                # A whole group of lanes reaches into the tile's next step, which is yet to come.
                n_whole = b.select(inside, k - 1, b.const(i64, 0))
                tiles = [b.byte_offset(start, r.tile_start(tile + i) * t.size) for i in range(TOGETHER)]
                targets = [b.byte_offset(out, k * (i * t.tile_step)) for i in range(TOGETHER)]
                with b.loop(0, n_whole) as step:
                    for source, to in zip(tiles, targets, strict=True):
                        group = b.load(lanes, b.byte_offset(source, step * a_step))
                        b.store(group, b.byte_offset(to, step * t.tile_step))
                with b.loop(n_whole, k) as step, b.loop(0, n_tiles) as i:
                    there = first_lanes(b, r.tile_height(tile + i), n_lanes)
                    source = b.byte_offset(start, step * a_step + r.tile_start(tile + i) * t.size)
                    to = b.byte_offset(out, (i * k + step) * t.tile_step)
                    b.masked_store(b.masked_load(source, there, b.const(lanes, 0.0)), to, there)
            with along, b.loop(b.arg("first"), b.arg("last")) as tile:
                source = b.byte_offset(start, r.tile_start(tile) * a_row)
                out = b.byte_offset(b.arg("out"), (tile - b.arg("first")) * k * t.tile_step)
                for lane in reversed(range(0, n_lanes, GROUP)):  # the last group reaches into the next step's first
                    height = r.tile_height(tile) - lane
                    with b.if_(height > 0):
                        group, to = b.byte_offset(source, a_row * lane), b.byte_offset(out, lane * t.size)
                        b.call(self.own("pack"), group, a_row, a_step, height, k, to, t.tile_step)

    # ---- tiles of the result

    def write_row_of_tiles(self) -> None:
        """A panel on any number of columns: whole slivers go where they belong, the rest by way of the stack."""
        t, module = self.t, self.module
        write_partial_tile(module, self.symbol("partial_tile"), t)
        with module.function(self.symbol("row_of_tiles"), void, internal=False, **ROW_OF_TILES_ARGS) as b:
            panel, a, a_row, a_step = (b.arg(name) for name in ("panel", "a", "a_row", "a_step"))
            slivers, b_step, b_sliver, k = (b.arg(name) for name in ("b", "b_step", "b_sliver", "k"))
            c, c_row, bias, accumulate = (b.arg(name) for name in ("c", "c_row", "bias", "accumulate"))
            n, rest = b.arg("n_columns") // t.columns, b.arg("n_columns") % t.columns
            local = b.array(t.element, MAX_ROWS * t.columns).address
            with b.if_(n > 0):
                _call_by_address(
                    b, panel, PANEL_ARGS, a, a_row, a_step, slivers, b_step, b_sliver, c, c_row, k, n, bias, accumulate
                )
            with b.if_(rest > 0):
                last = b.byte_offset(slivers, n * b_sliver)
                _call_by_address(
                    b, panel, PANEL_ARGS, a, a_row, a_step, last, b_step, 0, local, t.sliver_step, k, 1, null(b), 0
                )
                done = n * t.sliver_step
                to, last_bias = b.byte_offset(c, done), offset_or_null(b, bias, done)
                b.call(self.own("partial_tile"), local, b.arg("height"), rest, to, c_row, last_bias, accumulate)

    def write_tiles(self) -> None:
        """All rows of an A that is not packed, times columns whose slivers begin at b, for one block of k."""
        t = self.t
        with self.module.function(self.symbol("tiles"), void, internal=True, **TILES_ARGS) as b:
            r = Record(b, b.arg("record"))
            a_row, a_step, c_row = r["a_row"], r["a_step"], r["c_row"]
            slivers, b_step, b_sliver, n = (b.arg(name) for name in ("b", "b_step", "b_sliver", "n_columns"))
            k_start, k = r.k_range(b.arg("k_index"))
            bias, accumulate = self._ends(r, b.arg("k_index"), b.arg("column"))
            with b.loop(0, r["n_tiles"]) as tile:
                start = r.tile_start(tile)
                panel = b.select(r.is_taller(tile), r["taller_panel"], r["panel"])
                a = b.byte_offset(r["a"], start * a_row + k_start * a_step)
                c = b.byte_offset(r["c"], start * c_row + b.arg("column") * t.size)
                where = (a, a_row, a_step, slivers, b_step, b_sliver, n, k, c, c_row)
                b.call(self.own("row_of_tiles"), panel, r.tile_height(tile), *where, bias, accumulate)

    def _ends(self, r: Record, k_index: Value, column: Value) -> tuple[Value, Value]:
        """What is added to the sums of a block of k: the bias to the last one's, C to all but the first one's."""
        b = r.b
        bias = b.select(k_index == r["n_k_blocks"] - 1, r["bias"], null(b))
        return offset_or_null(b, bias, column * self.t.size), b.cast("zext", k_index > 0, i64)

    def write_stacks(self) -> None:
        """Packed tiles first..last, the first of them at a, times a sliver at b, of which n_columns are there."""
        t = self.t
        with self.module.function(self.symbol("stacks"), void, internal=False, **STACKS_ARGS) as b:
            r = Record(b, b.arg("record"))
            a_tile, sliver, n_columns, c_row = b.arg("a_tile"), b.arg("b"), b.arg("n_columns"), r["c_row"]
            _, k = r.k_range(b.arg("k_index"))
            bias, accumulate = self._ends(r, b.arg("k_index"), b.arg("column"))
            local = b.array(t.element, t.packed_rows * t.columns).address
            middle = b.smaller(b.larger(r["n_taller"], b.arg("first")), b.arg("last"))
            for first, last, panel in ((b.arg("first"), middle, "taller_panel"), (middle, b.arg("last"), "panel")):
                a = b.byte_offset(b.arg("a"), (first - b.arg("first")) * a_tile)
                c = b.byte_offset(r["c"], r.tile_start(first) * c_row + b.arg("column") * t.size)
                with b.if_(first < last):
                    whole, part = b.if_else(n_columns == t.columns)
                    with whole:
                        args = (a, a_tile, sliver, c, c_row, k, last - first, bias, accumulate)
                        _call_by_address(b, r[panel], STACK_ARGS, *args)
                    with part, b.loop(0, last - first) as i:
                        rows, height = b.byte_offset(a, i * a_tile), r.tile_height(first)
                        one = (rows, a_tile, sliver, local, t.sliver_step, k, 1, null(b), 0)
                        _call_by_address(b, r[panel], STACK_ARGS, *one)
                        to = b.byte_offset(c, i * height * c_row)
                        b.call(self.own("partial_tile"), local, height, n_columns, to, c_row, bias, accumulate)

    def _made(self, r: Record, row: Value | int, n_rows: Value, column: Value, n_columns: Value) -> None:
        """A part of the result is there."""
        b, epilogue = r.b, r["epilogue"]
        with b.if_(epilogue != 0):
            sizes = (r["first_row"] + row, n_rows, column, n_columns)
            b.call_address(epilogue, void, r["epilogue_context"], *sizes)

    def _made_at_last(self, r: Record, k_index: Value, row: Value | int, *sizes: Value) -> None:
        """The same, once the last block of k has been added."""
        with r.b.if_(k_index == r["n_k_blocks"] - 1):
            self._made(r, row, *sizes)

    # ---- variants

    def _columns_of(self, r: Record, chunk: Value) -> tuple[Value, Value, Value]:
        """The share of columns of a chunk, first and last, and its scratch memory."""
        b = r.b
        first = chunk * r["chunk_columns"]
        last = b.smaller(first + r["chunk_columns"], r["n"])
        return first, last, b.byte_offset(r["scratch"], r["a_scratch"] + chunk * r["b_scratch"])

    def write_columns(self) -> None:
        """A share of the columns, all rows. Whole slivers of a row-major B are read in place."""
        t = self.t
        with self.module.function(self.symbol("columns"), void, internal=False, **CHUNK_ARGS) as b:
            r = Record(b, b.arg("record"))
            first, last, packed = self._columns_of(r, b.arg("chunk"))
            in_place = r["b_column"] == t.size
            with b.loop(0, r["n_k_blocks"]) as k_index, b.loop(first, last, r["group"] * t.columns) as column:
                k_start, k = r.k_range(k_index)
                n_columns = b.smaller(last - column, r["group"] * t.columns)
                n_there = b.select(in_place, n_columns - n_columns % t.columns, 0)
                tiles = self.own("tiles")
                with b.if_(n_there > 0):
                    there = r.columns_at(column, k_start)
                    b.call(tiles, r.address, there, r["b_step"], t.sliver_step, column, n_there, k_index)
                with b.if_(n_there < n_columns):
                    at, n = column + n_there, n_columns - n_there
                    columns = r.columns_at(at, k_start)
                    b.call(self.own("pack_slivers"), columns, r["b_column"], r["b_step"], n, k, packed)
                    b.call(tiles, r.address, packed, t.sliver_step, k * t.sliver_step, at, n, k_index)
                self._made_at_last(r, k_index, 0, r["m"], column, n_columns)

    def write_packed(self) -> None:
        """All of the product; its chunk is 0. A is packed, then threads share the columns."""
        t = self.t
        with self.module.function(self.symbol("packed_chunk"), void, internal=True, **CHUNK_ARGS) as b:
            r = Record(b, b.arg("record"))
            first, last, packed = self._columns_of(r, b.arg("chunk"))
            with b.loop(0, r["n_k_blocks"]) as k_index, b.loop(first, last, r["group"] * t.columns) as column:
                k_start, k = r.k_range(k_index)
                n_columns = b.smaller(last - column, r["group"] * t.columns)
                columns, start = r.columns_at(column, k_start), b.var(ptr, r.packed_at(t, column, k_start, k))
                with b.if_(r["given"] == 0):
                    start.set(packed)
                    b.call(self.own("pack_slivers"), columns, r["b_column"], r["b_step"], n_columns, k, packed)
                rows, a_tile = b.byte_offset(r["scratch"], k_start * t.tile_step), r["k"] * t.tile_step
                with b.loop(0, n_columns, t.columns) as i:
                    sliver, n = b.byte_offset(start.value, i * k * t.size), b.smaller(n_columns - i, t.columns)
                    self._call_stacks(r, b.const(i64, 0), r["n_tiles"], rows, a_tile, sliver, column + i, n, k_index)
                self._made_at_last(r, k_index, 0, r["m"], column, n_columns)
        with self.module.function(self.symbol("packed"), void, internal=False, **CHUNK_ARGS) as b:
            r = Record(b, b.arg("record"))
            b.call(self.own("pack_rows"), r.address, 0, r["n_tiles"], 0, r["k"], r["scratch"])
            self._share(b, "packed_chunk", r["n_chunks"])

    def _share(self, b: IRFunction, part: str, n_chunks: Value) -> None:
        """Run a function of (record, chunk) for every chunk, on the threads there are."""
        run_shared(b, self.symbol(part), b.arg("record"), n_chunks)

    def _call_stacks(self, r: Record, *args: Value) -> None:
        r.b.call(self.own("stacks"), r.address, *args)

    def write_sweep(self, n_rows: int) -> None:
        """A share of the columns."""
        t, name = self.t, self.symbol(f"sweep_{n_rows}_columns")
        write_sweep(self.module, name, t, n_rows)
        with self.module.function(self.symbol(f"sweep_{n_rows}"), void, internal=False, **CHUNK_ARGS) as b:
            r = Record(b, b.arg("record"))
            first = b.arg("chunk") * r["chunk_columns"]
            n_columns, offset = b.smaller(r["chunk_columns"], r["n"] - first), first * t.size
            a, a_row, a_step, b_step, c_row = (r[name] for name in ("a", "a_row", "a_step", "b_step", "c_row"))
            columns, c = b.byte_offset(r["b"], offset), b.byte_offset(r["c"], offset)
            bias = offset_or_null(b, r["bias"], offset)
            sweep = self.module.defined[name]
            b.call(sweep, a, a_row, a_step, columns, b_step, c, c_row, r["k"], n_columns, bias)
            self._made(r, 0, r["m"], first, n_columns)

    def write_dots(self, n_rows: int) -> None:
        """A share of the columns, the rows in strips of at most three, as equal as they can be."""
        t, name = self.t, self.symbol(f"dots_{n_rows}")
        n_strips = -(-n_rows // max(DOT_COLUMNS))
        starts = [i * n_rows // n_strips for i in range(n_strips + 1)]
        strips = list(itertools.pairwise(starts))
        heights = {end - start: f"{name}_by_{end - start}" for start, end in strips}
        for height, function in heights.items():
            write_dots(self.module, function, t, height)
        with self.module.function(name, void, internal=False, **CHUNK_ARGS) as b:
            r = Record(b, b.arg("record"))
            first = b.arg("chunk") * r["chunk_columns"]
            n_columns = b.smaller(r["chunk_columns"], r["n"] - first)
            columns = b.byte_offset(r["b"], first * r["b_column"])
            bias = offset_or_null(b, r["bias"], first * t.size)
            for start, end in strips:
                a = b.byte_offset(r["a"], r["a_row"] * start)
                c = b.byte_offset(r["c"], r["c_row"] * start + first * t.size)
                dots = self.module.defined[heights[end - start]]
                b.call(dots, a, r["a_row"], columns, r["b_column"], c, r["c_row"], r["k"], n_columns, bias)
            self._made(r, 0, r["m"], first, n_columns)

    def write_blocks(self) -> None:
        """All of the product; its chunk is 0. Packing a block of B, then blocks of rows: each is shared by threads."""
        t = self.t
        self._write_pack_chunk()
        self._write_rows_chunk()
        with self.module.function(self.symbol("blocks"), void, internal=False, **CHUNK_ARGS) as b:
            r = Record(b, b.arg("record"))
            with b.loop(0, r["n"], r["columns_block"]) as column:
                r["column"] = column
                n_columns = b.smaller(r["columns_block"], r["n"] - column)
                with b.loop(0, r["n_k_blocks"]) as k_index:
                    r["k_index"] = k_index
                    n_parts = (n_columns + (t.columns * PACK_CHUNK - 1)) // (t.columns * PACK_CHUNK)
                    with b.if_(r["given"] == 0):
                        self._share(b, "pack_chunk", n_parts)
                    self._share(b, "rows_chunk", r["n_row_blocks"])

    def _write_pack_chunk(self) -> None:
        t = self.t
        with self.module.function(self.symbol("pack_chunk"), void, internal=True, **CHUNK_ARGS) as b:
            r = Record(b, b.arg("record"))
            k_start, k = r.k_range(r["k_index"])
            first = b.arg("chunk") * (t.columns * PACK_CHUNK)
            n_columns = b.smaller(r["columns_block"], r["n"] - r["column"])
            n = b.smaller(n_columns - first, t.columns * PACK_CHUNK)
            out = b.byte_offset(r["scratch"], first * k * t.size)
            columns = r.columns_at(r["column"] + first, k_start)
            b.call(self.own("pack_slivers"), columns, r["b_column"], r["b_step"], n, k, out)

    def _write_rows_chunk(self) -> None:
        t = self.t
        with self.module.function(self.symbol("rows_chunk"), void, internal=True, **CHUNK_ARGS) as b:
            r = Record(b, b.arg("record"))
            k_index, start = r["k_index"], r["column"]
            k_start, k = r.k_range(k_index)
            first = b.arg("chunk") * r["block_tiles"]
            last = b.smaller(first + r["block_tiles"], r["n_tiles"])
            rows = b.byte_offset(r["scratch"], r["b_scratch"] + b.arg("chunk") * r["a_scratch"])
            b.call(self.own("pack_rows"), r.address, first, last, k_start, k, rows)
            n_columns = b.smaller(r["columns_block"], r["n"] - start)
            with b.loop(0, n_columns, t.columns) as column:
                n = b.smaller(n_columns - column, t.columns)
                own = b.byte_offset(r["scratch"], column * k * t.size)
                sliver = b.select(r["given"] == 0, own, r.packed_at(t, start + column, k_start, k))
                self._call_stacks(r, first, last, rows, k * t.tile_step, sliver, start + column, n, k_index)
            row = r.tile_start(first)
            self._made_at_last(r, k_index, row, r.tile_start(last) - row, start, n_columns)

    def write_product(self, threads: bool) -> None:
        """`void product(record)`: in chunks, if the plan has several and its variant does not share them out itself."""
        with self.module.function(self.symbol(product_name(threads)), void, internal=False, record=ptr) as b:
            r = Record(b, b.arg("record"))
            variant = b.select(r["b_column"] == self.t.size, r["by_rows"], r["by_columns"])
            if threads:
                with b.if_((r["n_chunks"] > 1) & (r["packed"] == 0)):
                    run_shared(b, variant, r.address, r["n_chunks"])
                    b.ret()
            b.call_address(variant, void, r.address, b.const(i64, 0))


def product_name(threads: bool) -> str:
    return "shared_product" if threads else "product"
