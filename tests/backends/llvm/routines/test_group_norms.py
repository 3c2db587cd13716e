"""Native standardization with several weights a row (group norm, instance norm) against NumPy in float64."""

from __future__ import annotations

import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")


from .oracle import FLOATS, check, draw

GROUPS = [  # rows with a weight for each stretch: group norm, instance norm, one channel
    ((5, 2, 3, 7), (2, 3), (2, 3, 1)),
    ((3, 4, 2, 16), (2, 3), (4, 2, 1)),
    ((70, 1, 3, 9), (2, 3), (1, 3, 1)),
    ((3, 4, 5, 6), (2, 3), (4, 1, 1)),
    ((3, 4, 20), (1, 2), (4, 1)),
    ((3, 1, 20), (2,), (1, 1)),
]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("shape", "dims", "weights"), GROUPS)
def test_weights_of_stretches_of_rows(shape, dims, weights, dtype):
    x, g = draw(shape, dtype) + 2, draw(shape, dtype, 1)
    given = draw(weights, dtype, 2), draw(weights, dtype, 3)
    attrs = {"dims": dims, "centred": True}
    for weight, bias in (given, (given[0], None), (None, given[1])):
        _, mean, variance = check("standardize", x, weight, bias, 0.1, near=10, **attrs)
        if weight is not None:
            check("standardize_backward", g, x, mean, variance, weight, 0.1, near=30, **attrs)
