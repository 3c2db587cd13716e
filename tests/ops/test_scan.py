"""Running totals: zeros, ties, NaN, infinities, empty and 0-dim inputs."""

from __future__ import annotations

import math

import numpy as np
import pytest

import extempo as ex
from extempo.testing import check_grad

NAN, INF = float("nan"), float("inf")


def test_scans_of_empty_and_0_dim_inputs():
    for name in ("cumsum", "cumprod", "logcumsumexp"):
        assert getattr(ex, name)(ex.zeros(2, 0), 1).shape == (2, 0)
        assert getattr(ex, name)(ex.tensor(3.0), 0).item() == 3
    assert ex.zeros(0, 3).cummax(0).values.shape == (0, 3)
    assert ex.tensor(3.0).cummin(-1).indices.item() == 0
    with pytest.raises(ex.errors.IndexRangeError, match="cumsum: dim 1"):
        ex.tensor(3.0).cumsum(1)


def test_integers_and_dtype():
    assert ex.tensor([True, True]).cumsum(0).tolist() == [1, 2]
    assert ex.tensor([200, 200], dtype=ex.uint8).cumsum(0).tolist() == [200, 400]
    assert ex.tensor([1, 2]).cumprod(0, dtype=ex.float64).dtype is ex.float64
    assert ex.tensor([1, 2]).cumsum(0, dtype=ex.int16).dtype is ex.int16
    with pytest.raises(ex.errors.DtypeError, match="logcumsumexp: expected a floating"):
        ex.tensor([1]).logcumsumexp(0)


def test_in_place_scans_keep_the_dtype():
    x = ex.tensor([1, 2, 3], dtype=ex.int32)
    assert x.cumsum_(0) is x
    assert x.dtype is ex.int32
    assert x.cumprod_(0).tolist() == [1, 3, 18]


@pytest.mark.parametrize("x", [[2.0, 3.0, 4.0], [2.0, 0.0, 4.0], [0.0, 3.0, 0.0, 2.0], [0.0, 0.0, 0.0], [5.0]])
def test_gradients_of_cumprod_are_exact_at_zeros_to_second_order(x):
    check_grad(lambda t: t.cumprod(0), [ex.tensor(x)])


def test_gradient_of_cumprod_at_a_zero_by_hand():
    x = ex.tensor([2.0, 0.0, 4.0], dtype=ex.float64, requires_grad=True)
    x.cumprod(0).sum().backward()
    assert x.grad.tolist() == [1, 2 + 2 * 4, 0]


def test_long_recurrences_agree_with_a_loop():
    rng = np.random.default_rng(0)
    x = ex.tensor(rng.uniform(0.5, 1.5, size=(100, 3)), requires_grad=True)
    g = rng.normal(size=(100, 3))
    x.cumprod(0).backward(ex.tensor(g))
    y = np.cumprod(x.detach().numpy(), 0)
    expected = np.cumsum((g * y)[::-1], 0)[::-1] / x.detach().numpy()
    assert x.grad.numpy() == pytest.approx(expected)
    assert x.grad.is_contiguous()


def test_cummax_names_the_last_of_equals_and_keeps_nan():
    found = ex.tensor([1.0, 3.0, 3.0, 2.0, 3.0]).cummax(0)
    assert found.values.tolist() == [1, 3, 3, 3, 3]
    assert found.indices.tolist() == [0, 1, 2, 2, 4]
    found = ex.tensor([1.0, NAN, 3.0, 2.0]).cummin(0)
    assert found.values.isnan().tolist() == [False, True, True, True]
    assert found.indices.tolist() == [0, 1, 1, 1]


def test_gradient_of_cummax_adds_up_where_the_maximum_was():
    x = ex.tensor([1.0, 3.0, 2.0], requires_grad=True)
    x.cummax(0).values.sum().backward()
    assert x.grad.tolist() == [1, 2, 0]


def test_logcumsumexp_neither_overflows_nor_turns_infinities_into_nan():
    x = ex.tensor([1000.0, 1000.0, -1000.0], dtype=ex.float64)
    assert x.logcumsumexp(0).tolist() == pytest.approx([1000, 1000 + math.log(2), 1000 + math.log(2)])
    check_grad(lambda t: t.logcumsumexp(0), [x])
    assert ex.tensor([-INF, -INF, 0.0]).logcumsumexp(0).tolist() == [-INF, -INF, 0]
    y = ex.tensor([-INF, -INF, 0.0, INF], requires_grad=True)
    y.logcumsumexp(0)[2].backward()
    assert y.grad[:3].tolist() == [0, 0, 1]


def test_gradient_of_logcumsumexp_keeps_its_precision_at_large_inputs():
    x = np.array([1e4, 1e4 - 3.0, 1e4 + 2.0, 1e4 - 1.0])
    results = []
    for dtype in (ex.float32, ex.float64):
        t = ex.tensor(x, dtype=dtype, requires_grad=True)
        (t.logcumsumexp(0) * ex.tensor([1.0, -2.0, 3.0, 0.5], dtype=dtype)).sum().backward()
        results.append(t.grad.tolist())
    assert results[0] == pytest.approx(results[1], rel=2e-3)


@pytest.mark.parametrize("dtype", [ex.float16, ex.bfloat16])
def test_half_precision_accumulates_in_float32(dtype):
    x = ex.ones(5000, dtype=dtype)
    assert x.cumsum(0)[-1].item() == ex.tensor(5000.0).to(dtype).item()
    assert x.cumsum(0).dtype is dtype
