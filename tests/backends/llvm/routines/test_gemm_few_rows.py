"""Products of a few rows: sweeps and dot products."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")


from extempo.backends.llvm.ir.types import f32, f64, ptr, void
from extempo.backends.llvm.routines.gemm import gemm_of
from extempo.backends.llvm.routines.gemm_few_rows import DOT_ARGS, SWEEP_ARGS, fold_each, write_dots, write_sweep

from ..guarded import Guarded, call
from ..written import address, compiled, inner
from .matrices import check, draw


def test_a_row_alone_has_the_bits_it_has_among_others():
    rng = np.random.default_rng(9)
    a, b = draw(rng, (50, 300)), draw(rng, (300, 270))
    (whole,) = call("matmul", a, b)
    for first, last in ((0, 1), (7, 9), (11, 14), (20, 24), (30, 37)):
        (part,) = call("matmul", np.ascontiguousarray(a[first:last]), b)
        np.testing.assert_array_equal(part, whole[first:last])


@pytest.mark.parametrize("n_rows", [1, 2, 3])
@pytest.mark.parametrize("n", [1, 7, 8, 9, 33])
@pytest.mark.parametrize("with_bias", [False, True])
def test_a_sweep_multiplies_a_few_rows_with_rows_of_b(n_rows, n, with_bias):
    t = gemm_of(f32).t
    sweep = inner(lambda m: write_sweep(m, "sweep", t, n_rows), "sweep", void, **SWEEP_ARGS)
    rng = np.random.default_rng(n)
    for k in (1, 4, 9):
        a, b, bias = draw(rng, (n_rows, k)), draw(rng, (k, n)), draw(rng, (n,))
        c = Guarded((n_rows, n), np.float32)
        sweep(
            address(a), *a.strides, address(b), b.strides[0], address(c.array), c.array.strides[0], k, n,
            address(bias) if with_bias else None,
        )  # fmt: skip
        c.check()
        check(c.array, a.astype("d") @ b.astype("d") + (bias if with_bias else 0), k)


@pytest.mark.parametrize("n_rows", [1, 2, 3])
@pytest.mark.parametrize("k", [1, 7, 8, 9, 33])
def test_dot_products_sum_along_k_and_write_only_columns_that_are_there(n_rows, k):
    t = gemm_of(f64).t
    dots = inner(lambda m: write_dots(m, "dots", t, n_rows), "dots", void, **DOT_ARGS)
    rng = np.random.default_rng(k)
    for n in (1, 3, 4, 8, 9):
        a, b, bias = draw(rng, (n_rows, k), "d"), draw(rng, (n, k), "d"), draw(rng, (n,), "d")
        c = Guarded((n_rows, n), np.float64)
        operands = address(a), a.strides[0], address(b), b.strides[0], address(c.array), c.array.strides[0]
        dots(*operands, k, n, address(bias))
        c.check()
        check(c.array, a @ b.T + bias, k)


@pytest.mark.parametrize("n_vectors", [2, 4, 8, 16])
def test_each_vector_is_folded_into_a_lane_of_its_own(n_vectors):
    def write(b):
        source = b.pointer(b.arg("source"), f32)
        sums = fold_each(b, [source.vector(8 * i, 8) for i in range(n_vectors)])
        b.pointer(b.arg("out"), f32).set_vector(0, sums)

    x, y = np.arange(8 * n_vectors, dtype=np.float32), np.empty(n_vectors, np.float32)
    compiled(write, void, source=ptr, out=ptr)(address(x), address(y))
    np.testing.assert_array_equal(y, x.reshape(n_vectors, 8).sum(1))
