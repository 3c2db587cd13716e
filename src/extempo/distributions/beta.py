"""Beta: random probabilities."""

from __future__ import annotations

from typing import Any, ClassVar

from .. import ops
from ..core.tensor import Tensor
from ..core.types import finfo
from ..ops.gamma_gradient import log_standard_gamma
from ..special import xlog1py
from . import constraints
from .distribution import Distribution, Shape
from .utils import Value, broadcast_all, log_beta

__all__ = ["Beta"]


class Beta(Distribution):
    """Beta distribution on [0, 1]: `concentration1` pulls towards 1, `concentration0` towards 0.

    >>> ex.distributions.Beta(1.0, 3.0).mean
    tensor(0.2500)
    """

    arg_constraints: ClassVar[constraints.Table] = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Value, concentration0: Value, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        super().__init__(self.concentration1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        above1, above0 = (self.concentration1 - 1).clamp(min=0), (self.concentration0 - 1).clamp(min=0)
        # With both concentrations below 1, 0 and 1 are modes: 1 is taken.
        both_ends = (self.concentration1 < 1) & (self.concentration0 < 1)
        return ops.where(both_ends, 1.0, above1 / (above1 + above0))

    @property
    def variance(self) -> Tensor:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.square() * (total + 1))

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        # a / (a + b) of gamma draws a and b, in logarithms, for both may round to 0.
        log_odds = log_standard_gamma(self.concentration1.expand(shape)) - log_standard_gamma(
            self.concentration0.expand(shape)
        )
        limits = finfo(log_odds.dtype)
        return log_odds.sigmoid().clamp(min=limits.tiny, max=1 - limits.eps / 2)

    def log_prob(self, value: Any) -> Tensor:
        value = self._checked(value)
        powers = ops.xlogy(self.concentration1 - 1, value) + xlog1py(self.concentration0 - 1, -value)
        return powers - log_beta(self.concentration1, self.concentration0)

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        total = a + b
        digammas = (a - 1) * a.digamma() + (b - 1) * b.digamma() - (total - 2) * total.digamma()
        return log_beta(a, b) - digammas
