"""Native standardization (layer, batch, group and root-mean-square norm) against NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

from extempo.backends.llvm.routines import standardize

from ..guarded import bind, call
from .oracle import FLOATS, check, draw

# ---- norms

NORMS = [  # shape, dims, shape of the weights
    *[((5, n), (1,), (n,)) for n in (*range(1, 20), 64, 70, 1000)],
    ((7, 4, 33), (1, 2), (4, 33)),
    ((130, 9), (1,), (9,)),
    ((70, 33), (0,), (33,)),
    ((2, 8), (0,), (8,)),
    ((3, 70, 5), (0, 2), (70, 1)),
    ((10, 3, 4, 10), (0, 2, 3), (3, 1, 1)),
    ((4, 3, 1), (0, 2), (3, 1)),
]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize(("shape", "dims", "weights"), NORMS)
def test_standardize_and_its_gradients_in_every_layout(shape, dims, weights, centred, dtype):
    x, g = draw(shape, dtype) + 2, draw(shape, dtype, 1)
    given = draw(weights, dtype, 2), draw(weights, dtype, 3)
    attrs = {"dims": dims, "centred": centred}
    for weight, bias in (given, (None, None), (given[0], None), (None, given[1])):
        _, mean, variance = check("standardize", x, weight, bias, 0.1, near=10, **attrs)
        check("standardize_backward", g, x, mean, variance, weight, 0.1, near=30, **attrs)


def test_weights_that_lie_otherwise_are_left_to_numpy():
    x = draw((2, 3, 4, 5))
    attrs = {"dims": (2, 3), "centred": True}
    for weight, bias in ((draw((2, 1, 1, 1)), None), (draw((5,)), None), (draw((4, 5)), draw((3, 1, 1)))):
        assert bind("standardize", (x, weight, bias, 1e-5), attrs) is None
    assert bind("standardize", (x, draw((3, 1, 1)), None, 1e-5), {"dims": (0, 3), "centred": True}) is None


def test_the_gradient_of_many_rows_is_joined_from_groups():
    attrs = {"dims": (1,), "centred": True}
    for n_rows in (standardize.LEAST_ROWS + 1, standardize.LEAST_ROWS * standardize.MOST_GROUPS + 3):
        x, g, weight = draw((n_rows, 20)), draw((n_rows, 20), seed=1), draw(20)
        _, mean, variance = call("standardize", x, weight, None, 1e-5, **attrs)
        check("standardize_backward", g, x, mean, variance, weight, 1e-5, near=100, **attrs)


def test_a_large_mean_does_not_spoil_the_variance():
    x = draw((4, 1000)) + np.float32(3000)
    _, _, variance = call("standardize", x, None, None, 1e-5, dims=(1,), centred=True)
    np.testing.assert_allclose(variance[:, 0], x.astype(np.float64).var(1), rtol=1e-5)
