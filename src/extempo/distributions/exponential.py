"""Exponential: waiting times at a constant rate."""

from __future__ import annotations

from typing import Any, ClassVar

from .. import ops
from ..core.tensor import Tensor
from . import constraints, utils
from .distribution import Distribution, Shape
from .utils import Value, broadcast_all

__all__ = ["Exponential"]


class Exponential(Distribution):
    """Exponential distribution of mean 1 / `rate`.

    >>> ex.distributions.Exponential(2.0).mean
    tensor(0.5000)
    """

    arg_constraints: ClassVar[constraints.Table] = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, rate: Value, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        return ops.zeros_like(self.rate)

    @property
    def stddev(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        return self.rate.square().reciprocal()

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return utils.exponential(self._extended_shape(sample_shape), self.rate) / self.rate

    def log_prob(self, value: Any) -> Tensor:
        return self.rate.log() - self.rate * self._checked(value)

    def cdf(self, value: Any) -> Tensor:
        return -ops.expm1(-self.rate * self._checked(value))

    def icdf(self, value: Any) -> Tensor:
        return -ops.log1p(-ops.as_tensor(value)) / self.rate

    def entropy(self) -> Tensor:
        return 1 - self.rate.log()
