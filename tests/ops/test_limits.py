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


def test_functions_that_are_defined_by_their_limits_have_them():
    x = ex.tensor([0.0, 0.5], requires_grad=True)
    assert ex.sinc(x)[0].item() == 1.0
    assert values(ex.autograd.grad(ex.sinc(x).sum(), x)[0])[0] == 0.0
    assert values(ex.special.entr(ex.tensor([0.0, 1.0, -1.0]))) == [0.0, 0.0, -math.inf]


def test_xlog1py_is_zero_where_the_factor_is_also_at_minus_one():
    y = ex.tensor([-1.0, 1.0], requires_grad=True)
    product = ex.special.xlog1py(0.0, y)
    assert values(product) == [0.0, 0.0]
    assert math.isnan(ex.special.xlog1py(ex.tensor(0.0), math.nan).item())
