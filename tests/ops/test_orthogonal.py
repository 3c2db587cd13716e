"""Orthogonal polynomials."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import special
from extempo.errors import NotDifferentiableError

from .helpers import values


def test_polynomials_take_numbers_as_degree_and_have_no_gradient():
    x = ex.tensor([0.5], dtype=ex.float64)
    assert values(special.chebyshev_polynomial_t(x, 3)) == pytest.approx([4 * 0.125 - 1.5])
    assert values(special.legendre_polynomial_p(x, n=ex.tensor([2.0]))) == pytest.approx([-0.125])
    with pytest.raises(NotDifferentiableError, match="evaluated only"):
        special.hermite_polynomial_h(x.requires_grad_(), 2).sum().backward()


def test_degrees_below_zero_give_zero_and_the_first_two_are_the_formulas():
    x = ex.tensor([0.25], dtype=ex.float64)
    assert values(special.chebyshev_polynomial_u(x, -1)) == [0.0]
    assert values(special.chebyshev_polynomial_u(x, 0)) == [1.0]
    assert values(special.chebyshev_polynomial_u(x, 1)) == [0.5]
    assert values(special.hermite_polynomial_he(x, 2)) == pytest.approx([0.0625 - 1])


def test_degrees_broadcast_with_points():
    found = special.laguerre_polynomial_l(ex.tensor([[1.0], [2.0]]), ex.tensor([0.0, 1.0]))
    assert values(found) == [[1.0, 0.0], [1.0, -1.0]]
