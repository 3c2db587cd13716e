"""Bessel functions."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import special

from .helpers import values


def test_bessel_functions_have_gradients_also_at_zero():
    x = ex.tensor([0.0, 1.0], dtype=ex.float64, requires_grad=True)
    (g,) = ex.autograd.grad(special.i1(x).sum(), x)
    assert values(g)[0] == 0.5
    (g,) = ex.autograd.grad(special.bessel_j0(x).sum(), x)
    assert values(g) == pytest.approx([-v for v in values(special.bessel_j1(x))])
