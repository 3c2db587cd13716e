"""What convolutions are made of: products over scattered rows, transposed blocks, tables, copies with a border."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

from extempo.backends.llvm.ir.types import f32, f64, i32, i64, ptr, void
from extempo.backends.llvm.ir.values import Pointer
from extempo.backends.llvm.routines.conv_tiles import (
    COPY,
    PHASE,
    TABLES,
    Shape,
    TileNumbers,
    products,
    transposed,
    write_copy,
    write_tables,
)
from extempo.backends.llvm.routines.layout import fill_zeros

from ..guarded import Guarded
from ..written import address, compiled, inner
from .oracle import draw

SHAPES = [Shape(element, form) for element in (f32, f64) for form in ("wide", "narrow", "grouped")]
DTYPE = {f32: np.float32, f64: np.float64}


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: s.name)
@pytest.mark.parametrize("n_steps", [0, 1, 9])
@pytest.mark.parametrize("n_missing", [0, 3])
def test_a_tile_sums_over_scattered_elements(shape, n_steps, n_missing):
    def write(b):
        source, panel, out = (Pointer(b.arg(n), shape.element) for n in ("source", "panel", "out"))
        rows, steps = (Pointer(b.arg(n), i32) for n in ("rows", "steps"))
        for r, row in enumerate(products(b, shape, source, rows, b.arg("n_rows"), steps, b.arg("n"), panel)):
            for v, total in enumerate(row):
                out.set_vector(r * shape.columns + v * shape.lanes, total)

    rng, dtype = np.random.default_rng(0), DTYPE[shape.element]
    source = rng.normal(size=500).astype(dtype)
    rows, steps = (rng.integers(0, 200, n).astype(np.int32) for n in (shape.rows, max(n_steps, 1)))
    panel, out = rng.normal(size=(n_steps, shape.columns)).astype(dtype), np.empty((shape.rows, shape.columns), dtype)
    n_rows = shape.rows - n_missing
    rows[n_rows:] = 2**30  # what a table has behind the last row leads anywhere
    args = {"source": ptr, "rows": ptr, "steps": ptr, "panel": ptr, "out": ptr, "n": i64, "n_rows": i64}
    compiled(write, void, **args)(*map(address, (source, rows, steps, panel, out)), n_steps, n_rows)
    rows[n_rows:] = rows[n_rows - 1]
    places = rows[:, None] + steps[None, :n_steps]
    if shape.by_group:  # neighbouring elements belong to neighbouring columns
        left = source[places[..., None] + np.arange(shape.columns)]
        expected = np.einsum("rkc,kc->rc", left.astype("d"), panel)
    else:
        expected = source[places].astype("d") @ panel
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("n", [4, 8])
def test_a_square_block_is_transposed(n):
    element = f64 if n == 4 else f32

    def write(b):
        x, y = Pointer(b.arg("x"), element), Pointer(b.arg("y"), element)
        for i, row in enumerate(transposed(b, [x.vector(n * i, n) for i in range(n)])):
            y.set_vector(n * i, row)

    x = np.arange(n * n, dtype=DTYPE[element]).reshape(n, n)
    y = np.empty_like(x)
    compiled(write, void, x=ptr, y=ptr)(address(x), address(y))
    np.testing.assert_array_equal(y, x.T)


def test_a_table_is_the_sum_of_its_axes_entries_the_first_one_fastest():
    run = inner(write_tables, "tables", void, entries=ptr, phase=ptr, targets=ptr)
    axes = [np.array(a, np.int32) for a in ([4, 1, 2], [30, 10], [5], [200, 100])]
    entries, phase = np.concatenate(axes), np.zeros(len(PHASE), np.int64)
    starts = np.cumsum([0, *map(len, axes)])
    for table in TABLES:
        for axis in range(4):
            phase[PHASE.index(f"{table}_at{axis}")] = starts[axis]
            phase[PHASE.index(f"{table}_n{axis}")] = len(axes[axis])
    made = [Guarded((12,), np.int32) for _ in TABLES]
    targets = np.array([address(m.array) for m in made], np.int64)
    run(*map(address, (entries, phase, targets)))
    expected = [a + b + c + d for d in axes[3] for c in axes[2] for b in axes[1] for a in axes[0]]
    for m in made:
        m.check()
        assert m.array.tolist() == expected


@pytest.mark.parametrize("n_columns", [1, 7, 8, 9, 33])
def test_planes_are_copied_into_their_border(n_columns):
    shape = Shape(f32, "wide")
    args = {"source": ptr, "target": ptr, "n_planes": i64, "n_lanes": i64, "band": i64, "numbers": ptr}
    run = inner(lambda m: write_copy(m, shape, COPY), "copy", void, **args)
    n_planes, n_rows = 2, 3
    source = draw((n_planes, n_rows, n_columns))
    target = Guarded((n_planes, n_rows + 2, n_columns + 2), np.float32)
    target.array[...] = 0
    numbers = {
        "copy_start": 1, "copied_depths": 1, "copied_rows": n_rows, "copied_columns": n_columns,
        "source_row": n_columns, "copy_row": n_columns + 2, "source_plane": n_rows * n_columns,
        "copy_plane": (n_rows + 2) * (n_columns + 2), "band_axis": 1, "band_first": -1, "band_extent": n_rows + 2,
        "band_size": n_rows, "band_pitch": n_columns, "band_copy_pitch": n_columns + 2,
    }  # fmt: skip
    words = np.array([numbers.get(name, 0) for name in COPY], np.int64)
    run(address(source), address(target.array), n_planes, 1, 0, address(words))
    target.check()
    np.testing.assert_array_equal(target.array, np.pad(source, ((0, 0), (1, 1), (1, 1))))


def test_named_numbers_are_read_and_written_in_their_order():
    def write(b):
        numbers = TileNumbers(b, b.arg("numbers"), ("first", "second", "third"))
        numbers["third"] = numbers["first"] + numbers["second"]
        fill_zeros(b, numbers.address, b.const(i64, 8))

    words = np.array([3, 4, 0], np.int64)
    compiled(write, void, numbers=ptr)(address(words))
    assert words.tolist() == [0, 4, 7]
