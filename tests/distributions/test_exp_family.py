"""Entropies by differentiation."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import distributions as d


class Exponential(d.ExponentialFamily):
    _mean_carrier_measure = 0

    def __init__(self, rate):
        self.rate = rate
        super().__init__(rate.shape, validate_args=False)

    @property
    def _natural_params(self):
        return (-self.rate,)

    def _log_normalizer(self, theta):
        return -ex.log(-theta)


def test_the_entropy_follows_from_the_normalizer():
    rate = ex.tensor([0.5, 2.0])
    with ex.no_grad():
        ex.testing.assert_close(Exponential(rate).entropy().detach(), d.Exponential(rate).entropy())


@pytest.mark.parametrize("missing", ["_natural_params", "_mean_carrier_measure"])
def test_a_subclass_that_states_nothing_says_so(missing):
    with pytest.raises(NotImplementedError, match="does not state"):
        getattr(d.ExponentialFamily(validate_args=False), missing)
    with pytest.raises(NotImplementedError, match="log normalizer"):
        d.ExponentialFamily(validate_args=False)._log_normalizer()
