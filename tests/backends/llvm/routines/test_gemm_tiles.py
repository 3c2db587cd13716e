"""The innermost loops of products: panels and partial tiles."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

from extempo.backends.llvm.ir.builder import f32, f64
from extempo.backends.llvm.ir.types import i8, i64, ptr, void
from extempo.backends.llvm.routines.gemm import Gemm, gemm_of
from extempo.backends.llvm.routines.gemm_tiles import (
    MAX_ROWS,
    PANEL_ARGS,
    PARTIAL_ARGS,
    Tiling,
    first_lanes,
    write_panel,
    write_partial_tile,
)

from ..guarded import Guarded, bind
from ..written import address, compiled, inner
from .matrices import check, draw, run_record


def test_wider_registers_give_the_same_bits():
    bind("matmul", (np.ones((2, 2), "f"), np.ones((2, 2), "f")), {})  # there must be a stand-in for threads
    rng = np.random.default_rng(10)
    for element, dtype, lanes in ((f32, np.float32, 16), (f64, np.float64, 8)):
        wide, usual = Gemm(Tiling(element, lanes)), gemm_of(element)
        for m, k, n in ((1, 30, 70), (5, 20, 90), (9, 33, 50), (30, 40, 270), (210, 30, 150), (131, 700, 260)):
            a, b = draw(rng, (m, k), dtype), draw(rng, (k, n), dtype)
            np.testing.assert_array_equal(run_record(wide, a, b), run_record(usual, a, b))


@pytest.mark.parametrize("n_rows", [1, 2, MAX_ROWS])
@pytest.mark.parametrize("accumulate", [0, 1])
def test_a_panel_multiplies_rows_with_whole_slivers(n_rows, accumulate):
    t = gemm_of(f32).t
    panel = inner(lambda m: write_panel(m, "panel", t, n_rows), "panel", void, **PANEL_ARGS)
    rng = np.random.default_rng(n_rows)
    for k, n_slivers in ((1, 1), (9, 2), (33, 3)):
        n = n_slivers * t.columns
        a, b, bias, before = (draw(rng, shape) for shape in ((n_rows, k), (k, n), (n,), (n_rows, n)))
        c = Guarded((n_rows, n), np.float32)
        c.array[...] = before
        panel(
            address(a), *a.strides, address(b), b.strides[0], t.sliver_step, address(c.array), c.array.strides[0], k,
            n_slivers, address(bias), accumulate,
        )  # fmt: skip
        c.check()
        check(c.array, a.astype("d") @ b.astype("d") + bias + (before if accumulate else 0), k)


@pytest.mark.parametrize("n_columns", [1, 7, 8, 9])
def test_a_partial_tile_writes_the_columns_that_are_there(n_columns):
    t = gemm_of(f32).t
    write = inner(lambda m: write_partial_tile(m, "partial", t), "partial", void, **PARTIAL_ARGS)
    tile = draw(np.random.default_rng(0), (3, t.columns))
    before = draw(np.random.default_rng(1), (3, n_columns))
    c = Guarded((3, n_columns), np.float32)
    c.array[...] = before
    write(address(tile), 3, n_columns, address(c.array), c.array.strides[0], None, 1)
    c.check()
    np.testing.assert_array_equal(c.array, before + tile[:, :n_columns])


@pytest.mark.parametrize("lanes", [4, 8])
def test_a_mask_has_as_many_lanes_as_there_are_and_never_more(lanes):
    def write(b):
        out = b.pointer(b.arg("out"), i8)
        mask = first_lanes(b, b.arg("n"), lanes)
        for i in range(lanes):
            out[i] = b.cast("zext", b.extract(mask, i), i8)

    run, out = compiled(write, void, n=i64, out=ptr), np.empty(lanes, np.int8)
    for n in (-5, 0, 1, lanes - 1, lanes, 1000, 1 << 40):
        run(n, address(out))
        assert out.tolist() == [int(i < n) for i in range(lanes)]


def test_a_tiling_of_wide_registers_packs_taller_tiles():
    usual, wide = Tiling(f32, 8), Tiling(f32, 16)
    assert (usual.columns, usual.sliver_step, usual.packed_rows) == (16, 64, MAX_ROWS)
    assert (wide.is_wide, wide.columns, wide.packed_rows) == (True, 32, 12)
