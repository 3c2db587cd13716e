"""Sums, straight lines and signs."""

from __future__ import annotations

import math

import pytest

import extempo as ex

from .helpers import values


def test_lerp_meets_both_ends_exactly():
    a, b = ex.tensor([0.1, 1e8]), ex.tensor([0.7, 3.0])
    assert values(ex.lerp(a, b, 0.0)) == values(a)
    assert values(ex.lerp(a, b, 1.0)) == values(b)


def test_angle_of_negative_numbers_is_pi():
    assert values(ex.angle(ex.tensor([-2, 0, 3]))) == pytest.approx([math.pi, 0.0, 0.0])
    assert math.isnan(values(ex.angle(ex.tensor([math.nan])))[0])


def test_sums_with_alpha_have_the_dtype_of_sums_without():
    truth, small, half = ex.tensor([True, False]), ex.tensor([1, 2], dtype=ex.int8), ex.tensor([0.5, 1.0]).half()
    assert values(ex.add(truth, truth, alpha=3)) == [True, False]
    assert ex.add(truth, truth, alpha=3).dtype is ex.bool
    assert ex.add(small, truth, alpha=2).dtype is ex.int8
    assert ex.add(half, small, alpha=0.5).dtype is ex.float16
    assert ex.sub(half, small, alpha=0.5).dtype is ex.float16


def test_the_real_part_is_the_tensor_and_can_be_assigned():
    x = ex.tensor([1.0, 2.0])
    assert x.real is x
    x.real = ex.tensor([3.0, 4.0])
    assert x.tolist() == [3.0, 4.0]
    with pytest.raises(AttributeError, match=r"Tensor\.imag: complex numbers"):
        x.imag  # noqa: B018 - reading it is the test
