"""Functions of rows of different lengths against the NumPy kernels of their ops."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

from extempo.backends.llvm.routines import segments
from extempo.ops import segments as _  # noqa: F401 - loads the ops

from ..guarded import bind, call
from .oracle import FLOATS, check, draw, expect

LENGTHS = [(2, 1, 3), (0, 9, 0), (33,), (7, 8, 9), (1,) * 20, (0, 0)]
INNER = [(), (1,), (7,), (8,), (3, 30)]


def rows(lengths):
    return np.cumsum([0, *lengths]), np.repeat(np.arange(len(lengths)), lengths)


def each(dtype, n_values=1):
    for lengths in LENGTHS:
        for inner in INNER:
            yield *(draw((sum(lengths), *inner), dtype, seed) for seed in range(n_values)), *rows(lengths)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["segment_sum", "segment_softmax", "segment_log_softmax"])
def test_functions_of_rows_agree_with_numpy(name, dtype):
    for x, offsets, row_of in each(dtype):
        check(name, x, offsets, row_of, near=4)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["segment_softmax_backward", "segment_log_softmax_backward"])
def test_gradients_of_softmaxes_agree_with_numpy(name, dtype):
    for g, y, offsets, row_of in each(dtype, 2):
        check(name, g, np.abs(y), offsets, row_of, near=20)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("reverse", [False, True])
def test_running_sums_begin_anew_in_each_row(reverse, dtype):
    for x, offsets, row_of in each(dtype):
        check("segment_cumsum", x, offsets, row_of, reverse=reverse, near=20)


@pytest.mark.parametrize("dtype", FLOATS)
def test_values_of_rows_are_spread_over_their_elements(dtype):
    for lengths in LENGTHS:
        for inner in INNER:
            expect("segment_spread", draw((len(lengths), *inner), dtype), *rows(lengths))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", ["argmax", "argmin"])
def test_extremes_and_their_places_are_the_first_and_nan_wins(op, dtype):
    for lengths in ((2, 1, 3), (33,), (7, 8, 9)):
        for inner in INNER:
            offsets, row_of = rows(lengths)
            x = np.round(draw((sum(lengths), *inner), dtype))
            for spoilt in (False, True):
                if spoilt:
                    x[sum(lengths) // 2] = np.nan
                expect("segment_places", x, offsets, op=op, attrs=())
                (found,) = call(f"segment_a{op[3:]}", x, offsets, row_of)
                expected = [getattr(np, op[3:])(part, axis=0) for part in np.split(x, offsets[1:-1])]
                np.testing.assert_array_equal(found, expected)


def test_many_rows_in_parts_have_the_bits_of_one_part(monkeypatch):
    offsets, row_of = rows([5] * 300)
    x = draw((1500, 3))
    (alone,) = call("segment_sum", x, offsets, row_of)
    bound = bind("segment_sum", (x, offsets, row_of), {})
    parts = segments.parts_of
    monkeypatch.setattr(segments, "parts_of", lambda n, work, part_work: parts(n, work, 20))
    assert bind("segment_sum", (x, offsets, row_of), {}).meta != bound.meta
    np.testing.assert_array_equal(call("segment_sum", x, offsets, row_of)[0], alone)


def test_other_dtypes_and_places_are_left_to_numpy():
    offsets, row_of = rows((2, 1))
    x = draw((3,))
    assert bind("segment_sum", (x.astype(np.float16), offsets, row_of), {}) is None
    assert bind("segment_sum", (x, offsets.astype(np.int32), row_of), {}) is None
    assert bind("segment_sum", (x[:0], offsets[:1], row_of[:0]), {}) is None
    assert bind("segment_places", (x, offsets), {"op": "last"}) is None
