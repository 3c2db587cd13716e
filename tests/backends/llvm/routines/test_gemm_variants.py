"""Every way of computing a product agrees with NumPy, in any order of chunks."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

from extempo.backends.llvm.ir.builder import f32
from extempo.backends.llvm.ir.types import i64, ptr, void
from extempo.backends.llvm.routines import gemm_plan
from extempo.backends.llvm.routines.gemm import gemm_of
from extempo.backends.llvm.routines.gemm_plan import plan

from ..guarded import Guarded, call
from ..written import address, compiled
from .matrices import LARGER, TRANSPOSED, check, check_matmul, draw


@pytest.mark.parametrize(("turn_a", "turn_b"), TRANSPOSED)
@pytest.mark.parametrize(("m", "k", "n"), LARGER)
def test_larger_products_agree_with_numpy_in_every_way_of_computing(m, k, n, turn_a, turn_b):
    rng = np.random.default_rng(2)
    check_matmul(draw(rng, (m, k), transposed=turn_a), draw(rng, (k, n), transposed=turn_b))


@pytest.mark.parametrize(("turn_a", "turn_b"), TRANSPOSED)
def test_products_cut_into_many_blocks_agree_with_numpy(monkeypatch, turn_a, turn_b):
    monkeypatch.setattr(gemm_plan, "K_BLOCK_BYTES", 128)
    monkeypatch.setattr(gemm_plan, "ROWS_BLOCK", 24)
    monkeypatch.setattr(gemm_plan, "WIDE_ROWS_BLOCK", 24)
    monkeypatch.setattr(gemm_plan, "COLUMNS_BLOCK", 64)
    monkeypatch.setattr(gemm_plan, "PACKED_FROM", ((20, 32),))
    monkeypatch.setattr(gemm_plan, "CHUNK_PRODUCTS", 5000)
    monkeypatch.setattr(gemm_plan, "CHUNK_READS", 500)
    rng = np.random.default_rng(3)
    for m, k, n in ((95, 100, 170), (50, 33, 64), (23, 257, 129), (17, 64, 333), (2, 70, 300), (6, 70, 300)):
        check_matmul(draw(rng, (m, k), transposed=turn_a), draw(rng, (k, n), transposed=turn_b))


# ---- the same bits


def test_a_product_has_the_same_bits_every_time_and_in_any_order_of_chunks(monkeypatch):
    rng = np.random.default_rng(8)
    for m, k, n in ((30, 50, 600), (250, 300, 200), (1, 40, 700), (6, 40, 700)):
        a = draw(rng, (m, k))
        for b in (draw(rng, (k, n)), draw(rng, (k, n), transposed=True)):
            (alone,) = call("matmul", a, b)
            with monkeypatch.context() as patch:
                patch.setattr(gemm_plan, "CHUNK_PRODUCTS", 10_000)
                patch.setattr(gemm_plan, "CHUNK_READS", 2_000)
                shares = plan(m, n, k, gemm_of(f32).t)
                assert shares.n_chunks > 1 or shares.n_row_blocks > 1
                (shared,) = call("matmul", a, b)
            np.testing.assert_array_equal(alone, shared)
            (again,) = call("matmul", a, b)
            np.testing.assert_array_equal(alone, again)


@pytest.mark.parametrize("n", [1, 15, 16, 17, 40])
def test_a_row_of_tiles_writes_all_columns_and_no_others(n):
    gemm = gemm_of(f32)
    t, height, k = gemm.t, 5, 33
    rng = np.random.default_rng(n)
    a, b, bias = draw(rng, (height, k)), draw(rng, (k, n)), draw(rng, (n,))
    slivers, c = np.zeros((-(-n // t.columns), k, t.columns), np.float32), Guarded((height, n), np.float32)

    def write(f):
        pack, rows = gemm.shared(f.module, "pack_slivers"), gemm.shared(f.module, "row_of_tiles")
        f.call(pack, f.arg("source"), 4, f.arg("step"), n, k, f.arg("b"))
        panel = f.cast("inttoptr", f.const(i64, gemm.panel(height)), ptr)
        left = f.arg("a"), *a.strides
        right = f.arg("b"), t.sliver_step, k * t.sliver_step
        f.call(rows, panel, height, *left, *right, n, k, f.arg("c"), n * 4, f.arg("bias"), 0)

    run = compiled(write, void, source=ptr, step=i64, a=ptr, b=ptr, c=ptr, bias=ptr)
    run(address(b), b.strides[0], *map(address, (a, slivers, c.array, bias)))
    c.check()
    check(c.array, a.astype("d") @ b.astype("d") + bias, k)
