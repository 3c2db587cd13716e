"""Where the largest and smallest elements are: native searches against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

from extempo.backends.llvm.routines import extremes

from ..guarded import call
from .oracle import FLOATS, draw


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", ["argmax", "argmin"])
def test_the_first_of_equal_extremes_is_found(op, dtype):
    rng = np.random.default_rng(0)
    for n in (*range(1, 40), 100, 1000):
        for shape, dim in [((3, n), 1), ((n, 3), 0), ((2, n, 9), 1)]:
            x = rng.integers(0, 4, size=shape).astype(dtype)
            expected = getattr(np, op)(x, axis=dim)
            (found,) = call(op, x, dim=(dim,), keepdim=False)
            np.testing.assert_array_equal(found, expected)
            values, found = call(op[3:] + "_with_index", x, dim=(dim,), keepdim=True)
            np.testing.assert_array_equal(found, np.expand_dims(expected, dim))
            np.testing.assert_array_equal(values, np.take_along_axis(x, found, dim))


@pytest.mark.parametrize("op", ["argmax", "argmin"])
def test_the_first_nan_is_the_extreme(op):
    for place in (0, 3, 8, 12, 29):
        x = draw((30, 2))
        x[place, 0] = x[29, 0] = np.nan
        x[5, 1] = np.inf if op == "argmax" else -np.inf
        for array, dim in ((x, 0), (x.T.copy(), 1)):
            (found,) = call(op, array, dim=(dim,), keepdim=False)
            np.testing.assert_array_equal(found, [place, 5])


def test_extremes_of_infinities_only():
    for fill in (np.inf, -np.inf):
        for n in (1, 5, 8, 11):
            (found,) = call("argmax", np.full((2, n), fill, np.float32), dim=(1,), keepdim=False)
            np.testing.assert_array_equal(found, [0, 0])


def test_a_scalar_is_its_own_extreme():
    (found,) = call("argmax", np.array(3.0, np.float32), dim=(), keepdim=False)
    assert found.shape == ()
    assert found == 0


def test_large_searches_are_split_over_rows():
    x = draw((4 * extremes.PART_WORK // 1000, 1000))
    (found,) = call("argmax", x, dim=(1,), keepdim=False)
    np.testing.assert_array_equal(found, x.argmax(1))
