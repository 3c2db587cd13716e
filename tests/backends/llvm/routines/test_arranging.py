"""Padding, flips, rolls and triangles, natively, against NumPy."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")


from ..guarded import bind
from . import oracle
from .oracle import expect, layouts

draw = partial(oracle.draw, scale=50)

DTYPES = [np.float32, np.float64, np.int64, np.int32, np.int16, np.uint8, np.bool_]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32])
def test_padding_surrounds_any_layout(dtype):
    value = 1.5 if np.issubdtype(dtype, np.floating) else -3
    expect("constant_pad", draw((), dtype), value, widths=())
    expect("constant_pad", draw((0,), dtype), value, widths=((1, 2),))
    for shape in [(1,), (5,), (3, 4), (2, 3, 7)]:
        for x in layouts(shape, dtype):
            for width in [(0, 0), (1, 0), (0, 3), (2, 9)]:
                expect("constant_pad", x, value, widths=(width,) * len(shape))
                expect("constant_pad", x, value, widths=((0, 0),) * (len(shape) - 1) + (width,))


def test_padding_with_a_fraction_of_whole_numbers_has_no_native_code():
    assert bind("constant_pad", (draw((2,), np.int64), 1.5), {"widths": ((1, 1),)}) is None


@pytest.mark.parametrize("dtype", DTYPES)
def test_flip_reverses_any_dimensions(dtype):
    expect("flip", draw((), dtype), dims=())
    for shape in [(0,), (1,), (9,), (4, 5), (3, 0), (2, 3, 4)]:
        for x in layouts(shape, dtype):
            for n in range(len(shape) + 1):
                for dims in itertools.combinations(range(len(shape)), n):
                    expect("flip", x, dims=dims)


@pytest.mark.parametrize("dtype", DTYPES)
def test_roll_turns_one_dimension_by_any_number(dtype):
    for shape in [(0,), (1,), (9,), (4, 5), (2, 3, 4)]:
        for x in layouts(shape, dtype):
            for dim, shift in itertools.product(range(len(shape)), (-11, -1, 0, 1, 2, 5, 23)):
                expect("roll", x, shift, dims=(dim,), back=False)
                expect("roll", x, shift, dims=(dim,), back=True)


@pytest.mark.parametrize("name", ["tril", "triu"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_triangles_have_the_diagonal_that_is_asked_for(name, dtype):
    for shape in [(1, 1), (3, 4), (7, 3), (2, 3, 3), (0, 2, 2), (2, 0), (0, 3)]:
        for diagonal in (-9, -2, -1, 0, 1, 3, 9):
            expect(name, draw(shape, dtype), diagonal)
