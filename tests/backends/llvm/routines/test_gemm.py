"""Native matrix products against NumPy in float64, with guard zones around everything that is written."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

import extempo as ex
from extempo.backends.llvm.ir.builder import IRModule, f32, f64, i64, ptr, void
from extempo.backends.llvm.ir.machine import machine
from extempo.backends.llvm.routines import gemm_plan, products
from extempo.backends.llvm.routines.gemm import Gemm, gemm_of, n_packed, packed
from extempo.backends.llvm.routines.gemm_plan import plan
from extempo.backends.llvm.routines.gemm_record import FIELDS, FUNCTIONS
from extempo.backends.llvm.routines.gemm_tiles import Tiling

from ..guarded import Guarded, _run, bind, call
from .matrices import check, check_matmul, draw

TRANSPOSED = [(False, False), (False, True), (True, False), (True, True)]
# Sizes that reach every way of computing: sweeps, dots, columns in place and packed, blocks with several blocks of k.
LARGER = [(1, 333, 517), (3, 65, 200), (5, 401, 97), (25, 300, 310), (67, 129, 258), (201, 401, 131), (390, 37, 161)]


# ---- matmul


@pytest.mark.parametrize(("turn_a", "turn_b"), TRANSPOSED)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_small_products_agree_with_numpy_however_the_operands_lie(dtype, turn_a, turn_b):
    rng = np.random.default_rng(1)
    sizes = {tuple(rng.integers(1, 41, size=3)) for _ in range(150)}
    sizes |= {(m, n, k) for m in (1, 2, 6, 7) for n in (1, 8, 16, 17) for k in (1, 8, 9)}
    for m, n, k in sorted(sizes):
        check_matmul(draw(rng, (m, k), dtype, turn_a), draw(rng, (k, n), dtype, turn_b))


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


def test_operands_with_gaps_or_reversed_give_the_same_product():
    rng = np.random.default_rng(6)
    a, b = ex.tensor(draw(rng, (40, 60))), ex.tensor(draw(rng, (60, 40)))
    for x, y in ((a[::2, ::3], b[1::3]), (a.flip(0), b[:, ::2]), (a[3:4, 1:], b[1:, 5:6]), (a.T[::2], a[:, 7:20])):
        check((x @ y).numpy(), x.numpy().astype("d") @ y.numpy().astype("d"), x.shape[1])


def test_nan_stays_in_its_row_and_column():
    rng = np.random.default_rng(7)
    for m, k, n in ((3, 9, 21), (6, 17, 35), (9, 9, 21), (30, 40, 300), (250, 9, 260)):
        for turned in (False, True):
            a, b = draw(rng, (m, k)), draw(rng, (k, n), transposed=turned)
            a[m // 2, k // 2] = np.nan
            b[k // 2, n - 1] = np.inf
            (got,) = call("matmul", a, b)
            bad = ~np.isfinite(got)
            expected = np.zeros((m, n), bool)
            expected[m // 2], expected[:, n - 1] = True, True
            np.testing.assert_array_equal(bad, expected)


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


def test_the_number_of_threads_changes_no_bit():
    rng = np.random.default_rng(16)
    a, b = ex.tensor(draw(rng, (400, 500))), ex.tensor(draw(rng, (500, 700)))
    stacks = ex.tensor(draw(rng, (12, 90, 100))), ex.tensor(draw(rng, (12, 100, 80)))
    before = ex.get_num_threads()
    try:
        results = []
        for n_threads in (1, 3):
            ex.set_num_threads(n_threads)
            results.append(
                [(a @ b).numpy(), (a[:2] @ b).numpy(), (a[:5] @ a.T).numpy(), (stacks[0] @ stacks[1]).numpy()]
            )
    finally:
        ex.set_num_threads(before)
    for one, three in zip(*results, strict=True):
        np.testing.assert_array_equal(one, three)


def test_a_row_alone_has_the_bits_it_has_among_others():
    rng = np.random.default_rng(9)
    a, b = draw(rng, (50, 300)), draw(rng, (300, 270))
    (whole,) = call("matmul", a, b)
    for first, last in ((0, 1), (7, 9), (11, 14), (20, 24), (30, 37)):
        (part,) = call("matmul", np.ascontiguousarray(a[first:last]), b)
        np.testing.assert_array_equal(part, whole[first:last])


def run_record(gemm, a, b):
    """The product of two matrices by a Gemm that need not be this CPU's."""
    m, k = a.shape
    n = b.shape[1]
    p = plan(m, n, k, gemm.t, threads=False)
    c, scratch = np.empty((m, n), a.dtype), np.empty(p.scratch + 64, np.uint8)
    fields = dict(p._asdict()) | dict(zip(FUNCTIONS, gemm.functions(p), strict=True))
    fields |= {"a": a.ctypes.data, "b": b.ctypes.data, "c": c.ctypes.data, "scratch": scratch.ctypes.data}
    fields |= {"a_row": a.strides[0], "a_step": a.strides[1], "b_step": b.strides[0], "b_column": b.strides[1]}
    record = np.array([fields.get(name, 0) for name in FIELDS], np.int64)
    record[FIELDS.index("c_row")] = c.strides[0]
    module = IRModule()
    product = gemm.product(module, threads=False)
    with module.function("run", void, record=ptr, unused=i64) as f:
        f.call(product, f.arg("record"))
    library = machine().load(module.text(), ["run"], module.imports)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(library.address["run"])(record.ctypes.data, 0)
    return c


