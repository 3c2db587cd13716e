"""Gamma: waiting times for several events."""

from __future__ import annotations

from typing import Any, ClassVar

from .. import ops
from ..core.tensor import Tensor
from ..core.types import finfo
from ..ops.gamma_gradient import standard_gamma
from . import constraints
from .distribution import Distribution, Shape
from .utils import Value, broadcast_all

__all__ = ["Gamma"]


class Gamma(Distribution):
    """Gamma distribution of mean `concentration` / `rate`; its draws have a gradient to both.

    >>> ex.distributions.Gamma(3.0, 2.0).mean
    tensor(1.5000)
    """

    arg_constraints: ClassVar[constraints.Table] = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, concentration: Value, rate: Value, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate.square()

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        drawn = standard_gamma(self.concentration.expand(self._extended_shape(sample_shape))) / self.rate
        return drawn.clamp(min=finfo(drawn.dtype).tiny)  # 0 may have an infinite density

    def log_prob(self, value: Any) -> Tensor:
        value = self._checked(value)
        return (
            ops.xlogy(self.concentration, self.rate)
            + ops.xlogy(self.concentration - 1, value)
            - self.rate * value
            - self.concentration.lgamma()
        )

    def cdf(self, value: Any) -> Tensor:
        return ops.igamma(self.concentration, self.rate * self._checked(value))

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - self.rate.log() + a.lgamma() + (1 - a) * a.digamma()
