"""Functions of slices: one body, three layouts, any sizes."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

from extempo.backends.llvm.ir.types import f32
from extempo.backends.llvm.routines.slices import bind_slices, layout_of, slice_numbers
from extempo.backends.llvm.routines.sweeps import SumSweep
from extempo.core.types import TensorType, float32

from ..guarded import Guarded, bind, run_address
from .oracle import draw

CASES = [
    *[((3, n), (1,), "rows") for n in (1, 7, 8, 9, 33)],
    *[((n, 9), (0,), "columns") for n in (2, 7, 33)],
    ((2, 5, 70), (1,), "columns"),
    ((3, 4, 9), (0, 2), "channels"),
    ((2, 3, 1, 5), (0, 2, 3), "channels"),
    ((4, 3), (), "rows"),
    ((1, 1), (0, 1), "rows"),
]


def centre(s):
    """Each element less the mean of its slice, and the mean; in a form that uses all that a body may."""
    x, y = s.elements(0), s.elements(1)
    (total,) = s.fold([SumSweep(s.b, s.type)], lambda at: [s.load(x, at)])
    mean = total / s.b.cast("sitofp", s.n_elements(), s.row.element)
    s.put(mean, s.whole(2))
    s.each(lambda at: s.store(s.load(x, at) - mean, y, at))


def first_and_top(s):
    """The first element of each slice, by its number and lane, added to the slice's largest one."""
    x = s.elements(0)
    zero = s.b.const(s.operands.meta.element, 0)
    first = s.lanes(lambda number, lane: s.element(x, zero, lane)[0])
    s.put(first + s.top(x), s.whole(2))
    s.each(lambda at: s.store(s.load(x, at), s.elements(1), at))


def run(name, body, x, dims, part_work=1 << 20):
    bind("softmax", (x,), {"dim": 0})  # there must be somebody who runs parts
    shape = tuple(1 if d in dims else n for d, n in enumerate(x.shape))
    types = TensorType(x.shape, float32), TensorType(shape, float32)
    bound = bind_slices(name, f32, types[0], dims, body, "c", types, part_work)
    results = [Guarded(t.shape, np.float32) for t in types]
    assert run_address(bound.address, [x, *(r.array for r in results)], bound.meta) == 0
    for r in results:
        r.check()
    return [r.array for r in results]


@pytest.mark.parametrize(("shape", "dims", "layout"), CASES)
@pytest.mark.parametrize("part_work", [1, 1 << 20])
def test_a_body_gives_the_same_in_every_layout_and_in_parts(shape, dims, layout, part_work):
    assert layout_of(shape, dims)[0] == layout
    x = draw(shape)
    centred, mean = run("test_centre", centre, x, dims, part_work)
    exact = x.astype(np.float64).mean(dims, keepdims=True) if dims else x
    np.testing.assert_allclose(mean, exact, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(centred, x - exact, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("shape", "dims", "layout"), [c for c in CASES if c[2] != "channels"])
def test_single_elements_of_slices_can_be_asked_for(shape, dims, layout):
    x = draw(shape, seed=1)
    _, found = run("test_first_and_top", first_and_top, x, dims)
    first = np.take(x, [0], dims[0]) if len(dims) == 1 else x if not dims else x[:1, :1]
    top = x.max(dims, keepdims=True) if dims else x
    np.testing.assert_array_equal(found, first + top)


def test_layouts_without_a_name_and_without_elements_are_none():
    assert layout_of((2, 3, 4, 5), (1, 3)) is None
    assert layout_of((2, 0), (1,)) is None
    assert layout_of((6, 1, 5), (1, 2)) == ("rows", (6, 1, 5))


def test_work_is_cut_by_sizes_alone():
    assert slice_numbers("rows", (10, 1, 100), 1 << 20) == (10, 1, 100, 10, 10, 1)
    outer, middle, inner, n_units, per_part, n_parts = slice_numbers("columns", (3, 5, 130), 500)
    assert (outer, middle, inner, n_units) == (3, 5, 130, 9)
    assert n_parts * per_part >= n_units > (n_parts - 1) * per_part
