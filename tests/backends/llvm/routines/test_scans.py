"""Running sums, products, recurrences, log-sums and places of extremes: native scans against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

import extempo as ex
from extempo.backends.llvm.routines import scans
from extempo.core.op import REGISTRY

from ..guarded import call
from .oracle import FLOATS, LAYOUTS, NEAR, draw, expect, layouts, numbers

# Rows beside these: eight and more together, and columns in more than one strip.
SHAPES = [*LAYOUTS, *[((k, n), 1) for k in (8, 9, 17) for n in (1, 7, 8, 9, 40)], ((3, scans.STRIP + 9), 0)]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", [*FLOATS, np.int64, np.int32, np.bool_])
@pytest.mark.parametrize("op", ["cumsum", "cumprod"])
def test_running_totals_have_numpys_bits(op, dtype, reverse):
    for shape, dim in SHAPES:
        x = draw(shape, dtype) if dtype in FLOATS else numbers(-3, 4, shape).astype(dtype)
        expect(op, x, dim=dim, reverse=reverse)


@pytest.mark.parametrize("op", ["cummax", "cummin"])
@pytest.mark.parametrize("dtype", [*FLOATS, np.int64, np.int32, np.bool_])
def test_the_last_of_equal_extremes_is_found(op, dtype):
    for shape, dim in SHAPES:
        x = numbers(-2, 3, shape).astype(dtype)
        if dtype in FLOATS:
            x.flat[x.size // 2] = np.nan
            x.flat[0] = -np.inf if op == "cummax" else np.inf
        expect(op, x, dim=dim)


@pytest.mark.parametrize("dtype", FLOATS)
def test_log_sums_are_those_of_numpy_up_to_rounding(dtype):
    for shape, dim in SHAPES:
        x = draw(shape, dtype, scale=4) + 100
        x.flat[0] = -np.inf
        (found,) = call("logcumsumexp", x, dim=dim)
        np.testing.assert_allclose(found, REGISTRY["logcumsumexp"].numpy(x, dim=dim), rtol=NEAR[dtype])


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", FLOATS)
def test_recurrences_are_those_of_a_loop(dtype, reverse):
    for shape, dim in SHAPES:
        a, b = draw(shape, dtype, scale=0.5), draw(shape, dtype, seed=1)
        np.moveaxis(a, dim, 0)[-1 if reverse else 0] = np.inf  # the first factor counts for nothing
        expected, before = np.empty_like(b), 0.0
        steps = range(shape[dim])
        for place in reversed(steps) if reverse else steps:
            index = (*(slice(None),) * dim, place)
            is_first = place == (shape[dim] - 1 if reverse else 0)
            before = expected[index] = b[index] if is_first else a[index] * before + b[index]
        (found,) = call("recurrence", a, b, dim=dim, reverse=reverse)
        np.testing.assert_array_equal(found, expected)


def test_any_layout_has_the_bits_of_a_contiguous_one():
    for x in layouts((9, 10, 11), np.float32):
        for dim in range(3):
            expected = np.add.accumulate(np.ascontiguousarray(x), axis=dim)
            np.testing.assert_array_equal(ex.cumsum(ex.from_numpy(x), dim).numpy(), expected)


@pytest.mark.parametrize("op", ["cumsum", "cumprod", "logcumsumexp"])
def test_compiled_and_threaded_scans_have_the_bits_of_eager_ones(op):
    x = ex.from_numpy(draw((300, 700), scale=0.1)).requires_grad_()
    scan = getattr(ex, op)
    compiled = ex.compile(lambda x, dim: (scan(x * 2.0, dim) + 1.0).sum())
    n_threads = ex.get_num_threads()
    try:
        for dim in (0, 1):
            found = []
            for n in (1, 2):
                ex.set_num_threads(n)
                loss = (scan(x * 2.0, dim) + 1.0).sum()
                found.append((loss.item(), *ex.autograd.grad(loss, x)[0].flatten()[:50].tolist()))
                for _ in range(3):
                    loss = compiled(x, dim)
                    found.append((loss.item(), *ex.autograd.grad(loss, x)[0].flatten()[:50].tolist()))
            assert len(set(found)) == 1
    finally:
        ex.set_num_threads(n_threads)
