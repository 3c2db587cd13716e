"""Functions that are defined by their limits."""

from __future__ import annotations

import math

import extempo as ex

from .helpers import values


def test_products_with_logarithms_are_zero_where_the_factor_is():
    zero = ex.tensor([0.0], requires_grad=True)
    y = ex.xlogy(zero, ex.tensor([0.0]))
    assert values(y) == [0.0]
    assert values(ex.autograd.grad(y.sum(), zero)[0]) == [0.0]
    assert math.isnan(ex.xlogy(ex.tensor(0.0), math.nan).item())
    assert values(ex.xlogy(2.0, ex.tensor([1.0]))) == [0.0]
