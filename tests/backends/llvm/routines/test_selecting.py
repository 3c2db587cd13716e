"""The few best elements of rows: the native search against a sort."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

import extempo as ex
from extempo.backends.llvm.routines import selecting

from ..guarded import bind, call
from .oracle import FLOATS, draw, numbers

SHAPES = [((1,), 0), ((3, 40), 1), ((40, 3), 0), ((2, 33, 5), 1), ((7, 1), 0), ((5, 300), 1)]


def best(x, dim, k, largest):
    """Stably, with NaN above all numbers."""
    keys = np.where(np.isnan(x), np.inf, x) if x.dtype.kind == "f" else x.astype(np.int64)
    above = np.isnan(x) if x.dtype.kind == "f" else np.zeros(x.shape, bool)
    order = np.lexsort((-keys, ~above) if largest else (keys, above), axis=dim)
    return np.take(order, range(k), axis=dim)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", [*FLOATS, np.int64, np.int32, np.bool_])
def test_the_first_of_equal_elements_are_taken_best_first(dtype, largest):
    for shape, dim in SHAPES:
        for k in {1, min(2, shape[dim]), min(selecting.MOST, shape[dim])}:
            x = numbers(-3, 4, shape).astype(dtype)
            if dtype in FLOATS and x.size > 20:
                x.flat[[3, 11]] = np.nan
                x.flat[7] = np.inf
            (found,) = call("topk", x, dim=dim, k=k, largest=largest)
            np.testing.assert_array_equal(found, best(x, dim, k, largest))


def test_rows_in_either_order_are_searched():
    x = np.arange(100.0, dtype=np.float32).reshape(1, 100)
    for row in (x, x[:, ::-1].copy()):
        for largest in (True, False):
            (found,) = call("topk", row, dim=1, k=selecting.MOST, largest=largest)
            np.testing.assert_array_equal(found, best(row, 1, selecting.MOST, largest))


def test_many_and_none_are_left_to_numpy():
    x = draw((4, 100))
    for k in (0, selecting.MOST + 1):
        assert bind("topk", (x,), {"dim": 1, "k": k, "largest": True}) is None


def test_compiled_and_threaded_searches_find_what_eager_ones_find():
    x = ex.from_numpy(draw((400, 500)))
    compiled = ex.compile(lambda x: ex.topk(x * 2.0, 5, 1))
    n_threads, expected = ex.get_num_threads(), ex.topk(x * 2.0, 5, 1)
    try:
        for n in (1, 2):
            ex.set_num_threads(n)
            for _ in range(3):
                found = compiled(x)
                assert ex.equal(found.indices, expected.indices)
                assert ex.equal(found.values, expected.values)
    finally:
        ex.set_num_threads(n_threads)
