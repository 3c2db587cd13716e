"""Corners where memory could be shared, a mode could leak, or a gradient could be lost."""

from __future__ import annotations

import operator

import greenlet
import numpy as np
import pytest

import extempo as ex
from extempo.nn import functional as F


def test_repeat_never_shares_memory_with_its_input():
    a = ex.zeros(1, 4)
    h = a.repeat(3, 1)
    h[1] = 7.0
    np.testing.assert_array_equal(h.numpy()[:, 0], [0, 7, 0])
    assert not a.any()


def test_the_array_handed_out_is_not_the_tensors_own_object():
    x = ex.arange(6.0)
    n = x.numpy()
    n.resize((2, 3))
    n.flags.writeable = False
    x.add_(1)
    assert n[0, 0] == 1  # the memory is shared all the same
    assert (x + ex.zeros(6)).shape == (6,)
    masked = ex.from_numpy(np.ma.array([1.0, 2.0], mask=[True, False]))
    assert type((masked * masked).numpy()) is np.ndarray


def test_data_of_a_computed_tensor_can_be_replaced_without_cutting_the_graph():
    x = ex.ones(2, requires_grad=True)
    y = x * 2
    y.data = ex.zeros(2)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [2, 2])


def test_float16_times_a_large_number_is_computed_wide():
    x = ex.tensor([0.5, 1e-3], dtype=ex.float16, requires_grad=True)
    y = x * 65536.0
    np.testing.assert_array_equal(y.detach().numpy(), np.float16([32768, 65.56]))
    assert y.dtype is ex.float16
    y.sum().backward()
    assert (x / 1e5).detach().numpy()[0] > 0


@pytest.mark.parametrize("d", [ex.float16, ex.bfloat16])
def test_short_paths_keep_half_precision(d):
    x = ex.tensor([1.0, 2.0, 0.3], dtype=d)
    for y in (F.gelu(x), F.silu(x), x.sigmoid(), x * x, x + 1.5):
        assert y.numpy().dtype == d.numpy


def test_the_gradient_of_a_maximum_goes_to_the_nan():
    x = ex.tensor([1.0, float("nan"), 2.0], requires_grad=True)
    ex.amax(x).backward()
    np.testing.assert_array_equal(x.grad.numpy(), [0, 1, 0])


def test_atan2_at_the_origin_has_no_gradient():
    a, b = ex.zeros(1, requires_grad=True), ex.zeros(1, requires_grad=True)
    ex.atan2(a, b).backward()
    assert a.grad.item() == b.grad.item() == 0


def test_inference_mode_false_records_again():
    with ex.inference_mode(), ex.inference_mode(False):
        assert ex.is_grad_enabled()


def test_out_is_allowed_where_nothing_is_recorded():
    x = ex.ones(2, requires_grad=True)
    with ex.no_grad():
        ex.mul(x, 3.0, out=x)
    np.testing.assert_array_equal(x.detach().numpy(), [3, 3])


def test_detaching_a_leaf_in_place_keeps_its_gradient():
    x = ex.ones(2, requires_grad=True)
    x.sum().backward()
    x.detach_()
    assert not x.requires_grad
    np.testing.assert_array_equal(x.grad.numpy(), [1, 1])


def test_an_operator_may_be_the_first_frame():
    x = ex.ones(2, requires_grad=True)
    assert greenlet.greenlet(operator.mul).switch(x, x).requires_grad


def test_exact_comparison_tells_large_integers_apart():
    with pytest.raises(AssertionError, match="1 of 1"):
        ex.testing.assert_close(ex.tensor([2**53]), ex.tensor([2**53 + 1]))
