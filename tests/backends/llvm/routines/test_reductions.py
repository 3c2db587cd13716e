"""Native reductions against the NumPy kernels of their ops, with guards around everything that is written."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

from extempo.backends.llvm.routines import reductions
from extempo.core.op import REGISTRY

from ..guarded import bind, call
from .oracle import FLOATS, draw

ULP = {np.float32: 2.0**-23, np.float64: 2.0**-52}


def reduced(op, x, dim, keepdim=False, **attrs):
    (y,) = call(op, x, dim=dim, keepdim=keepdim, **attrs)
    return y


def check_sum(x, dim, op="sum"):
    y = reduced(op, x, dim)
    exact = x.astype(np.longdouble).sum(axis=dim)
    size = np.abs(x).astype(np.longdouble).sum(axis=dim)
    if op == "mean":
        n = math.prod(x.shape[d] for d in dim)
        exact, size = exact / n, size / n
    assert y.shape == exact.shape
    assert (np.abs(y - exact) <= 4 * ULP[x.dtype.type] * size + 1e-300).all()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n", [*range(1, 71), 127, 128, 511, 512, 513, 1024, 1027])
def test_a_row_of_any_length_is_summed(n, dtype):
    check_sum(draw(n, dtype), (0,))
    check_sum(draw((3, n), dtype), (1,), "mean")
    np.testing.assert_array_equal(reduced("amax", draw((3, n), dtype), (1,)), draw((3, n), dtype).max(1))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n_rows", [1, 2, 3, 4, 5, 6, 9, 63, 64, 65, 66, 130, 256, 257])
@pytest.mark.parametrize("n_columns", [2, 3, 7, 8, 9, 31, 33, 70])
def test_columns_of_any_shape_are_summed(n_rows, n_columns, dtype):
    check_sum(draw((n_rows, n_columns), dtype), (0,))
    check_sum(draw((2, n_rows, n_columns), dtype), (1,), "mean")
    x = draw((n_rows, n_columns), dtype)
    np.testing.assert_array_equal(reduced("amin", x, (0,)), x.min(0))


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (1, 3, 1, 5), (9, 1, 8, 2), (70, 2, 3, 1), (300, 2, 1, 3)])
def test_any_dimensions_can_be_reduced(shape):
    x = draw(shape)
    for n in range(1, 5):
        for dim in itertools.combinations(range(4), n):
            check_sum(x, dim)
            np.testing.assert_array_equal(reduced("amax", x, dim, True), x.max(axis=dim, keepdims=True))


def test_long_rows_and_columns_are_reduced_in_pieces():
    for shape, dim in [
        ((2 * reductions.PIECE + 13,), (0,)),
        ((3, reductions.PIECE + 8), (1,)),
        ((70 * 64 + 5, 40), (0,)),
        ((200, reductions.COLUMNS_IN_STRIP + 9), (0,)),
        ((4096, 3), (0,)),
        ((64, 5, 4096), (0, 2)),
    ]:
        check_sum(draw(shape), dim)
        np.testing.assert_array_equal(reduced("amax", draw(shape), dim), draw(shape).max(axis=dim))


def test_float32_sums_are_as_accurate_as_pairwise_ones():
    """The root mean square error over many sums, of numbers that do not cancel, against NumPy's."""
    errors = {"native": 0.0, "numpy": 0.0}
    for seed in range(40):
        x = np.random.default_rng(seed).random(20_000).astype(np.float32)
        exact = x.astype(np.float64).sum()
        errors["native"] += float(reduced("sum", x, (0,)) - exact) ** 2
        errors["numpy"] += float(x.sum() - exact) ** 2
    assert errors["native"] <= errors["numpy"]


def test_a_sum_of_a_slice_does_not_depend_on_where_it_lies():
    x = draw((70, 2, 33))
    np.testing.assert_array_equal(reduced("sum", x[:, 1], (0,)), reduced("sum", x[:, 1].copy(), (0,)))
    np.testing.assert_array_equal(reduced("sum", x, (2,))[:, 0], reduced("sum", x[:, 0], (1,)))


