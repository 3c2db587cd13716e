"""How a product is to be computed: every row, column and step of the sum exactly once."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

from extempo.backends.llvm.ir.builder import f32, f64
from extempo.backends.llvm.routines.gemm import gemm_of
from extempo.backends.llvm.routines.gemm_plan import plan
from extempo.backends.llvm.routines.gemm_tiles import MAX_ROWS, Tiling

# ---- plans


def test_a_plan_covers_every_row_column_and_k_exactly():
    rng = np.random.default_rng(11)
    for t in (Tiling(f32, 8), Tiling(f64, 4), Tiling(f32, 16)):
        for _ in range(500):
            m, n, k = (int(2 ** rng.uniform(0, 13)) for _ in range(3))
            p = plan(m, n, k, t)
            assert p.n_tiles * p.tile_rows + p.n_taller == m
            assert p.tile_rows + (p.n_taller > 0) <= (t.packed_rows if p.packed else MAX_ROWS)
            assert (p.n_k_blocks - 1) * p.k_block < k <= p.n_k_blocks * p.k_block
            assert (p.n_row_blocks - 1) * p.block_tiles < p.n_tiles <= p.n_row_blocks * p.block_tiles
            assert (p.n_chunks - 1) * p.chunk_columns < n <= p.n_chunks * p.chunk_columns
            assert p.chunk_columns % t.columns == 0
            assert p.dots or not p.sweeps
            assert not (p.dots and p.packed)


def test_small_products_are_one_chunk():
    for m, n, k in ((32, 64, 64), (1, 750, 300), (256, 64, 64)):
        assert plan(m, n, k, gemm_of(f32).t).n_chunks == 1
