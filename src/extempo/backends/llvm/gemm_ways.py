"""The ways to compute a matrix product, as code that works on a record.

A *record* is an array of int64 on the caller's stack: the operands (OPERANDS), the plan (`gemm_plan.Plan`) and the
addresses of the functions that the plan needs (FUNCTIONS). Each way is a function of (record, chunk), and threads may
share the chunks, which only read the record:

    dots       few rows, B by columns (x @ weight.T for a few x): lanes run along k
    sweep      one to three rows, B by rows: all of B goes past the result once
    columns    slivers of B, read where they lie or packed a few at a time, each for all rows
    blocks     many rows: B is packed for a block of k, then each block of rows packs its part of A and takes all of it

Blocks of k are added up in order, so how the work is shared never changes a result.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from .builder import Callee, Function, Module, Type, Value, i64, ptr, vector, void
from .gemm_plan import Plan
from .gemm_tiles import (
    DOT_COLUMNS,
    GROUP,
    MAX_ROWS,
    PANEL_ARGS,
    Tiling,
    first_lanes,
    null,
    offset_or_null,
    smaller,
    write_copy_slivers,
    write_dots,
    write_pack,
    write_partial_tile,
    write_sweep,
)

# Strides are in bytes. a_tile: from one packed tile of A to the next; 0 where A is not packed.
OPERANDS = ("a", "b", "c", "bias", "scratch", "a_row", "a_step", "b_step", "b_column", "c_row", "a_tile")
FUNCTIONS = ("by_rows", "by_columns", "panel", "taller_panel")
STATE = ("k_index", "column")  # of `blocks`: what its chunks are working on
FIELDS = (*OPERANDS, *Plan._fields, *FUNCTIONS, *STATE)
_POINTERS = ("a", "b", "c", "bias", "scratch", *FUNCTIONS)

PACK_CHUNK = 16  # slivers that are packed in one chunk of a block
TOGETHER = 4  # slivers, or tiles of A, that are packed together where each k is a run of memory

CHUNK_ARGS = {"record": ptr, "chunk": i64}
ROW_OF_TILES_ARGS = {
    "panel": ptr, "height": i64, "a": ptr, "a_row": i64, "a_step": i64, "b": ptr, "b_step": i64, "b_sliver": i64,
    "n_columns": i64, "k": i64, "c": ptr, "c_row": i64, "bias": ptr, "accumulate": i64,
}  # fmt: skip
TILES_ARGS = {
    "record": ptr, "first": i64, "last": i64, "a": ptr, "a_tile": i64, "b": ptr, "b_step": i64, "b_sliver": i64,
    "column": i64, "n_columns": i64, "k": i64, "k_index": i64,
}  # fmt: skip
PACK_ROWS_ARGS = {"record": ptr, "first": i64, "last": i64, "k_start": i64, "k": i64, "out": ptr}
PACK_SLIVERS_ARGS = {"source": ptr, "column": i64, "step": i64, "n_columns": i64, "k": i64, "out": ptr}
# What other modules import from the one that has it.
SHARED: dict[str, dict[str, Type]] = {
    "row_of_tiles": ROW_OF_TILES_ARGS, "tiles": TILES_ARGS, "pack_rows": PACK_ROWS_ARGS,
    "pack_slivers": PACK_SLIVERS_ARGS, "columns": CHUNK_ARGS,
}  # fmt: skip


class Record:
    """The fields of a record, while code is written."""

    def __init__(self, b: Function, address: Value) -> None:
        self.b = b
        self.address = address

    def _at(self, name: str) -> Value:
        return self.b.byte_offset(self.address, 8 * FIELDS.index(name))

    def __getitem__(self, name: str) -> Value:
        return self.b.load(ptr if name in _POINTERS else i64, self._at(name))

    def __setitem__(self, name: str, value: Value | int) -> None:
        self.b.store(self.b.as_value(value, ptr if name in _POINTERS else i64), self._at(name))

    def tile_start(self, tile: Value) -> Value:
        """The first row of a tile."""
        return tile * self["tile_rows"] + smaller(self.b, tile, self["n_taller"])

    def is_taller(self, tile: Value) -> Value:
        return tile < self["n_taller"]

    def tile_height(self, tile: Value) -> Value:
        return self["tile_rows"] + self.b.cast("zext", self.is_taller(tile), i64)

    def columns_at(self, column: Value, k_start: Value) -> Value:
        """Where a column of B begins, from a k on."""
        return self.b.byte_offset(self["b"], column * self["b_column"] + k_start * self["b_step"])

    def k_range(self, k_index: Value) -> tuple[Value, Value]:
        """Where a block of k begins and how long it is."""
        start = k_index * self["k_block"]
        return start, smaller(self.b, self["k"] - start, self["k_block"])


def _call_panel(b: Function, panel: Value, *args: Value | int) -> None:
    """Call a panel by its address; the arguments are PANEL_ARGS."""
    values = [b.as_value(x, type_) for x, type_ in zip(args, PANEL_ARGS.values(), strict=True)]
    b.call_address(panel, void, *values)


class Ways:
    """Writes the functions for one tiling into modules. `symbol` gives the name that a function has everywhere."""

    def __init__(self, module: Module, t: Tiling, symbol: Callable[[str], str]) -> None:
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
                    n = smaller(b, (copied.value - column) // t.columns, TOGETHER)
                    source, out = (
                        b.byte_offset(first, column * t.size),
                        b.byte_offset(b.arg("out"), column * k * t.size),
                    )
                    b.call(self.own("copy_slivers"), source, b_step, k, n, out)
            with b.loop(copied.value, n_columns, t.columns) as column, b.loop(0, t.columns, GROUP) as lane:
                n_lanes = smaller(b, n_columns - column - lane, GROUP)
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
            lanes = vector(t.element, GROUP)
            beside, along = b.if_else(a_row == t.size)
            with beside, b.loop(b.arg("first"), b.arg("last"), TOGETHER) as tile:
                n_tiles = smaller(b, b.arg("last") - tile, TOGETHER)
                out = b.byte_offset(b.arg("out"), (tile - b.arg("first")) * k * t.tile_step)
                with b.loop(0, k) as step, b.loop(0, n_tiles) as i:
                    row = r.tile_start(tile + i)
                    source = b.byte_offset(start, step * a_step + row * t.size)
                    to = b.byte_offset(out, (i * k + step) * t.tile_step)
                    # A whole group of lanes reaches into the tile's next step, which is yet to come.
                    inside, at_edge = b.if_else((row + GROUP <= r["m"]) & (step < k - 1))
                    with inside:
                        b.store(b.load(lanes, source), to)
                    with at_edge:
                        there = first_lanes(b, r.tile_height(tile + i), GROUP)
                        b.masked_store(b.masked_load(source, there, b.const(lanes, 0.0)), to, there)
            with along, b.loop(b.arg("first"), b.arg("last")) as tile:
                source = b.byte_offset(start, r.tile_start(tile) * a_row)
                out = b.byte_offset(b.arg("out"), (tile - b.arg("first")) * k * t.tile_step)
                b.call(self.own("pack"), source, a_row, a_step, r.tile_height(tile), k, out, t.tile_step)

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
                _call_panel(b, panel, a, a_row, a_step, slivers, b_step, b_sliver, c, c_row, k, n, bias, accumulate)
            with b.if_(rest > 0):
                last = b.byte_offset(slivers, n * b_sliver)
                _call_panel(b, panel, a, a_row, a_step, last, b_step, 0, local, t.sliver_step, k, 1, null(b), 0)
                done = n * t.sliver_step
                to, last_bias = b.byte_offset(c, done), offset_or_null(b, bias, done)
                b.call(self.own("partial_tile"), local, b.arg("height"), rest, to, c_row, last_bias, accumulate)

    def write_tiles(self) -> None:
        """Tiles first..last of rows, times columns whose slivers begin at b, for one block of k."""
        t = self.t
        with self.module.function(self.symbol("tiles"), void, internal=False, **TILES_ARGS) as b:
            r = Record(b, b.arg("record"))
            a_row, a_step, c_row, a_tile = r["a_row"], r["a_step"], r["c_row"], b.arg("a_tile")
            slivers, b_step, b_sliver, n, k = (b.arg(name) for name in ("b", "b_step", "b_sliver", "n_columns", "k"))
            bias = b.select(b.arg("k_index") == r["n_k_blocks"] - 1, r["bias"], null(b))
            bias = offset_or_null(b, bias, b.arg("column") * t.size)
            accumulate = b.cast("zext", b.arg("k_index") > 0, i64)
            with b.loop(b.arg("first"), b.arg("last")) as tile:
                start, height = r.tile_start(tile), r.tile_height(tile)
                panel = b.select(r.is_taller(tile), r["taller_panel"], r["panel"])
                offset = b.select(a_tile != 0, (tile - b.arg("first")) * a_tile, start * a_row)
                a = b.byte_offset(b.arg("a"), offset)
                c = b.byte_offset(r["c"], start * c_row + b.arg("column") * t.size)
                where = (a, a_row, a_step, slivers, b_step, b_sliver, n, k, c, c_row)
                b.call(self.own("row_of_tiles"), panel, height, *where, bias, accumulate)

    # ---- ways

    def write_columns(self) -> None:
        """A share of the columns, all rows. Whole slivers of a B by rows are read where they lie if A is not packed."""
        t = self.t
        with self.module.function(self.symbol("columns"), void, internal=False, **CHUNK_ARGS) as b:
            r = Record(b, b.arg("record"))
            first = b.arg("chunk") * r["chunk_columns"]
            last = smaller(b, first + r["chunk_columns"], r["n"])
            packed = b.byte_offset(r["scratch"], r["a_scratch"] + b.arg("chunk") * r["b_scratch"])
            in_place = (r["b_column"] == t.size) & (r["packed"] == 0)
            a_tile = r["a_tile"]
            k_bytes = b.select(a_tile != 0, b.const(i64, t.tile_step), r["a_step"])
            with b.loop(0, r["n_k_blocks"]) as k_index, b.loop(first, last, r["group"] * t.columns) as column:
                k_start, k = r.k_range(k_index)
                n_columns = smaller(b, last - column, r["group"] * t.columns)
                n_there = b.select(in_place, n_columns - n_columns % t.columns, 0)
                a = b.byte_offset(r["a"], k_start * k_bytes)

                def multiply(b_at: Value, b_step: Value | int, b_sliver: Value | int, at: Value, n: Value) -> None:
                    tiles = self.own("tiles")
                    b.call(tiles, r.address, 0, r["n_tiles"], a, a_tile, b_at, b_step, b_sliver, at, n, k, k_index)

                with b.if_(n_there > 0):
                    multiply(r.columns_at(column, k_start), r["b_step"], t.sliver_step, column, n_there)
                with b.if_(n_there < n_columns):
                    at, n = column + n_there, n_columns - n_there
                    columns = r.columns_at(at, k_start)
                    b.call(self.own("pack_slivers"), columns, r["b_column"], r["b_step"], n, k, packed)
                    multiply(packed, t.sliver_step, k * t.sliver_step, at, n)

    def write_sweep(self, n_rows: int) -> None:
        """A share of the columns."""
        t, name = self.t, self.symbol(f"sweep_{n_rows}_columns")
        write_sweep(self.module, name, t, n_rows)
        with self.module.function(self.symbol(f"sweep_{n_rows}"), void, internal=False, **CHUNK_ARGS) as b:
            r = Record(b, b.arg("record"))
            first = b.arg("chunk") * r["chunk_columns"]
            n_columns, offset = smaller(b, r["chunk_columns"], r["n"] - first), first * t.size
            a, a_row, a_step, b_step, c_row = (r[name] for name in ("a", "a_row", "a_step", "b_step", "c_row"))
            columns, c = b.byte_offset(r["b"], offset), b.byte_offset(r["c"], offset)
            bias = offset_or_null(b, r["bias"], offset)
            sweep = self.module.defined[name]
            b.call(sweep, a, a_row, a_step, columns, b_step, c, c_row, r["k"], n_columns, bias)

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
            n_columns = smaller(b, r["chunk_columns"], r["n"] - first)
            columns = b.byte_offset(r["b"], first * r["b_column"])
            bias = offset_or_null(b, r["bias"], first * t.size)
            for start, end in strips:
                a = b.byte_offset(r["a"], r["a_row"] * start)
                c = b.byte_offset(r["c"], r["c_row"] * start + first * t.size)
                dots = self.module.defined[heights[end - start]]
                b.call(dots, a, r["a_row"], columns, r["b_column"], c, r["c_row"], r["k"], n_columns, bias)

    def write_blocks(self) -> None:
        """All of the product; its chunk is 0. Packing a block of B, then blocks of rows: each is shared by threads."""
        t = self.t
        self._write_pack_chunk()
        self._write_rows_chunk()
        parallel = self.module.declare("extempo_parallel", void, [ptr, ptr, i64])
        with self.module.function(self.symbol("blocks"), void, internal=False, **CHUNK_ARGS) as b:
            r = Record(b, b.arg("record"))
            with b.loop(0, r["n"], r["columns_block"]) as column:
                r["column"] = column
                n_columns = smaller(b, r["columns_block"], r["n"] - column)
                with b.loop(0, r["n_k_blocks"]) as k_index:
                    r["k_index"] = k_index
                    n_parts = (n_columns + (t.columns * PACK_CHUNK - 1)) // (t.columns * PACK_CHUNK)
                    b.call(parallel, self.module.address_of(b, self.symbol("pack_chunk")), r.address, n_parts)
                    b.call(parallel, self.module.address_of(b, self.symbol("rows_chunk")), r.address, r["n_row_blocks"])

    def _write_pack_chunk(self) -> None:
        t = self.t
        with self.module.function(self.symbol("pack_chunk"), void, internal=True, **CHUNK_ARGS) as b:
            r = Record(b, b.arg("record"))
            k_start, k = r.k_range(r["k_index"])
            first = b.arg("chunk") * (t.columns * PACK_CHUNK)
            n_columns = smaller(b, r["columns_block"], r["n"] - r["column"])
            n = smaller(b, n_columns - first, t.columns * PACK_CHUNK)
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
            last = smaller(b, first + r["block_tiles"], r["n_tiles"])
            rows = b.byte_offset(r["scratch"], r["b_scratch"] + b.arg("chunk") * r["a_scratch"])
            b.call(self.own("pack_rows"), r.address, first, last, k_start, k, rows)
            n_columns = smaller(b, r["columns_block"], r["n"] - start)
            a_tile, tiles = k * t.tile_step, self.own("tiles")
            with b.loop(0, n_columns, t.columns) as column:
                n = smaller(b, n_columns - column, t.columns)
                sliver = b.byte_offset(r["scratch"], column * k * t.size)
                at = start + column
                b.call(tiles, r.address, first, last, rows, a_tile, sliver, t.sliver_step, 0, at, n, k, k_index)

    def write_product(self, threads: bool) -> None:
        """`void product(record)`: pack A if the plan says so, then run all chunks."""
        t = self.t
        with self.module.function(self.symbol(product_name(threads)), void, internal=False, record=ptr) as b:
            r = Record(b, b.arg("record"))
            way = b.select(r["b_column"] == t.size, r["by_rows"], r["by_columns"])
            r["a_tile"] = 0
            with b.if_((r["packed"] != 0) & (r["n_row_blocks"] == 1)):
                b.call(self.own("pack_rows"), r.address, 0, r["n_tiles"], 0, r["k"], r["scratch"])
                r["a"] = r["scratch"]
                r["a_tile"] = r["k"] * t.tile_step
            if threads:
                with b.if_(r["n_chunks"] > 1):
                    b.call(
                        self.module.declare("extempo_parallel", void, [ptr, ptr, i64]), way, r.address, r["n_chunks"]
                    )
                    b.ret()
            b.call_address(way, void, r.address, b.const(i64, 0))


def product_name(threads: bool) -> str:
    return "shared_product" if threads else "product"
