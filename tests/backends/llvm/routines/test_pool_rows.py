"""Native pooling row by row, forward."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")


from ..guarded import call
from .oracle import FLOATS
from .pools import check_avg, check_max, geometry


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", range(2, 40))
def test_rows_of_any_length_are_pooled_by_two(size, dtype):
    x = np.random.default_rng(size).normal(size=(3, 5, size)).astype(dtype)
    attrs = geometry((5, size), 2, 2)
    check_max(x, attrs)
    check_avg(x, attrs, True, None)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("kernel", "stride", "padding"), [(2, 2, 0), (3, 1, 1), (3, 2, 1), (3, 3, 0), (5, 4, 2)])
def test_nan_and_infinities_are_treated_as_in_numpy(kernel, stride, padding, dtype):
    rng = np.random.default_rng(0)
    for value in (np.nan, -np.inf, np.inf):
        for share in (0.05, 0.5, 1.0):
            x = rng.normal(size=(4, 13, 21)).astype(dtype)
            x[rng.random(x.shape) < share] = value
            check_max(x, geometry((13, 21), kernel, stride, padding))
            check_max(x[..., :9], geometry((13, 9), kernel, stride, padding))


def test_the_first_of_equal_maxima_is_named():
    values, indices = call("max_pool", np.ones((1, 4, 20), np.float32), **geometry((4, 20), 2, 2))
    assert (values == 1).all()
    assert indices[0].tolist() == [[2 * c + 40 * r for c in range(10)] for r in range(2)]


def test_a_mean_counts_padding_only_where_it_is_asked_to():
    x = np.ones((1, 1, 9), np.float32)
    attrs = {k: v for k, v in geometry((1, 9), (1, 3), (1, 1), (0, 1)).items() if k != "dilation"}
    (without,) = call("avg_pool", x, None, **attrs, include_pad=False)
    (counted,) = call("avg_pool", x, None, **attrs, include_pad=True)
    assert (without == 1).all()
    np.testing.assert_allclose(counted[0, 0, [0, 4, 8]], [2 / 3, 1, 2 / 3], rtol=1e-6)
