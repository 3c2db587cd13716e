"""Native copies, joins, padding, flips, rolls and triangles against NumPy, with guards around the results."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")


from ..guarded import bind, call
from . import oracle
from .oracle import expect, layouts

draw = partial(oracle.draw, scale=50)

DTYPES = [np.float32, np.float64, np.int64, np.int32, np.int16, np.uint8, np.bool_]


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_copy_of_any_layout_is_contiguous_and_equal(dtype):
    for shape in [(), (0,), (1,), (7,), (3, 0, 2), (5, 6), (8, 8), (9, 17), (3, 4, 5), (2, 1, 3, 4), (2, 2, 2, 2, 3)]:
        for x in layouts(shape, dtype):
            (got,) = call("copy", x)
            np.testing.assert_array_equal(got, x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_transposes_of_every_small_size_are_exact(dtype):
    for rows, columns in itertools.product([*range(1, 20), 31, 33, 63, 64, 65, 70], [1, 2, 7, 8, 9, 16, 63, 65, 70]):
        x = draw((columns, rows), dtype).T
        (got,) = call("copy", x)
        np.testing.assert_array_equal(got, x)


def test_a_large_copy_in_several_parts_is_exact():
    x = draw((300, 70, 50)).transpose(2, 0, 1)
    assert bind("copy", (x,), {}).meta[0] > 1
    (got,) = call("copy", x)
    np.testing.assert_array_equal(got, x)


def test_only_the_row_major_order_is_arranged_natively():
    x = draw((2, 3, 4)).transpose(2, 0, 1)
    expect("arrange", x, order=(0, 1, 2))
    assert bind("arrange", (x,), {"order": (1, 2, 0)}) is None


@pytest.mark.parametrize("dtype", DTYPES)
def test_cat_joins_any_layouts_along_any_dimension(dtype):
    expect("cat", draw((3,), dtype), dim=0)
    expect("cat", draw((0,), dtype), draw((4,), dtype), draw((1,), dtype), dim=0)
    for dim in range(3):
        shapes = [[2, 3, 4] for _ in range(4)]
        for shape, n in zip(shapes, (1, 0, 5, 9), strict=True):
            shape[dim] = n
        xs = [draw(shape, dtype, i) for i, shape in enumerate(shapes)]
        expect("cat", *xs, dim=dim)
        expect("cat", *(np.asfortranarray(x) for x in xs), dim=dim)
        expect("cat", *(np.repeat(x, 2, axis=2)[:, :, ::2] for x in xs), dim=dim)
    x = draw((4, 6), dtype)
    expect("cat", x.T, x.T, x.reshape(6, 4), dim=1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_stack_makes_a_new_dimension_anywhere(dtype):
    expect("stack", draw((), dtype), draw((), dtype, 1), draw((), dtype, 2), dim=0)
    for shape in [(3,), (2, 5), (2, 0), (2, 3, 4)]:
        xs = [draw(shape, dtype, i) for i in range(4)]
        for dim in range(len(shape) + 1):
            expect("stack", *xs, dim=dim)
            expect("stack", *(np.asfortranarray(x)[::-1] for x in xs), dim=dim)


def test_joins_of_different_dtypes_have_no_native_code():
    x = draw((2, 2))
    assert bind("cat", (x, x.astype(np.float64)), {"dim": 0}) is None
