"""Layouts without memory: where views of traced values are, and what strides say."""

from __future__ import annotations

import numpy as np
import pytest

import extempo.ops  # noqa: F401 - its ops are in the registry
from extempo.core.layout import exact_strides, is_contiguous, order_of, view_of
from extempo.core.op import REGISTRY
from extempo.core.types import TensorType, float32


def type_of(x):
    return TensorType(x.shape, float32)


def views():
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    yield from (x, x.T, x[:, 1:], x[:, :, ::2], x[0], x[:, 0], x[..., 1], x.transpose(0, 2, 1), x[:, :1], x[:1])
    yield np.broadcast_to(x[:, :1], x.shape)
    yield np.broadcast_to(x[0, 0, 0], (3, 4))
    yield x[:, :0]


@pytest.mark.parametrize("x", list(views()))
def test_order_in_memory(x):
    assert is_contiguous(type_of(x), x.strides) == x.flags.c_contiguous


MATRIX = np.arange(24, dtype=np.float32).reshape(4, 6)
MATRICES = [MATRIX, MATRIX.T, MATRIX[1:, ::2], MATRIX[::-1], np.broadcast_to(MATRIX[0], (3, 6)), MATRIX[:, :1]]


@pytest.mark.parametrize("x", MATRICES)
@pytest.mark.parametrize(
    ("name", "numbers", "attrs"),
    [
        ("permute", [], {"dims": (1, 0)}),
        ("slice", [1], {"spec": ((1, 1),)}),
        ("slice", [1], {"spec": ("i", None, ":")}),
    ],
)
def test_a_view_has_the_strides_and_the_offset_that_numpy_gives_it(x, name, numbers, attrs):
    strides = None if x.flags.c_contiguous else x.strides
    made = view_of(REGISTRY[name], attrs, type_of(x), strides, numbers, None)
    expected = REGISTRY[name].numpy(x, *numbers, **attrs)
    offset = expected.__array_interface__["data"][0] - x.__array_interface__["data"][0]
    assert (made.strides, made.offset, made.starts) == (expected.strides, offset, ())


def test_a_reshape_across_strides_is_no_view():
    t, reshape = TensorType((2, 3), float32), REGISTRY["reshape"]
    assert view_of(reshape, {"shape": (6,)}, t, (4, 8), [], None) is None
    assert view_of(reshape, {"shape": (6,)}, t, None, [], None).strides == (4,)


def test_starts_that_may_change_move_a_slice_by_strides():
    t = TensorType((5, 4), float32)
    made = view_of(REGISTRY["slice"], {"spec": ("i", (2, 1))}, t, None, [3, 1], first_number=7)
    assert made.offset == 0
    assert made.starts == ((7, 16, 4), (8, 4, 2))  # number, bytes for one, the largest that is inside
    empty = view_of(REGISTRY["slice"], {"spec": ((0, 1),)}, t, None, [3], first_number=7)
    assert empty.starts == ()


def test_exact_strides_are_told_where_they_are_not_those_of_a_new_array():
    assert exact_strides(np.empty((2, 3))) is None
    assert exact_strides(np.empty((3, 2)).T) == (8, 16)
    single = np.empty((2, 3, 2))[:, :, :1][:1]
    assert exact_strides(single) == single.strides
    as_new = np.lib.stride_tricks.as_strided(np.empty(1), (3, 0, 2), (16, 16, 8))
    assert exact_strides(as_new) is None  # as the native backend makes it
    assert exact_strides(np.lib.stride_tricks.as_strided(np.empty(1), (3, 0, 2), (0, 0, 0))) == (0, 0, 0)


def test_a_result_keeps_the_order_of_its_operands():
    t = TensorType((2, 3), float32)
    assert order_of(t, [(t, None), (t, None)]) is None
    assert order_of(t, [(t, (4, 8)), (t, None)]) == (1, 0)
    assert order_of(t, [(t, None), (t, (4, 8))]) is None
