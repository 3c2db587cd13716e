"""The record of a product: fields by name, and where tiles, columns and blocks of k begin."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

from extempo.backends.llvm.ir.types import f32, i64, ptr, void
from extempo.backends.llvm.routines.gemm import gemm_of
from extempo.backends.llvm.routines.gemm_plan import GemmPlan, plan
from extempo.backends.llvm.routines.gemm_record import FIELDS, Record

from ..written import address, compiled


def record_of(**fields):
    return np.array([fields.get(name, 0) for name in FIELDS], np.int64)


def test_a_field_is_read_and_written_where_the_plan_puts_it():
    def write(b):
        r = Record(b, b.arg("record"))
        r["c_row"] = r["m"] * 1000 + r["k_block"]
        r["scratch"] = r["a"]

    p = plan(50, 60, 700, gemm_of(f32).t)
    record = record_of(**p._asdict(), a=4096)
    compiled(write, void, record=ptr)(address(record))
    assert record[FIELDS.index("c_row")] == 50_000 + p.k_block
    assert record[FIELDS.index("scratch")] == 4096
    assert FIELDS[FIELDS.index("m") :][: len(GemmPlan._fields)] == GemmPlan._fields


@pytest.mark.parametrize("m", [1, 5, 6, 7, 13, 64])
def test_tiles_cover_all_rows_one_after_the_other(m):
    p = plan(m, 300, 30, gemm_of(f32).t)
    record = record_of(**p._asdict())

    def write(b):
        r = Record(b, b.arg("record"))
        b.ret(r.tile_start(b.arg("tile")) * 1000 + r.tile_height(b.arg("tile")))

    run = compiled(write, i64, record=ptr, tile=i64)
    tiles = [divmod(run(address(record), tile), 1000) for tile in range(p.n_tiles)]
    assert [row for start, height in tiles for row in range(start, start + height)] == list(range(m))


@pytest.mark.parametrize("k", [1, 319, 320, 321, 1000])
def test_blocks_of_k_cover_the_whole_sum(k):
    p = plan(6, 64, k, gemm_of(f32).t)
    record = record_of(**p._asdict())

    def write(b):
        start, length = Record(b, b.arg("record")).k_range(b.arg("index"))
        b.ret(start * 100_000 + length)

    run = compiled(write, i64, record=ptr, index=i64)
    blocks = [divmod(run(address(record), i), 100_000) for i in range(p.n_k_blocks)]
    assert [n for start, length in blocks for n in range(start, start + length)] == list(range(k))


def test_columns_of_b_are_found_by_their_strides():
    def write(b):
        r = Record(b, b.arg("record"))
        b.ret(b.cast("ptrtoint", r.columns_at(b.arg("column"), b.arg("k")), i64))

    record = record_of(b=1000, b_column=4, b_step=256)
    assert compiled(write, i64, record=ptr, column=i64, k=i64)(address(record), 3, 2) == 1000 + 12 + 512
