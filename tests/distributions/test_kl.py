"""The table of divergences."""

from __future__ import annotations

import pytest

import extempo as ex
import extempo.distributions as d


def test_kl_divergence_says_what_to_do_without_a_formula():
    with pytest.raises(NotImplementedError, match="no formula for Normal and Poisson; enter one with register_kl"):
        d.kl_divergence(d.Normal(0.0, 1.0), d.Poisson(1.0))
    with pytest.raises(NotImplementedError, match="q has more trials"):
        d.kl_divergence(d.Binomial(2, probs=0.5), d.Binomial(3, probs=0.5))
    with pytest.raises(ValueError, match="sizes 2 and 3"):
        d.kl_divergence(d.MultivariateNormal(ex.zeros(2), ex.eye(2)), d.MultivariateNormal(ex.zeros(3), ex.eye(3)))
    with pytest.raises(TypeError, match="classes of distributions"):
        d.register_kl(3, d.Normal)


def test_the_most_specific_divergence_counts():
    class Narrow(d.Normal):
        pass

    @d.register_kl(Narrow, d.Normal)
    def narrow(p, q):
        return ex.tensor(7.0)

    assert d.kl_divergence(Narrow(0.0, 1.0), Narrow(0.0, 1.0)).item() == 7.0
    assert d.kl_divergence(d.Normal(0.0, 1.0), Narrow(0.0, 1.0)).item() == 0.0
