"""Strides are NumPy's, those of size-1 dimensions included."""

from __future__ import annotations

import numpy as np
import pytest

from extempo.core.types import TensorType, float32
from extempo.scheduling.layout import reshaped_strides, row_major, slice_region, view_layout

SHAPES = [(), (3,), (2, 3), (1, 4), (4, 1), (2, 1, 3), (2, 3, 4)]


def array_of(shape):
    return np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)


def type_of(x):
    return TensorType(x.shape, float32)


@pytest.mark.parametrize("shape", SHAPES)
def test_new_arrays(shape):
    assert row_major(TensorType(shape, float32)) == np.empty(shape, np.float32).strides


def views():
    x = array_of((2, 3, 4))
    yield from (x, x.T, x[:, 1:], x[:, :, ::2], x[0], x[:, 0], x[..., 1], x.transpose(0, 2, 1), x[:, :1], x[:1])
    yield np.broadcast_to(x[:, :1], x.shape)
    yield np.broadcast_to(x[0, 0, 0], (3, 4))


@pytest.mark.parametrize("x", list(views()))
@pytest.mark.parametrize("shape", [(-1,), (2, -1), (1, -1, 1), (-1, 2), (2, 1, -1), (2, 2, -1), (-1, 1, 1), None])
def test_reshaping(x, shape):
    shape = x.shape if shape is None else shape
    if x.size % abs(np.prod(shape)):
        return
    result = TensorType(x.reshape(shape).shape, float32)
    strides = reshaped_strides(type_of(x), x.strides, result)
    reshaped = x.reshape(shape)
    if not np.may_share_memory(reshaped, x):
        assert strides is None
    else:
        assert strides == reshaped.strides


@pytest.mark.parametrize(
    ("spec", "starts"),
    [(("i",), (1,)), ((":", (2, 1)), (1,)), (((1, 1), None, "i"), (1, 2)), ((":", ":", (2, 2)), (1,)), ((), ())],
)
def test_slices(spec, starts):
    x = array_of((2, 3, 4))
    indices, rest = [], list(starts)
    for entry in spec:
        if entry is None or entry == ":":
            indices.append(None if entry is None else slice(None))
        elif entry == "i":
            indices.append(rest.pop(0))
        else:
            first = rest.pop(0)
            indices.append(slice(first, first + entry[0] * entry[1], entry[1]))
    seen = x[(*indices, ...)]
    offset = seen.__array_interface__["data"][0] - x.__array_interface__["data"][0]
    made = view_layout("slice", type_of(x), x.strides, {"spec": spec}, type_of(seen), starts)
    assert made == (seen.strides, offset)
    region = slice_region(type_of(x), spec, type_of(seen), starts, ())
    assert (region.strides, region.offset) == (seen.strides, offset)
    if region.dim >= 0:
        part = np.take(x, range(region.first, region.end), region.dim)
        assert sorted(part.ravel()) == sorted(seen.ravel())
