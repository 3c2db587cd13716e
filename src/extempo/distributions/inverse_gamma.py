"""InverseGamma: the reciprocal of a gamma variable."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from .. import ops
from ..core.tensor import Tensor
from . import constraints
from .gamma import Gamma
from .transformed_distribution import TransformedDistribution
from .transforms import PowerTransform
from .utils import Value

__all__ = ["InverseGamma"]


class InverseGamma(TransformedDistribution):
    """1 / x for x from Gamma(concentration, rate).

    >>> ex.distributions.InverseGamma(3.0, 4.0).mean
    tensor(2.)
    """

    arg_constraints: ClassVar[constraints.Table] = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    base_dist: Any

    def __init__(self, concentration: Value, rate: Value, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=False)
        super().__init__(base, PowerTransform(ops.full((), -1.0, dtype=base.rate.dtype)), validate_args)

    @property
    def concentration(self) -> Tensor:
        """The concentration of the gamma variable."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Tensor:
        """The rate of the gamma variable."""
        return self.base_dist.rate

    @property
    def mean(self) -> Tensor:
        return ops.where(self.concentration > 1, self.rate / (self.concentration - 1), math.inf)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        a = self.concentration
        finite = self.rate.square() / ((a - 1).square() * (a - 2))
        return ops.where(a > 2, finite, math.inf)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()
