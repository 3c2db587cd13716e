"""Loops over rows: masks at the end, folds of any kind, sums that lose little, work cut into parts."""

from __future__ import annotations

import math

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

from extempo.backends.llvm.ir.types import f32, f64, i8, i64, ptr, void
from extempo.backends.llvm.ir.values import Pointer
from extempo.backends.llvm.routines.sweeps import (
    MOST_PARTS,
    SumSweep,
    SweepFold,
    SweepRow,
    fold_row,
    larger,
    parts_of,
    smaller,
    sum_row,
    write_row_of_sums,
)

from ..guarded import Guarded
from ..written import address, compiled, inner
from .oracle import draw

SIZES = [0, 1, 7, 8, 9, 33]
ELEMENTS = {np.float32: f32, np.float64: f64}


@pytest.mark.parametrize("element", [f32, f64, i8])
@pytest.mark.parametrize("lanes", [4, 8])
def test_each_vector_of_a_row_is_visited_and_nothing_beyond_it(element, lanes):
    def write(b):
        row = SweepRow(b, element, b.arg("n"), lanes)
        x, y = Pointer(b.arg("x"), element), Pointer(b.arg("y"), element)
        row.each(lambda i, mask: row.store(row.load(x, i, mask), y, i, mask))

    copy, dtype = compiled(write, void, x=ptr, y=ptr, n=i64), {f32: "f", f64: "d", i8: "b"}[element]
    for n in SIZES:
        x, y = np.arange(n).astype(dtype), Guarded((n,), dtype)
        copy(address(x), address(y.array), n)
        y.check()
        np.testing.assert_array_equal(y.array, x)


@pytest.mark.parametrize("dtype", ELEMENTS)
@pytest.mark.parametrize("name", ["larger", "smaller"])
def test_extremes_are_found_and_nan_wins(name, dtype):
    element, worst = ELEMENTS[dtype], -math.inf if name == "larger" else math.inf
    reference = np.max if name == "larger" else np.min

    def write(b):
        row, x = SweepRow(b, element, b.arg("n")), Pointer(b.arg("x"), element)
        best = SweepFold(b, row.type, worst, (larger if name == "larger" else smaller)(b))
        fold_row([best], row, lambda i, mask: [row.load(x, i, mask, worst)])
        b.ret(best.scalar())

    run = compiled(write, element, x=ptr, n=i64)
    assert run(None, 0) == worst
    for n in SIZES[1:]:
        x = draw(n, dtype)
        assert run(address(x), n) == reference(x)
        x[n // 2] = np.nan
        assert math.isnan(run(address(x), n))


@pytest.mark.parametrize("dtype", ELEMENTS)
def test_two_sums_of_one_pass_are_as_good_as_pairwise_ones(dtype):
    element = ELEMENTS[dtype]

    def write(b):
        row, x = SweepRow(b, element, b.arg("n")), Pointer(b.arg("x"), element)
        sums = [SumSweep(b, row.type, 2), SumSweep(b, row.type, 2)]

        def terms(i, mask):
            v = row.load(x, i, mask)
            return [v, v * v]

        fold_row(sums, row, terms)
        out = Pointer(b.arg("out"), element)
        out[0], out[1] = sums[0].scalar(), sums[1].scalar()

    run, out = compiled(write, void, x=ptr, n=i64, out=ptr), np.empty(2, dtype)
    for n in (*SIZES, 100_003):
        x = np.abs(draw(n, dtype)) + 1
        run(address(x), n, address(out))
        wide = x.astype(np.longdouble)
        np.testing.assert_allclose(out, [wide.sum(), (x * x).astype(np.longdouble).sum()], rtol=8 * np.finfo(dtype).eps)


def test_an_infinite_sum_is_not_spoilt_by_what_was_lost_on_the_way():
    def write(b):
        row, x = SweepRow(b, f32, b.arg("n")), Pointer(b.arg("x"), f32)
        b.ret(sum_row(row, lambda i, mask: row.load(x, i, mask)))

    x = np.ones(5000, np.float32)
    x[3000] = np.inf
    assert compiled(write, f32, x=ptr, n=i64)(address(x), len(x)) == math.inf


@pytest.mark.parametrize("n_columns", SIZES)
def test_rows_are_added_up_into_one(n_columns):
    args = {"x": ptr, "y": ptr, "n_rows": i64, "n": i64}
    run = inner(lambda m: write_row_of_sums(m, "sums", f64), "sums", void, **args)
    for n_rows in (1, 2, 5):
        x, y = draw((n_rows, n_columns), np.float64), Guarded((n_columns,), np.float64)
        run(address(x), address(y.array), n_rows, n_columns)
        y.check()
        np.testing.assert_allclose(y.array, x.sum(0), rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("n_units", [0, 1, 7, 100, 10_000])
@pytest.mark.parametrize("unit_work", [0, 1, 1000, 1 << 20])
def test_parts_have_all_units_and_none_is_empty(n_units, unit_work):
    n_parts, per_part = parts_of(n_units, unit_work, 1 << 16)
    assert 1 <= n_parts <= MOST_PARTS
    assert n_parts * per_part >= n_units
    assert (n_parts - 1) * per_part < max(n_units, 1)


def test_small_work_is_one_part_and_large_work_is_shared():
    assert parts_of(1000, 10, 1 << 16)[0] == 1
    assert parts_of(1000, 1 << 16, 1 << 16) == (1000, 1)
