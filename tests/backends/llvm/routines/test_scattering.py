"""gather and scatter along one dimension, natively, against NumPy."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")


from ..guarded import call
from . import oracle
from .oracle import FLOATS, INDICES, expect, numbers

draw = partial(oracle.draw, scale=9)

ANY = [np.float32, np.float64, np.int64, np.int32, np.int16, np.bool_]


# ---- gather and scatter


def cases():
    """(shape of x, shape of the index, dim)"""
    yield (5,), (0,), 0
    yield (1,), (7,), 0
    for dim in (0, 1):
        yield (4, 5), (4, 5), dim
        yield (4, 5), (2, 3), dim
    yield (4, 5), (9, 5), 0
    yield (33, 10), (33, 1), 1
    for dim in (0, 1, 2):
        yield (3, 4, 5), (2, 4, 3), dim
        yield (3, 4, 5), (3, 1, 5), dim


@pytest.mark.parametrize("dtype", ANY)
@pytest.mark.parametrize("index", INDICES)
def test_gather_reads_any_layout(dtype, index):
    for shape, picked, dim in cases():
        at = numbers(0, shape[dim], picked, index)
        expect("gather", draw(shape, dtype), at, dim=dim)
        expect("gather", np.asfortranarray(draw(shape, dtype)), at, dim=dim)
        expect("gather", np.broadcast_to(draw(shape[-1:], dtype), shape), at, dim=dim)
        expect("gather", draw(shape, dtype), np.asfortranarray(at), dim=dim)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("index", INDICES)
def test_the_gradient_of_gather_adds_repeated_places_up_in_order(dtype, index):
    for shape, picked, dim in cases():
        at = numbers(0, shape[dim], picked, index)
        expect("gather_embed", draw(picked, dtype, 5), at, dim=dim, shape=shape)


@pytest.mark.parametrize("dtype", ANY)
def test_scatter_writes_tensors_and_numbers(dtype):
    number = 2.5 if np.issubdtype(dtype, np.floating) else 1
    for shape, picked, dim in cases():
        at = numbers(0, shape[dim], picked)
        for x in (draw(shape, dtype), np.asfortranarray(draw(shape, dtype))):
            expect("scatter", x, at, draw(picked, dtype, 5), dim=dim, accumulate=False)
            expect("scatter", x, at, number, dim=dim, accumulate=False)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("index", INDICES)
def test_scatter_adds_repeated_places_up_in_order(dtype, index):
    for shape, picked, dim in cases():
        at = numbers(0, shape[dim], picked, index)
        expect("scatter", draw(shape, dtype), at, draw(picked, dtype, 5), dim=dim, accumulate=True)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("reduce", ["prod", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
def test_scatter_reduce_combines_and_lets_nan_win(dtype, reduce, include_self):
    for shape, picked, dim in cases():
        at, src = numbers(0, shape[dim], picked), draw(picked, dtype, 5)
        if src.size:
            src.reshape(-1)[src.size // 2] = np.nan
        expect("scatter_reduce", draw(shape, dtype), at, src, dim=dim, reduce=reduce, include_self=include_self)


@pytest.mark.parametrize("wrong", [-1, 4])
def test_a_place_out_of_range_is_declined(wrong):
    x, at = draw((3, 4)), np.array([[0, wrong]])
    assert call("gather", x, at, dim=1) is None
    assert call("gather_embed", draw((1, 2)), at, dim=1, shape=(3, 4)) is None
    assert call("scatter", x, at, draw((1, 2)), dim=1, accumulate=True) is None
    assert call("scatter_reduce", x, at, draw((1, 2)), dim=1, reduce="prod", include_self=True) is None
