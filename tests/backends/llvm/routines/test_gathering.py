"""Native lookups and scatters against the NumPy kernels of their ops, with guards around everything that is written."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")


from extempo.core.op import REGISTRY

from ..guarded import bind, call
from . import oracle
from .oracle import FLOATS, INDICES, expect, numbers

draw = partial(oracle.draw, scale=9)

ANY = [np.float32, np.float64, np.int64, np.int32, np.int16, np.bool_]


# ---- embedding


@pytest.mark.parametrize("dtype", [*FLOATS, np.float16, np.int64])
@pytest.mark.parametrize("index", INDICES)
def test_embedding_picks_rows_of_any_width(dtype, index):
    for width in [0, 1, 2, 3, 7, 8, 9, 31, 33, 70]:
        weight = draw((5, width), dtype)
        for shape in [(), (0,), (1,), (7,), (3, 4), (2, 0)]:
            expect("embedding", weight, np.asarray(numbers(0, 5, shape, index)), None, by_frequency=False)
    expect("embedding", draw((5, 3), dtype), 4, None, by_frequency=False)
    expect("embedding", draw((5, 3), dtype), numbers(0, 5, (4,), index), 2, by_frequency=False)


def test_many_rows_in_several_parts_are_exact():
    weight, rows = draw((50, 128)), numbers(0, 50, (9000,))
    assert bind("embedding", (weight, rows, None), {"by_frequency": False}).meta[0] > 1
    expect("embedding", weight, rows, None, by_frequency=False)


@pytest.mark.parametrize("wrong", [-1, 5, 2**40])
def test_a_row_out_of_range_is_declined(wrong):
    weight, rows = draw((5, 3)), np.array([0, 1, wrong, 2])
    assert call("embedding", weight, rows, None, by_frequency=False) is None
    assert call("embedding", weight, wrong, None, by_frequency=False) is None
    assert call("sum_rows", draw((4, 3)), rows, n_rows=5) is None


def expect_row_sums(x, rows, n_rows):
    """Exactly the sums in the order of the rows; NumPy's kernel may take another order."""
    (got,) = call("sum_rows", x, rows, n_rows=n_rows)
    wanted = np.zeros((n_rows, x.shape[-1]), x.dtype)
    np.add.at(wanted, rows.reshape(-1), x.reshape(rows.size, x.shape[-1]))
    np.testing.assert_array_equal(got, wanted)
    np.testing.assert_allclose(REGISTRY["sum_rows"].numpy(x, rows, n_rows=n_rows), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("index", INDICES)
def test_the_gradient_of_embedding_adds_repeated_rows_in_order(dtype, index):
    for width in [0, 1, 2, 7, 8, 9, 17, 70]:
        for n in [0, 1, 2, 50]:
            expect_row_sums(draw((n, width), dtype), numbers(0, 4, (n,), index), 4)
    expect_row_sums(draw((3, 5, 6), dtype), numbers(0, 9, (3, 5), index), 9)
    expect_row_sums(draw((0, 6), dtype), numbers(0, 9, (0,), index), 0)


def test_the_rows_of_a_large_table_are_shared_without_changing_a_bit():
    x, rows = draw((500, 64)), numbers(0, 20_000, (500,))
    rows[::3] = 7
    assert bind("sum_rows", (x, rows), {"n_rows": 20_000}).meta[0] > 1
    expect_row_sums(x, rows, 20_000)


def test_half_precision_sums_have_no_native_code():
    assert bind("sum_rows", (draw((2, 2), np.float16), np.array([0, 1])), {"n_rows": 2}) is None


# ---- x[index]


def sources(shape, dtype):
    yield draw(shape, dtype)
    yield draw([2 * shape[0], *shape[1:]], dtype)[::2]
    if len(shape) > 1:
        yield draw([shape[0], shape[1] + 3, *shape[2:]], dtype)[:, 1 : shape[1] + 1]


@pytest.mark.parametrize("dtype", ANY)
@pytest.mark.parametrize("index", INDICES)
def test_one_index_along_any_dimension(dtype, index):
    for shape in [(5,), (4, 3), (3, 4, 8), (2, 3, 4, 5)]:
        for dim, picked in itertools.product(range(len(shape)), [(), (0,), (1,), (6,), (2, 3)]):
            rows = np.asarray(numbers(-shape[dim], shape[dim], picked, index))
            for x in sources(shape, dtype):
                expect("index_get", x, rows, dims=(dim,))


@pytest.mark.parametrize("dtype", [np.float32, np.bool_])
def test_several_indices_on_neighbouring_dimensions(dtype):
    x = draw((4, 3, 5, 2), dtype)
    for dims in [(0, 1), (1, 2), (2, 3), (0, 1, 2), (0, 1, 2, 3)]:
        indices = [numbers(-x.shape[d], x.shape[d], (3, 2), seed=d) for d in dims]
        expect("index_get", x, *indices, dims=dims)


def test_indices_that_are_apart_or_broadcast_have_no_native_code():
    x = draw((4, 3, 2))
    assert bind("index_get", (x, np.array([0, 1]), np.array([0, 1])), {"dims": (0, 2)}) is None
    assert bind("index_get", (x, np.array([[0], [1]]), np.array([0, 1])), {"dims": (0, 1)}) is None


@pytest.mark.parametrize("wrong", [-5, 4, -(2**40)])
def test_an_index_out_of_range_is_declined(wrong):
    x, rows = draw((3, 4)), np.array([0, wrong])
    assert call("index_get", x, rows, dims=(1,)) is None
    assert call("index_embed", draw((3, 2)), rows, dims=(1,), shape=(3, 4)) is None
    assert call("index_put", x, draw((3, 2)), rows, dims=(1,), accumulate=False) is None


def test_elements_that_do_not_lie_side_by_side_are_declined():
    assert call("index_get", draw((4, 6)).T, np.array([1, 2]), dims=(0,)) is None


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("index", INDICES)
def test_the_gradient_of_an_index_adds_repeated_elements_in_order(dtype, index):
    for shape in [(5,), (4, 3), (3, 4, 9), (2, 3, 4, 5)]:
        for dim, n in itertools.product(range(len(shape)), [0, 1, 17]):
            rows = numbers(-shape[dim], shape[dim], (n,), index)
            g = draw((*shape[:dim], n, *shape[dim + 1 :]), dtype)
            expect("index_embed", g, rows, dims=(dim,), shape=shape)
    pair = [numbers(-3, 3, (20,), index, seed) for seed in (1, 2)]
    expect("index_embed", draw((20, 4), dtype), *pair, dims=(0, 1), shape=(3, 3, 4))


@pytest.mark.parametrize("dtype", ANY)
def test_writing_to_an_index_keeps_the_last_of_repeated_ones(dtype):
    for shape in [(5,), (4, 3), (3, 4, 9)]:
        for dim, n in itertools.product(range(len(shape)), [0, 1, 17]):
            rows = numbers(-shape[dim], shape[dim], (n,))
            values = draw((*shape[:dim], n, *shape[dim + 1 :]), dtype, 3)
            for x in sources(shape, dtype):
                expect("index_put", x, values, rows, dims=(dim,), accumulate=False)
                expect("index_put", x, draw((), dtype, 4), rows, dims=(dim,), accumulate=False)
    expect("index_put", draw((6, 4), dtype).T, draw((3, 6), dtype), np.array([0, 2, 0]), dims=(0,), accumulate=False)


@pytest.mark.parametrize("dtype", FLOATS)
def test_adding_to_an_index_adds_repeated_ones_up(dtype):
    for shape in [(5,), (4, 3), (3, 4, 9)]:
        for dim in range(len(shape)):
            rows = numbers(-shape[dim], shape[dim], (17,))
            values = draw((*shape[:dim], 17, *shape[dim + 1 :]), dtype, 3)
            for x in sources(shape, dtype):
                expect("index_put", x, values, rows, dims=(dim,), accumulate=True)
                expect("index_put", x, draw((1,), dtype, 4), rows, dims=(dim,), accumulate=True)
