"""Tensors made from sizes and ranges."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.errors import DtypeError, ShapeError, UnsupportedError


def test_sizes_are_given_as_numbers_as_a_tuple_or_by_name():
    for made in (ex.zeros(2, 3), ex.zeros((2, 3)), ex.zeros([2, 3]), ex.zeros(size=(2, 3)), ex.zeros(ex.Size([2, 3]))):
        assert made.shape == (2, 3)
    assert ex.zeros(()).shape == ()
    assert ex.zeros(2, ex.tensor(3)).shape == (2, 3)
    assert ex.zeros(0, 3).numel() == 0
    for call, text in [
        (lambda: ex.zeros(), "expected a size"),
        (lambda: ex.zeros(2.5), "sizes must be ints"),
        (lambda: ex.zeros(2, size=(2,)), "given twice"),
        (lambda: ex.zeros(2, colour="red"), "unknown arguments colour"),
    ]:
        with pytest.raises(DtypeError, match=text):
            call()
    with pytest.raises(ShapeError, match="ones: sizes must not be negative"):
        ex.ones(2, -1)


def test_full_follows_the_value_unless_told_otherwise():
    assert ex.full((2,), True).dtype is ex.bool
    assert ex.full((2,), 3).dtype is ex.int64
    assert ex.full((2,), 3.0).dtype is ex.float32
    assert ex.full((2,), ex.tensor(3)).tolist() == [3, 3]
    assert ex.full((2,), 2.7, dtype=ex.int32).tolist() == [2, 2]
    assert ex.full((2,), -1, dtype=ex.uint8).tolist() == [255, 255]
    assert ex.full((1,), float("inf")).item() == float("inf")
    for value, dtype in [(300, ex.uint8), (1e5, ex.float16), (float("nan"), ex.int32)]:
        with pytest.raises(DtypeError, match="does not fit"):
            ex.full((2,), value, dtype=dtype)
    with pytest.raises(UnsupportedError, match="complex"):
        ex.full((2,), 1j)


def test_like_factories_follow_shape_dtype_and_memory_order():
    x = ex.zeros(2, 3, dtype=ex.float64).t()
    for make in (ex.zeros_like, ex.ones_like, ex.empty_like, ex.rand_like, ex.randn_like):
        made = make(x)
        assert (made.shape, made.dtype, made.stride()) == ((3, 2), ex.float64, (1, 3))
        assert make(x, memory_format=ex.contiguous_format).stride() == (2, 1)
        assert make(x, dtype=ex.float32).dtype is ex.float32
    assert ex.full_like(ex.zeros(2, dtype=ex.int64), 2.5).tolist() == [2, 2]
    assert ex.ones_like(x, requires_grad=True).requires_grad


def test_new_methods_take_the_dtype_of_their_tensor():
    x = ex.zeros(2, dtype=ex.int32)
    assert x.new_zeros(2, 3).dtype is ex.int32
    assert x.new_ones((2, 3), dtype=ex.float64).dtype is ex.float64
    assert x.new_full((2,), 3.5).tolist() == [3, 3]
    assert x.new_tensor([1.5]).tolist() == [1]
    assert x.new_empty(0).shape == (0,)
    assert x.new_empty_strided((2, 3), (1, 2)).stride() == (1, 2)
    assert x.new(2, 3).shape == (2, 3)
    assert x.new([1, 2]).dtype is ex.int32


def test_the_order_in_memory_can_be_chosen():
    assert ex.empty_strided((2, 3), (1, 2)).stride() == (1, 2)
    assert ex.empty_permuted((2, 3, 4), (2, 0, 1)).stride() == (3, 1, 6)
    assert ex.empty(2, 3, 4, 5, memory_format=ex.channels_last).stride() == (60, 1, 15, 3)
    assert ex.empty_strided((2, 0), (5, 1)).shape == (2, 0)
    with pytest.raises(ShapeError, match="one stride for each size"):
        ex.empty_strided((2, 3), (1,))
    with pytest.raises(ShapeError, match="must not be negative"):
        ex.empty_strided((2,), (-1,))
    with pytest.raises(ShapeError, match="does not name each"):
        ex.empty_permuted((2, 3), (0, 0))
    with pytest.raises(ShapeError, match="channels_last orders 4-dim tensors"):
        ex.empty(2, 3, memory_format=ex.channels_last)


def test_out_takes_the_result_and_its_shape():
    out = ex.zeros(1, dtype=ex.float64)
    assert ex.ones(2, 3, out=out) is out
    assert out.tolist() == [[1, 1, 1]] * 2
    assert ex.arange(3, out=ex.zeros(3)).dtype is ex.float32
    assert ex.eye(2, out=out).dtype is ex.float64


def test_scalar_tensor_is_floating_unless_told_otherwise():
    assert ex.scalar_tensor(3).dtype is ex.float32
    assert ex.scalar_tensor(3, dtype=ex.int64).item() == 3
    assert ex.scalar_tensor(3).shape == ()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((5,), [0, 1, 2, 3, 4]),
        ((2, 5), [2, 3, 4]),
        ((0, -5, -2), [0, -2, -4]),
        ((0,), []),
        ((2**53, 2**53 + 3), [2**53, 2**53 + 1, 2**53 + 2]),
        ((True,), [0]),
    ],
)
def test_arange_of_integers_is_exact(arguments, expected):
    made = ex.arange(*arguments)
    assert made.dtype is ex.int64
    assert made.tolist() == expected


def test_arange_of_floats_stops_before_the_end():
    assert ex.arange(0, 1, 0.1).shape == (10,)
    assert ex.arange(1.0, 2.0, 0.3, dtype=ex.float64).tolist() == pytest.approx([1.0, 1.3, 1.6, 1.9])
    assert ex.arange(ex.tensor(3.5)).tolist() == [0, 1, 2, 3]
    assert ex.arange(start=1, end=3).tolist() == [1, 2]
    assert ex.arange(end=2).tolist() == [0, 1]
    assert ex.arange(5, dtype=ex.float16).dtype is ex.float16


@pytest.mark.parametrize("arguments", [(0, 5, 0), (5, 0), (float("nan"),), (0, float("inf"))])
def test_a_range_without_an_end_is_refused(arguments):
    with pytest.raises(ShapeError, match="arange"):
        ex.arange(*arguments)


def test_linspace_reaches_both_ends_exactly():
    for steps in (2, 3, 7, 50):
        made = ex.linspace(0.1, 0.7, steps, dtype=ex.float64)
        assert (made[0].item(), made[-1].item()) == (0.1, 0.7)
        np.testing.assert_allclose(made.numpy(), np.linspace(0.1, 0.7, steps), rtol=1e-14)
    assert ex.linspace(0, 1, 0).shape == (0,)
    assert ex.linspace(3, 9, 1).tolist() == [3]
    assert ex.linspace(0, 10, 4, dtype=ex.int64).tolist() == [0, 3, 6, 10]
    assert ex.linspace(ex.tensor(0.0), ex.tensor(1.0), 3).tolist() == [0, 0.5, 1]
    with pytest.raises(ShapeError, match="must not be negative"):
        ex.linspace(0, 1, -1)
    with pytest.raises(ShapeError, match="0-dim tensor"):
        ex.linspace(ex.tensor([0.0]), 1, 3)


def test_logspace_is_a_power_of_linspace():
    assert ex.logspace(0, 2, 3).tolist() == [1, 10, 100]
    assert ex.logspace(0, 2, 3, base=2, dtype=ex.int64).tolist() == [1, 2, 4]


def test_eye_has_ones_on_its_diagonal():
    assert ex.eye(2, 3).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert ex.eye(2, dtype=ex.bool).tolist() == [[True, False], [False, True]]
    assert ex.eye(0).shape == (0, 0)


@pytest.mark.parametrize(
    ("bounds", "whole", "long"),
    [
        ((0.5, 5.5, 1), [0, 1, 2, 3, 4], [0, 1, 2, 3, 4]),
        ((1.1, 1.1, -1), [], []),
        ((5.5, 1, -1), [5, 4, 3, 2, 1], [5, 4, 3, 2]),
        ((0, 3, 1.5), [0, 1], [0, 1, 2]),
        ((1, 2, 0.5), [1, 1], None),
    ],
)
def test_arange_of_integers_counts_by_the_numbers_given(bounds, whole, long):
    for d in (ex.int8, ex.uint8, ex.int16, ex.int32):
        assert ex.arange(*bounds, dtype=d).tolist() == whole
    if long is None:
        with pytest.raises(ShapeError, match="step must not be 0"):
            ex.arange(*bounds, dtype=ex.int64)
    else:  # in int64 the whole parts count from the start
        assert ex.arange(*bounds, dtype=ex.int64).tolist() == long


def test_logspace_of_one_integer_is_the_power_of_start_as_given():
    assert ex.logspace(2.9, 0, 1, base=2.0, dtype=ex.int32).tolist() == [7]
    assert ex.logspace(2.9, 0, 2, base=2.0, dtype=ex.int32).tolist() == [4, 1]
