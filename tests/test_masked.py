"""ex.masked: what is left out changes nothing, gets no gradient, and a slice of nothing has a stated result."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import masked

NAN, INF = float("nan"), float("inf")
X = [[1.0, 9.0, 3.0], [4.0, 5.0, 6.0]]
MASK = [[True, False, True], [False, False, False]]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sum", [4, 0]),
        ("prod", [3, 1]),
        ("amax", [3, -INF]),
        ("amin", [1, INF]),
        ("argmax", [2, 0]),
        ("argmin", [0, 0]),
        ("mean", [2, NAN]),
        ("median", [1, NAN]),
        ("logsumexp", [3.126928, -INF]),
        ("var", [2, NAN]),
        ("std", [2**0.5, NAN]),
    ],
)
def test_reductions_leave_out_what_the_mask_says(name, expected):
    found = getattr(masked, name)(ex.tensor(X), 1, mask=ex.tensor(MASK))
    assert found.tolist() == pytest.approx(expected, nan_ok=True)


def test_norms_of_every_order_leave_out_what_the_mask_says():
    for order, expected in ((2.0, 10**0.5), (1.0, 4), (0.0, 2), (INF, 3), (-INF, 1)):
        assert masked.norm(ex.tensor(X[0]), order, mask=ex.tensor(MASK[0])).item() == pytest.approx(expected)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
def test_softmax_is_taken_over_what_is_kept(name):
    found = getattr(masked, name)(ex.tensor(X), 1, mask=ex.tensor(MASK))
    kept = ex.tensor([-1.0, -3.0] if name == "softmin" else [1.0, 3.0])
    expected = kept.log_softmax(0) if name == "log_softmax" else kept.softmax(0)
    assert found[0, ::2].tolist() == pytest.approx(expected.tolist())
    assert found[0, 1].item() == (-INF if name == "log_softmax" else 0)
    assert found[1].isnan().all()


def test_running_totals_pass_over_what_is_left_out():
    x, mask = ex.tensor(X), ex.tensor(MASK)
    assert masked.cumsum(x, 1, mask=mask)[0].tolist() == [1, 1, 4]
    assert masked.cumprod(x, 1, mask=mask)[0].tolist() == [1, 1, 3]
    assert masked.normalize(x, 1.0, 1, mask=mask).tolist() == [[0.25, 0, 0.75], [0, 0, 0]]
    assert masked.logaddexp(x[0], x[1], input_mask=mask[0], other_mask=mask[1]).tolist() == [1, -INF, 3]


@pytest.mark.parametrize("name", ["sum", "prod", "amax", "mean", "logsumexp", "var", "std"])
def test_what_is_left_out_gets_no_gradient_even_if_it_is_nan(name):
    x = ex.tensor([1.0, NAN, 4.0], requires_grad=True)
    getattr(masked, name)(x, 0, mask=ex.tensor([True, False, True])).backward()
    assert x.grad[1].item() == 0
    assert x.grad.isfinite().all()


def test_without_a_mask_everything_is_kept():
    x = ex.tensor(X)
    assert masked.sum(x).item() == 28
    assert masked.var(x, 1).tolist() == pytest.approx(x.var(1).tolist())
    assert masked.mean(x, (0, 1), keepdim=True).shape == (1, 1)


def test_integers_use_their_own_limits_and_refuse_a_median_of_nothing():
    x, mask = ex.tensor([[1, 2, 3], [4, 5, 6]]), ex.tensor(MASK)
    assert masked.amax(x, 1, mask=mask).tolist() == [3, ex.iinfo(ex.int64).min]
    assert masked.amax(x, 1, mask=mask, dtype=ex.int32).dtype is ex.int32
    assert masked.var(x, 1, mask=mask)[0].item() == 2
    with pytest.raises(ex.errors.ShapeError, match="median: a slice along dim 1"):
        masked.median(x, 1, mask=mask)
    with pytest.raises(ex.errors.DtypeError, match=r"^masked[.]mean"):
        masked.mean(x, mask=mask)
    with pytest.raises(ex.errors.DtypeError, match=r"^masked[.]amax"):
        masked.amax(mask, mask=mask)


def test_a_mask_that_does_not_fit_is_refused():
    with pytest.raises(ex.errors.ShapeError, match=r"masked.sum: a mask of shape \(2,\)"):
        masked.sum(ex.tensor(X), mask=ex.tensor([True, False]))
    with pytest.raises(ex.errors.DtypeError, match="must be bool"):
        masked.sum(ex.tensor(X), mask=ex.tensor(1.0))
    assert masked.sum(ex.tensor(X), mask=ex.tensor([True, False, False])).item() == 5


@pytest.mark.parametrize("dtype", [ex.float16, ex.bfloat16])
def test_variances_keep_half_precision(dtype):
    x, keep = ex.tensor([[1.0, 9.0, 3.0]], dtype=dtype), ex.tensor([True, False, True])
    for function in (masked.var, masked.std):
        assert function(x, 1, correction=0.5, mask=keep).dtype is dtype
    assert masked.var(x, 1, mask=keep).tolist() == [2.0]


@pytest.mark.parametrize("dtype", [ex.int8, ex.uint8, ex.int32])
def test_running_sums_and_products_keep_the_dtype(dtype):
    x, keep = ex.tensor([2, 9, 3], dtype=dtype), ex.tensor([True, False, True])
    for function, expected in ((masked.cumsum, [2, 2, 5]), (masked.cumprod, [2, 2, 6])):
        found = function(x, 0, mask=keep)
        assert found.dtype is dtype
        assert found.tolist() == expected
        assert function(x, 0, dtype=ex.int64, mask=keep).dtype is ex.int64


def test_extremes_of_bools_are_bools_without_a_mask():
    assert masked.amax(ex.tensor([True, False])).item() is True
    assert masked.amin(ex.tensor([True, False])).item() is False
