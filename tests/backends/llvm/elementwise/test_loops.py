"""The loops of elementwise kernels: rows and columns of any size, each way that an input runs along a row."""

import itertools

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from extempo.backends.llvm.elementwise.loops import (
    LANES,
    LONG,
    VERY_LONG,
    WIDE,
    WIDEST,
    lanes_for,
    lanes_of,
    probed,
    supported,
)
from extempo.backends.llvm.ir.types import f32, i1, vector
from extempo.core.types import bool_, float16, float32, int64

from ..lane_kernels import Kernel

SIZES = [0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 65]


def short(e, values):
    return [e.add(e.mul(values[0], values[1]), values[2])]


def long(e, values):
    """More lines than are written twice; the extra ones cancel."""
    x, y, z = values
    for _ in range(LONG):
        x = e.neg(x)
    return [e.add(e.mul(x, y), z)]


def operand(kind, rows, columns, rng):
    """An input that runs along rows in that way."""
    if kind == "0":
        return np.array(rng.normal(), np.float32)
    step = 2 if kind == "s" else 1
    return rng.normal(size=(rows, step * columns)).astype(np.float32)[:, ::step]


@pytest.mark.parametrize("body", [short, long])
@pytest.mark.parametrize("kinds", ["111", "s11", "1s0", "0ss"])
def test_rows_of_every_length_and_layout_have_all_elements_and_no_others(body, kinds):
    kernel = Kernel(body, [np.float32] * 3, [np.float32], kinds)
    rng = np.random.default_rng(0)
    for shape in itertools.product((1, 3), SIZES):
        x, y, z = (operand(kind, *shape, rng) for kind in kinds)
        np.testing.assert_array_equal(kernel(x, y, z, shape=shape), np.broadcast_to(x * y + z, shape))


@pytest.mark.parametrize("n", SIZES)
def test_bools_are_bytes_in_memory_and_truths_in_registers(n):
    kernel = Kernel(lambda e, v: [e.logical_xor(v[0], v[1])], [np.bool_] * 2, [np.bool_])
    rng = np.random.default_rng(n)
    x, y = rng.random(n) < 0.5, rng.random(n) < 0.5
    np.testing.assert_array_equal(kernel(x, y), x ^ y)


def test_several_results_of_several_dtypes():
    kernel = Kernel(lambda e, v: [e.neg(v[0]), e.lt(v[0], v[1])], [np.int64] * 2, [np.int64, np.bool_])
    x, y = np.arange(-5, 6), np.arange(11) % 3
    negated, less = kernel(x, y)
    np.testing.assert_array_equal(negated, -x)
    np.testing.assert_array_equal(less, x < y)


def test_long_code_is_told_from_short_and_code_that_may_refuse_is_never_long():
    def refusing(e, values):
        e.refuse_where(e.lt(values[0], values[1]))
        return long(e, values)

    types = [float32] * 3
    assert not probed(short, types).is_long
    assert probed(long, types).is_long
    assert not probed(refusing, types).is_long


def test_long_code_is_done_on_more_lanes_unless_lanes_are_done_one_by_one():
    def very_long(e, values):
        x = values[0]
        for _ in range(VERY_LONG):
            x = e.neg(x)
        return [x]

    types = [float32] * 3
    assert lanes_for(probed(short, types), types, "111") == WIDE
    assert lanes_for(probed(very_long, types), types, "101") == WIDEST
    assert lanes_for(probed(very_long, types), types, "1s1") == LANES
    assert lanes_for(probed(very_long, types), [*types, int64], "1111") == LANES
    assert lanes_for(probed(very_long, types), [*types, int64], "1110") == WIDEST
    assert lanes_for(probed(lambda e, v: [e.lgamma(v[0])], types), types, "111") == LANES


def test_dtypes_that_lanes_know():
    assert supported(int64)
    assert supported(bool_)
    assert not supported(float16)
    assert lanes_of(float32, 8) is vector(f32, 8)
    assert lanes_of(bool_, 16) is vector(i1, 16)
