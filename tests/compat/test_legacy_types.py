"""Tensor types from the time when a dtype was a class."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.errors import (
    DtypeError,
)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("FloatTensor", ex.float32),
        ("DoubleTensor", ex.float64),
        ("HalfTensor", ex.float16),
        ("BFloat16Tensor", ex.bfloat16),
        ("LongTensor", ex.int64),
        ("IntTensor", ex.int32),
        ("ShortTensor", ex.int16),
        ("CharTensor", ex.int8),
        ("ByteTensor", ex.uint8),
        ("BoolTensor", ex.bool),
    ],
)
def test_tensor_types_make_and_recognise_tensors(name, dtype):
    kind = getattr(ex, name)
    made = kind([0, 1])
    assert made.dtype is dtype
    assert isinstance(made, kind)
    assert isinstance(made, ex.Tensor)
    assert not isinstance(ex.zeros(1, dtype=ex.int8 if dtype is ex.uint8 else ex.uint8), kind)
    assert not isinstance(made.numpy(), kind)
    assert kind(2, 3).shape == (2, 3)
    assert made.type() == f"extempo.{name}"
    assert kind.dtype is dtype
    assert repr(kind) == f"<class 'extempo.{name}'>"
    with pytest.raises(DtypeError, match="expected a tensor of"):
        kind(ex.zeros(2, dtype=ex.int8 if dtype is ex.uint8 else ex.uint8))
