"""The record of a matrix product: an array of int64 on the caller's stack that every function of a product works on.

It has the operands (OPERANDS), the plan (`gemm_plan.Plan`) and the addresses of the functions that the plan needs
(FUNCTIONS).
"""

from __future__ import annotations

from ..ir.builder import IRFunction, Value, i64, ptr
from .gemm_plan import GemmPlan
from .gemm_tiles import Tiling

# Strides are in bytes.
OPERANDS = ("a", "b", "c", "bias", "scratch", "a_row", "a_step", "b_step", "b_column", "c_row")
# How to compute for each layout of B; panels, or stacks if A and B are packed, for both heights of tiles.
FUNCTIONS = ("by_rows", "by_columns", "panel", "taller_panel")
STATE = ("k_index", "column")  # of `blocks`: what its chunks are working on
# `void epilogue(context, row, n_rows, column, n_columns)` is called, if there is one, for every part of the result as
# soon as it is there, by whoever has made it. Rows are counted from `first_row` on.
EPILOGUE = ("epilogue", "epilogue_context", "first_row")
FIELDS = (*OPERANDS, *GemmPlan._fields, *FUNCTIONS, *STATE, *EPILOGUE)
_POINTERS = ("a", "b", "c", "bias", "scratch", *FUNCTIONS, "epilogue", "epilogue_context")


class Record:
    """The fields of a record, while code is written."""

    def __init__(self, b: IRFunction, address: Value) -> None:
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
        return tile * self["tile_rows"] + self.b.smaller(tile, self["n_taller"])

    def is_taller(self, tile: Value) -> Value:
        return tile < self["n_taller"]

    def tile_height(self, tile: Value) -> Value:
        return self["tile_rows"] + self.b.cast("zext", self.is_taller(tile), i64)

    def columns_at(self, column: Value, k_start: Value) -> Value:
        """Where a column of B begins, from a k on."""
        return self.b.byte_offset(self["b"], column * self["b_column"] + k_start * self["b_step"])

    def packed_at(self, t: Tiling, column: Value, k_start: Value, k: Value) -> Value:
        """Where a sliver of a B that comes packed begins: blocks of k one after the other, all slivers in each."""
        n = (self["n"] + (t.columns - 1)) // t.columns * t.columns
        return self.b.byte_offset(self["b"], (k_start * n + column * k) * t.size)

    def k_range(self, k_index: Value) -> tuple[Value, Value]:
        """Where a block of k begins and how long it is."""
        start = k_index * self["k_block"]
        return start, self.b.smaller(self["k"] - start, self["k_block"])