def test_wider_registers_give_the_same_bits():
    bind("matmul", (np.ones((2, 2), "f"), np.ones((2, 2), "f")), {})  # there must be a stand-in for threads
    rng = np.random.default_rng(10)
    for element, dtype, lanes in ((f32, np.float32, 16), (f64, np.float64, 8)):
        wide, usual = Gemm(Tiling(element, lanes)), gemm_of(element)
        for m, k, n in ((1, 30, 70), (5, 20, 90), (9, 33, 50), (30, 40, 270), (210, 30, 150), (131, 700, 260)):
            a, b = draw(rng, (m, k), dtype), draw(rng, (k, n), dtype)
            np.testing.assert_array_equal(run_record(wide, a, b), run_record(usual, a, b))


# ---- a matrix that was packed before


@pytest.mark.parametrize(("m", "k", "n"), [*LARGER, (2, 64, 256), (6, 300, 750), (13, 33, 17), (130, 700, 40)])
@pytest.mark.parametrize("name", ["linear", "matmul"])
def test_products_with_a_packed_matrix_agree_with_numpy(name, m, k, n):
    rng = np.random.default_rng(3)
    x, w = draw(rng, (m, k)), draw(rng, (n, k) if name == "linear" else (k, n))
    columns = w.T if name == "linear" else w
    place = Guarded((n_packed(n, k),), np.float32)
    packed(columns, place.array)
    place.check()
    bound = bind(name, (x, w, None) if name == "linear" else (x, w), {products.PACKED: True})
    result, scratch = Guarded((m, n), np.float32), Guarded((bound.scratch,), np.uint8)
    inputs = [x, place.array, None][: len(bound.reads)]
    buffers = [None if b is None else b.ctypes.data for b in (*inputs, result.array, scratch.array)]
    strides = [s // 4 for s in x.strides] if bound.reads[0] == "m" else []
    assert bound.reads[1] == "c"
    assert _run(bound.address, buffers, [*bound.meta, *strides]) == 0
    for guarded in (place, result, scratch):
        guarded.check()
    check(result.array, x.astype(np.float64) @ columns.astype(np.float64), k)


def test_a_packed_matrix_is_for_products_of_matrices():
    x = draw(np.random.default_rng(4), (3, 5, 6))
    assert bind("matmul", (x, x.swapaxes(1, 2)), {products.PACKED: True}) is None
