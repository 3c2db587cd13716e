"""Native copies, joins, padding, flips, rolls and triangles against NumPy, with guards around the results."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

from extempo.backends.llvm.routines import arranging, layout  # noqa: F401 - registers the routines
from extempo.core.op import REGISTRY

from ..guarded import bind, call

DTYPES = [np.float32, np.float64, np.int64, np.int32, np.int16, np.uint8, np.bool_]


def draw(shape, dtype=np.float32, seed=0):
    return np.asarray(np.random.default_rng(seed).normal(size=shape) * 50).astype(dtype)


def expect(name, *inputs, **attrs):
    (got,) = call(name, *inputs, **attrs)
    wanted = REGISTRY[name].numpy(*inputs, **attrs)
    assert got.dtype == wanted.dtype
    assert got.shape == wanted.shape
    np.testing.assert_array_equal(got, wanted)


def layouts(shape, dtype):
    """Arrays of that shape in many layouts."""
    yield draw(shape, dtype)
    if not shape:
        return
    for axes in itertools.islice(itertools.permutations(range(len(shape))), 1, 6):
        back = np.argsort(axes)
        yield draw([shape[a] for a in axes], dtype).transpose(back)
    yield draw([2 * n for n in shape], dtype)[tuple(slice(None, None, 2) for _ in shape)]
    yield draw(shape, dtype)[::-1]
    yield np.broadcast_to(draw((1, *shape[1:]), dtype), shape)
    yield np.broadcast_to(draw(shape[-1:], dtype), shape)
    yield draw((*shape[:-1], shape[-1] + 3), dtype)[..., 1 : shape[-1] + 1]


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
