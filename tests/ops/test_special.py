"""Special functions: limits, dtypes, refusals, gradients that close under differentiation."""

from __future__ import annotations

import inspect
import math

import pytest

import extempo as ex
from extempo import special
from extempo.errors import DtypeError, NotDifferentiableError, ShapeError

from .helpers import values


def test_every_listed_function_exists_and_says_what_it_does():
    for name in special.__all__:
        assert inspect.getdoc(getattr(special, name)), name


def test_values_known_in_closed_form():
    x = ex.tensor([0.5, 1.0, 4.0], dtype=ex.float64)
    assert values(special.gammaln(x)) == pytest.approx([math.lgamma(v) for v in (0.5, 1.0, 4.0)])
    assert values(special.erf(x)) == pytest.approx([math.erf(v) for v in (0.5, 1.0, 4.0)])
    assert special.digamma(ex.tensor(1.0, dtype=ex.float64)).item() == pytest.approx(-0.5772156649015329)
    assert special.zeta(2.0, ex.tensor(1.0, dtype=ex.float64)).item() == pytest.approx(math.pi**2 / 6)
    assert special.polygamma(1, ex.tensor(1.0, dtype=ex.float64)).item() == pytest.approx(math.pi**2 / 6)
    assert values(special.gammainc(ex.tensor(1.0), x.float())) == pytest.approx([1 - math.exp(-v) for v in (0.5, 1, 4)])


def test_normal_distribution_functions_invert_each_other():
    p = ex.tensor([0.01, 0.5, 0.99], dtype=ex.float64)
    assert values(special.ndtr(special.ndtri(p))) == pytest.approx(values(p))
    assert special.log_ndtr(ex.tensor(-40.0, dtype=ex.float64)).item() == pytest.approx(-804.608442013754)


def test_products_with_logarithms_are_zero_where_the_factor_is():
    zero = ex.tensor([0.0], requires_grad=True)
    y = ex.xlogy(zero, ex.tensor([0.0]))
    assert values(y) == [0.0]
    assert values(ex.autograd.grad(y.sum(), zero)[0]) == [0.0]
    assert math.isnan(ex.xlogy(ex.tensor(0.0), math.nan).item())
    assert values(ex.xlogy(2.0, ex.tensor([1.0]))) == [0.0]


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


def test_bessel_functions_have_gradients_also_at_zero():
    x = ex.tensor([0.0, 1.0], dtype=ex.float64, requires_grad=True)
    (g,) = ex.autograd.grad(special.i1(x).sum(), x)
    assert values(g)[0] == 0.5
    (g,) = ex.autograd.grad(special.bessel_j0(x).sum(), x)
    assert values(g) == pytest.approx([-v for v in values(special.bessel_j1(x))])


def test_polynomials_take_numbers_as_degree_and_have_no_gradient():
    x = ex.tensor([0.5], dtype=ex.float64)
    assert values(special.chebyshev_polynomial_t(x, 3)) == pytest.approx([4 * 0.125 - 1.5])
    assert values(special.legendre_polynomial_p(x, n=ex.tensor([2.0]))) == pytest.approx([-0.125])
    with pytest.raises(NotDifferentiableError, match="evaluated only"):
        special.hermite_polynomial_h(x.requires_grad_(), 2).sum().backward()


def test_integers_become_floats_and_out_is_filled():
    assert special.erfcx(ex.tensor([1, 2])).dtype is ex.float32
    out = ex.empty(1)
    assert special.erfcx(ex.tensor([0.0]), out=out) is out
    assert values(out) == [1.0]


def test_orders_and_dimensions_are_checked():
    with pytest.raises(DtypeError, match="must not be negative"):
        ex.polygamma(-1, ex.ones(1))
    with pytest.raises(ShapeError, match="at least 1"):
        ex.mvlgamma(ex.ones(1), 0)
    assert ex.mvlgamma(ex.tensor([3.0]), 1).item() == pytest.approx(math.lgamma(3.0))
