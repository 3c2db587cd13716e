"""Layouts without memory: where views of traced values are, and what strides say."""

from __future__ import annotations

import numpy as np
import pytest

from extempo.core.layout import is_contiguous
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
