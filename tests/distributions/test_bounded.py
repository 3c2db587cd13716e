"""Distributions on an interval."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
import extempo.distributions as d


def test_von_mises_draws_have_its_circular_variance():
    ex.manual_seed(0)
    for concentration in (1e-8, 0.5, 4.0, 200.0):
        circle = d.VonMises(ex.tensor(2.5, dtype=ex.float64), concentration)
        drawn = circle.sample((20000,))
        assert (drawn >= -np.pi).all()
        assert (drawn < np.pi).all()
        assert (1 - (drawn - 2.5).cos().mean()).item() == pytest.approx(circle.variance.item(), rel=0.05, abs=0.001)


def test_dirichlet_and_beta_draws_of_tiny_concentration_are_finite_and_keep_their_gradient():
    tiny = ex.full((1000, 3), 0.001, requires_grad=True)
    drawn = d.Dirichlet(tiny).rsample()
    assert d.constraints.simplex.check(drawn).all()
    (drawn * ex.arange(3)).sum().backward()
    assert ex.isfinite(tiny.grad).all()
    small = ex.full((1000,), 0.001, requires_grad=True)
    drawn = d.Beta(small, small).rsample()
    assert ((drawn > 0) & (drawn < 1)).all()
    assert ex.isfinite(d.Beta(small, small).log_prob(drawn)).all()
