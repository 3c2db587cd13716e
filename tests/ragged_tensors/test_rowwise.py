"""Sums, extremes, softmaxes, scans and sorts along rows are those of each row; nothing gets from one row to another."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import extempo as ex
from extempo.backends.selection import native
from extempo.errors import DtypeError, IndexRangeError, ShapeError, UnsupportedError
from extempo.nn import functional as F
from extempo.ragged_tensors.rows import Rows
from extempo.ragged_tensors.tensor import RaggedTensor

from .looped import FEW, LENGTHS, check_rows, ragged_leaf

FILLED = st.lists(st.integers(1, 6), max_size=5)
SHAPES = st.sampled_from([((), 1), ((3,), 1), ((3,), 2), ((2, 3), 1), ((2, 3), 2), ((2, 3), 3), ((70,), 1), ((0,), 1)])


def along(fn, x, dims, **options):
    """fn over dimensions of a ragged tensor, which are one less in a row."""

    def of_row(i, row):
        return fn(row, dim=tuple(d - 1 for d in dims) if isinstance(dims, tuple) else dims - 1, **options)

    return check_rows(lambda t: fn(t, dim=dims, **options), x, of_row=of_row)


# ---- reductions

TOTALS = [
    ex.sum,
    ex.all,
    ex.any,
    ex.logsumexp,
    ex.nansum,
    ex.nanmean,
    ex.count_nonzero,
    ex.linalg.vector_norm,
    ex.norm,
    lambda x, dim, **options: ex.linalg.vector_norm(x, 1, dim, **options),
    lambda x, dim, **options: ex.linalg.vector_norm(x, 3, dim, **options),
]
MEANS = [
    ex.mean,
    lambda x, dim, **options: ex.var(x, dim, correction=0, **options),
    lambda x, dim, **options: ex.var_mean(x, dim, correction=0, **options)[0],
    lambda x, dim, **options: ex.std_mean(x, dim, correction=0, **options)[1],
]


@pytest.mark.parametrize("fn", TOTALS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@FEW
@given(LENGTHS, SHAPES, st.booleans())
def test_totals_over_the_ragged_dimension_are_those_of_each_row(fn, lengths, shape, keepdim):
    x = ragged_leaf(lengths, *shape[0], dim=shape[1])
    options = {} if fn is ex.count_nonzero else {"keepdim": keepdim}
    y = along(fn, x, shape[1], **options)
    assert not y.is_nested
    along(fn, x, tuple(range(1, x.ndim)), **options)
    if x.ndim > 2:
        along(fn, x, (shape[1], 1 if shape[1] > 1 else 2), **options)


@pytest.mark.parametrize("fn", MEANS)
@FEW
@given(FILLED, SHAPES, st.booleans())
def test_means_of_rows_that_are_not_empty(fn, lengths, shape, keepdim):
    x = ragged_leaf(lengths, *shape[0], dim=shape[1])
    along(fn, x, shape[1], keepdim=keepdim)
    if x.numel():
        along(fn, x, tuple(range(1, x.ndim)), keepdim=keepdim)


@pytest.mark.parametrize("fn", [ex.sum, ex.mean, ex.amax, ex.logsumexp, ex.linalg.vector_norm, ex.std])
@FEW
@given(LENGTHS, st.booleans())
def test_over_regular_dimensions_the_result_is_ragged(fn, lengths, keepdim):
    for x, dims in [(ragged_leaf(lengths, 2, 3), (2,)), (ragged_leaf(lengths, 2, 3, dim=2), (1, 3))]:
        y = along(fn, x, dims, keepdim=keepdim)
        assert y.is_nested
        assert y._rows is x._rows
    y = along(fn, ragged_leaf(lengths, 2, 3, dim=3), 1, keepdim=keepdim)
    assert y._dim == (3 if keepdim else 2)


@pytest.mark.parametrize("fn", [ex.sum, ex.mean, ex.amax, ex.amin, ex.prod, ex.max, ex.min, ex.median, ex.std, ex.norm])
def test_over_everything_it_is_that_of_all_values(fn):
    x = ragged_leaf([2, 0, 3], 4)
    np.testing.assert_allclose(fn(x).detach().numpy(), fn(x.values()).detach().numpy())


def test_over_rows_and_places_together_it_is_that_of_all_values():
    x = ragged_leaf([2, 0, 3], 4)
    np.testing.assert_allclose(x.sum((0, 1)).detach().numpy(), x.values().sum(0).detach().numpy())
    assert x.mean((0, 1), keepdim=True).shape == (1, 1, 4)


@pytest.mark.parametrize("fn", [ex.sum, ex.amax, ex.softmax, ex.cumsum, ex.sort, ex.argmax, ex.max, ex.topk, ex.median])
def test_across_rows_there_is_nothing_to_reduce(fn):
    x = ragged_leaf([2, 3], 4)
    with pytest.raises(UnsupportedError, match="rows"):
        fn(x, 1, 0) if fn is ex.topk else fn(x, 0)


EXTREMES = [
    ex.amax,
    ex.amin,
    ex.argmax,
    ex.argmin,
    lambda x, dim, **options: ex.max(x, dim, **options).values,
    lambda x, dim, **options: ex.min(x, dim, **options).indices,
    lambda x, dim, **options: ex.median(x, dim, **options).values,
    lambda x, dim, **options: ex.nanmedian(x, dim, **options).indices,
    lambda x, dim, **options: ex.mode(x, dim, **options).values,
    lambda x, dim, **options: ex.kthvalue(x, 1, dim, **options).values,
    lambda x, dim, **options: ex.quantile(x, 0.3, dim, **options),
    lambda x, dim, **options: ex.nanquantile(x, 0.5, dim, **options),
]


@pytest.mark.parametrize("fn", EXTREMES)
@FEW
@given(FILLED, SHAPES, st.booleans())
def test_extremes_of_rows_that_are_not_empty(fn, lengths, shape, keepdim):
    x = ragged_leaf(lengths, *shape[0], dim=shape[1])
    if not x.numel() and fn in EXTREMES[-2:]:
        return
    along(fn, x, shape[1], keepdim=keepdim)


@pytest.mark.parametrize("fn", EXTREMES)
def test_an_empty_row_has_no_extreme_and_is_named(fn):
    with pytest.raises(ShapeError, match="row 1 is empty"):
        fn(ragged_leaf([2, 0, 3]), 1)


def test_equal_elements_share_the_gradient_of_amax_and_the_first_gets_that_of_max():
    x = ex.ragged([[2.0, 2.0, 1.0], [3.0]], requires_grad=True)
    x.amax(1).sum().backward()
    assert x.grad.tolist() == [[0.5, 0.5, 0.0], [1.0]]
    x.grad = None
    x.max(1).values.sum().backward()
    assert x.grad.tolist() == [[1.0, 0.0, 0.0], [1.0]]


def test_several_regular_dimensions_with_the_ragged_one_share_the_gradient_of_amax_at_once():
    values = ex.tensor([[1.0, 1.0], [1.0, 0.0], [5.0, 5.0], [0.0, 5.0], [0.0, 0.0]], dtype=ex.float64)
    values.requires_grad_()
    x = RaggedTensor(values, Rows.of_lengths([2, 3]))
    x.amax((1, 2)).sum().backward()
    assert values.grad.tolist() == [[1 / 3, 1 / 3], [1 / 3, 0], [1 / 3, 1 / 3], [0, 1 / 3], [0, 0]]


@pytest.mark.parametrize("fn", MEANS)
@pytest.mark.parametrize("way", [lambda fn: fn, ex.compile])
def test_an_empty_row_has_no_mean_and_is_named(fn, way):
    run = way(lambda x: fn(x, 1))
    for _ in range(3):
        assert run(ragged_leaf([2, 4, 3])).isfinite().all()
    with pytest.raises(ShapeError, match=r"row 1 is empty, and so has no \w+; select longer rows first"):
        run(ragged_leaf([2, 0, 3]))


@pytest.mark.parametrize("name", ["median", "nanmedian", "mode", "argmax"])
def test_an_empty_row_is_said_to_lack_what_the_user_asked_for(name):
    with pytest.raises(ShapeError, match=f"^{name}: row 1 is empty, and so has no {name};"):
        getattr(ex, name)(ragged_leaf([2, 0]), dim=1)


def test_the_sum_of_an_empty_row_is_zero():
    x = ex.ragged([[1.0, 2.0], []])
    assert x.sum(1).tolist() == [3.0, 0.0]
    assert x.prod(1).tolist() == [2.0, 1.0]
    assert x.logsumexp(1)[1].item() == -math.inf


@pytest.mark.parametrize("dtype", [ex.int8, ex.int64, ex.bool, ex.uint8, ex.float16, ex.bfloat16, ex.float32])
def test_dtypes_are_those_of_the_regular_function(dtype):
    x = ex.ragged([[1, 2, 3], [0], [5, 4]]).to(dtype)
    for fn in (ex.sum, ex.prod, ex.all, ex.any, ex.amax, ex.cumsum, ex.count_nonzero):
        along(fn, x, 1) if dtype.is_floating_point else check_rows(
            lambda t, fn=fn: fn(t, 1), x, of_row=lambda i, row, fn=fn: fn(row, 0)
        )
    if dtype.is_floating_point:
        along(ex.mean, x, 1)
        along(ex.softmax, x, 1)
    else:
        with pytest.raises(DtypeError, match="mean"):
            x.mean(1)
        with pytest.raises(DtypeError, match="softmax"):
            x.softmax(1)


# ---- one row and another


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_in_one_row_does_not_reach_another(bad):
    rows = [[1.0, 2.0], [bad, 3.0], [4.0, 5.0, 6.0]]
    for shape in ((), (3,)):
        x = ex.ragged([ex.tensor(row).reshape(-1, *(1,) * len(shape)).expand(-1, *shape) for row in rows])
        x.values().requires_grad_()
        for fn in (ex.sum, ex.mean, ex.softmax, ex.log_softmax, ex.cumsum, ex.logsumexp, ex.amax, ex.std, ex.cumprod):
            y = fn(x, 1)
            assert all(np.isfinite(y[i].detach().numpy()).all() for i in (0, 2))
            x.values().grad = None
            sum((y[i] * y[i]).sum() for i in (0, 2)).backward()
            assert all(np.isfinite(x.grad[i].numpy()).all() for i in (0, 2))


# ---- softmax, scans


@pytest.mark.parametrize("fn", [ex.softmax, ex.log_softmax, F.softmax, F.log_softmax, F.softmin])
@FEW
@given(LENGTHS, SHAPES)
def test_softmax_of_each_row(fn, lengths, shape):
    x = ragged_leaf(lengths, *shape[0], dim=shape[1])
    for dim in range(1, x.ndim):
        y = along(fn, x, dim)
        assert y._rows is x._rows


@pytest.mark.parametrize("fn", [ex.softmax, ex.log_softmax])
def test_second_derivatives_of_softmax(fn):
    rows = Rows.of_lengths([3, 0, 2])
    weights = RaggedTensor(ex.arange(10.0, dtype=ex.float64).reshape(5, 2), rows)
    ex.testing.check_grad(lambda v: (fn(RaggedTensor(v, rows), 1) * weights).sum(1), [ex.randn(5, 2)])


SCANS = [
    ex.cumsum,
    ex.cumprod,
    ex.logcumsumexp,
    ex.argsort,
    lambda x, dim: ex.cummax(x, dim).values,
    lambda x, dim: ex.cummin(x, dim).indices,
    lambda x, dim: ex.sort(x, dim).values,
    lambda x, dim: ex.sort(x, dim, descending=True).values,
    lambda x, dim: ex.flip(x, (dim,)),
    lambda x, dim: ex.roll(x, 2, dim),
    lambda x, dim: ex.roll(x, -7, dim),
    lambda x, dim: ex.diff(x, 0, dim),
]


@pytest.mark.parametrize("fn", SCANS)
@FEW
@given(LENGTHS, SHAPES)
def test_scans_and_orders_of_each_row(fn, lengths, shape):
    x = ragged_leaf(lengths, *shape[0], dim=shape[1])
    for dim in range(1, x.ndim):
        y = along(fn, x, dim)
        assert y._rows is x._rows


@FEW
@given(LENGTHS, SHAPES, st.integers(1, 3))
def test_differences_of_neighbours_in_each_row(lengths, shape, n):
    along(lambda x, dim: ex.diff(x, n, dim), ragged_leaf(lengths, *shape[0], dim=shape[1]), shape[1])


@FEW
@given(st.lists(st.integers(2, 6), max_size=4), SHAPES, st.booleans())
def test_the_best_of_each_row(lengths, shape, largest):
    x = ragged_leaf(lengths, *shape[0], dim=shape[1])
    for part in (0, 1):
        y = check_rows(
            lambda t, part=part: ex.topk(t, 2, shape[1], largest)[part],
            x,
            of_row=lambda i, row, part=part: ex.topk(row, 2, shape[1] - 1, largest)[part],
        )
        assert not y.is_nested


def test_rows_that_are_too_short_for_what_is_asked_are_named():
    x = ragged_leaf([3, 1])
    for fn in (lambda: x.topk(2, 1), lambda: x.kthvalue(2, 1)):
        with pytest.raises(IndexRangeError, match="row 1 has 1 elements, 2 are asked for"):
            fn()


# ---- ways to run


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x.softmax(1).sum(1).sum(),
        lambda x: (x * x.mean(1, keepdim=True)).amax(1).sum(),
        lambda x: x.cumsum(1).log_softmax(1).values().sum(),
        lambda x: x.sort(1).values.std(1).sum(),
    ],
)
def test_compiled_functions_have_the_same_bits_for_any_lengths(fn, always_planned):
    def step(values, rows):
        x = RaggedTensor(values, rows)
        loss = fn(x)
        return (loss, *ex.autograd.grad(loss, [values]))

    compiled, runs = ex.compile(step), ex.compile.stats()["runs"]
    for turn in range(12):
        lengths = np.random.RandomState(turn % 2).randint(2, 9, 4)
        values = ex.from_numpy(np.random.RandomState(turn).normal(size=(lengths.sum(), 3)).astype(np.float32))
        values.requires_grad_()
        rows = Rows.of_lengths(lengths)
        for ours, eager in zip(compiled(values, rows), step(values, rows), strict=True):
            np.testing.assert_array_equal(ours.detach().numpy(), eager.detach().numpy())
    assert ex.compile.stats()["runs"] >= runs + 8 or native() is None
