"""Gamma functions: orders, gradients, values in closed form."""

from __future__ import annotations

import math

import pytest

import extempo as ex
from extempo import special
from extempo.errors import DtypeError, NotDifferentiableError, ShapeError

from .helpers import values


def test_values_known_in_closed_form():
    x = ex.tensor([0.5, 1.0, 4.0], dtype=ex.float64)
    assert values(special.gammaln(x)) == pytest.approx([math.lgamma(v) for v in (0.5, 1.0, 4.0)])
    assert values(special.erf(x)) == pytest.approx([math.erf(v) for v in (0.5, 1.0, 4.0)])
    assert special.digamma(ex.tensor(1.0, dtype=ex.float64)).item() == pytest.approx(-0.5772156649015329)
    assert special.zeta(2.0, ex.tensor(1.0, dtype=ex.float64)).item() == pytest.approx(math.pi**2 / 6)
    assert special.polygamma(1, ex.tensor(1.0, dtype=ex.float64)).item() == pytest.approx(math.pi**2 / 6)
    assert values(special.gammainc(ex.tensor(1.0), x.float())) == pytest.approx([1 - math.exp(-v) for v in (0.5, 1, 4)])


def test_the_incomplete_gamma_function_refuses_only_the_gradient_it_lacks():
    a = ex.tensor([2.0], requires_grad=True)
    x = ex.tensor([1.0], requires_grad=True)
    (into_x,) = ex.autograd.grad(ex.igamma(a, x).sum(), x)
    assert values(into_x) == pytest.approx([math.exp(-1.0)])
    with pytest.raises(NotDifferentiableError, match="first argument"):
        ex.igamma(a, x).sum().backward()


def test_derivatives_of_derivatives_of_lgamma_are_polygammas():
    x = ex.tensor([1.5], dtype=ex.float64, requires_grad=True)
    (first,) = ex.autograd.grad(ex.lgamma(x).sum(), x, create_graph=True)
    (second,) = ex.autograd.grad(first.sum(), x, create_graph=True)
    (third,) = ex.autograd.grad(second.sum(), x)
    for order, found in enumerate((first, second, third)):
        assert values(found) == pytest.approx(values(ex.polygamma(order, x)))


def test_orders_and_dimensions_are_checked():
    with pytest.raises(DtypeError, match="must not be negative"):
        ex.polygamma(-1, ex.ones(1))
    with pytest.raises(ShapeError, match="at least 1"):
        ex.mvlgamma(ex.ones(1), 0)
    assert ex.mvlgamma(ex.tensor([3.0]), 1).item() == pytest.approx(math.lgamma(3.0))