@pytest.mark.parametrize("dtype", FLOATS)
@np.errstate(invalid="ignore")
def test_infinities_and_nan_come_through(dtype):
    for special in ([np.inf], [-np.inf], [np.nan], [np.inf, -np.inf], [np.inf, np.inf]):
        for place in (0, 7, 8, 600, 1200):
            x = draw(1300, dtype)
            x[place : place + len(special)] = special
            for op in ("sum", "mean", "amax", "amin"):
                expected = REGISTRY[op].numpy(x, dim=(0,), keepdim=False)
                np.testing.assert_allclose(reduced(op, x, (0,)), expected, rtol=1e-4)
                columns = np.stack([x, draw(1300, dtype, 1)], 1)
                expected = REGISTRY[op].numpy(columns, dim=(0,), keepdim=False)
                np.testing.assert_allclose(reduced(op, columns, (0,)), expected, rtol=1e-4)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("ord", [1.0, 2.0, math.inf, -math.inf])
def test_norms_equal_those_of_numpy(ord, dtype):
    for shape, dim in [((5,), (0,)), ((3, 70), (1,)), ((70, 3), (0,)), ((2, 3, 9), (0, 2)), ((4, 600), (0, 1))]:
        x = draw(shape, dtype)
        expected = REGISTRY["vector_norm"].numpy(x, ord=ord, dim=dim, keepdim=False)
        np.testing.assert_allclose(reduced("vector_norm", x, dim, ord=ord), expected, rtol=1e-5)


def test_other_norms_are_left_to_numpy():
    assert bind("vector_norm", (draw(5),), {"ord": 3.0, "dim": (0,), "keepdim": False}) is None


@pytest.mark.parametrize("dtype", [np.bool_, np.int32, np.int64])
def test_integers_and_truth_are_counted_in_int64(dtype):
    for shape, dim in [((5,), (0,)), ((3, 70), (1,)), ((70, 3), (0,)), ((2, 3, 9), (0, 2)), ((1000,), (0,))]:
        x = (draw(shape) * 2).astype(dtype)
        y = reduced("sum", x, dim)
        assert y.dtype == np.int64
        np.testing.assert_array_equal(y, x.sum(axis=dim, dtype=np.int64))


@pytest.mark.parametrize("op", ["any", "all"])
def test_truth_over_dimensions(op):
    for shape, dim in [((1,), (0,)), ((5,), (0,)), ((30, 70), (1,)), ((70, 30), (0,)), ((2, 30, 9), (0, 2))]:
        for share in (0.02, 0.5, 0.98):
            x = np.random.default_rng(1).random(shape) < share
            np.testing.assert_array_equal(reduced(op, x, dim), REGISTRY[op].numpy(x, dim=dim, keepdim=False))


def test_nothing_to_reduce_is_left_to_numpy():
    for shape in ((0, 3), (3, 0)):
        assert bind("sum", (np.empty(shape, np.float32),), {"dim": (0,), "keepdim": False}) is None


@pytest.mark.parametrize("dtype", [*FLOATS, np.int64, np.int32, np.bool_])
def test_products_of_any_shape_are_numpys_up_to_rounding(dtype):
    rng = np.random.default_rng(0)
    for shape, dims in (((3, 1), (1,)), ((9, 37), (0,)), ((9, 37), (1,)), ((4, 70, 33), (0, 2)), ((300, 5), (0,))):
        x = rng.uniform(0.9, 1.1, shape).astype(dtype) if dtype in FLOATS else rng.integers(-1, 3, shape).astype(dtype)
        found, expected = reduced("prod", x, dims), REGISTRY["prod"].numpy(x, dim=dims, keepdim=False)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-4 if dtype is np.float32 else 1e-12)


def test_a_product_has_a_zero_an_infinity_or_a_nan_if_an_element_is_one():
    for special in (0.0, -0.0, np.inf, np.nan):
        x = np.full((3, 70), 1.5, np.float32)
        x[1, 69] = special
        np.testing.assert_array_equal(reduced("prod", x[:, 40:], (1,))[1], special)
