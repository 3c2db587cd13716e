"""Division with a remainder on lanes: NumPy's signs, and no trap."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from extempo.core.op import REGISTRY

from ..lane_kernels import DTYPES, kernel_of


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod"])
@pytest.mark.parametrize("dtype", DTYPES["i"])
def test_integer_division_by_zero_is_refused_and_never_traps(name, dtype):
    kernel = kernel_of(REGISTRY[name], dtype)
    least = np.iinfo(dtype).min
    a = np.array([least, least, 7, -7, 7, -7, least, 1] * 2, dtype)
    b = np.array([-1, 3, 2, 2, -2, -2, least, 5] * 2, dtype)
    actual, refused = kernel(a, b)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(actual, REGISTRY[name].numpy(a, b))
    assert not refused.any()
    b[11] = 0
    assert kernel(a, b)[1].tolist() == [False] * 8 + [True] * 8
