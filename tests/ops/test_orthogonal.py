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
