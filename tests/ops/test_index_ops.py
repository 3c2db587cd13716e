"""Gradients of indexing: repeated elements, values that are overwritten, half precision."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex

from .index_keys import KEYS, as_numpy, as_ours


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_the_gradient_of_reading_counts_repeated_elements(key):
    x = ex.tensor(np.zeros((3, 4, 2)), requires_grad=True)
    seen = x[as_ours(key)]
    weights = np.arange(1.0, seen.numel() + 1).reshape(seen.shape)
    (g,) = ex.autograd.grad((seen * ex.tensor(weights)).sum(), x)
    places = np.arange(24).reshape(3, 4, 2)[as_numpy(key)]
    expected = np.bincount(places.reshape(-1), weights.reshape(-1), minlength=24).reshape(3, 4, 2)
    np.testing.assert_array_equal(g.numpy(), expected)


@pytest.mark.parametrize("key", [k for k in KEYS.values() if k is not False], ids=[n for n in KEYS if n != "False"])
def test_the_gradient_of_writing_goes_to_the_values_and_not_to_what_they_replace(key):
    x = ex.ones(3, 4, 2, dtype=ex.float64, requires_grad=True)
    value = ex.tensor(2.0, dtype=ex.float64, requires_grad=True)
    weights = np.arange(1.0, 25.0).reshape(3, 4, 2)
    y = x * 1
    y[as_ours(key)] = value.expand(1, 1)[0, 0] if isinstance(key, int) else value
    gx, _ = ex.autograd.grad((y * ex.tensor(weights)).sum(), [x, value])
    kept = np.ones((3, 4, 2))
    kept[as_numpy(key)] = 0.0
    np.testing.assert_array_equal(gx.numpy(), weights * kept)


def test_of_values_written_to_one_place_only_the_last_gets_a_gradient():
    values = ex.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = ex.zeros(2, 3)
    y[:, [2, 0, 2]] = values
    (g,) = ex.autograd.grad((y * ex.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])).sum(), values)
    assert y[0].tolist() == [2.0, 0.0, 3.0]
    assert g.tolist() == [0.0, 5.0, 9.0]


def test_an_index_that_nothing_is_read_with_is_not_checked():
    x = ex.zeros(2, 3, requires_grad=True)
    empty = x[[], [7]]
    (g,) = ex.autograd.grad(empty.sum(), x)
    assert empty.shape == (0,)
    assert g.sum().item() == 0


def test_half_precision_adds_up_repeated_rows():
    for dtype in (ex.float16, ex.bfloat16):
        x = ex.zeros(3, 2, dtype=dtype, requires_grad=True)
        (g,) = ex.autograd.grad(x[[1, 1, 0]].sum(), x)
        assert g.dtype is dtype
        assert g.tolist() == [[1.0, 1.0], [2.0, 2.0], [0.0, 0.0]]
