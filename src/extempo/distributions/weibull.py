"""Weibull: waiting times at a rate that rises or falls."""

from __future__ import annotations

from typing import Any, ClassVar

from .. import ops
from ..core.tensor import Tensor
from . import constraints
from .distribution import Distribution, Shape
from .utils import Value, broadcast_all, euler_constant, exponential

__all__ = ["Weibull"]


class Weibull(Distribution):
    """Numbers larger than x with probability exp(-(x / scale) ** concentration).

    >>> ex.distributions.Weibull(2.0, 1.0).mean
    tensor(2.)
    """

    arg_constraints: ClassVar[constraints.Table] = {
        "scale": constraints.positive,
        "concentration": constraints.positive,
    }
    support = constraints.positive
    has_rsample = True

    def __init__(self, scale: Value, concentration: Value, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        super().__init__(self.scale.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.scale * self._moment(1)

    @property
    def mode(self) -> Tensor:
        k = self.concentration
        return self.scale * ((k - 1).clamp(min=0) / k) ** (1 / k)

    @property
    def variance(self) -> Tensor:
        return self.scale.square() * (self._moment(2) - self._moment(1).square())

    def _moment(self, order: int) -> Tensor:
        return (1 + order / self.concentration).lgamma().exp()

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        drawn = exponential(self._extended_shape(sample_shape), self.scale)
        return self.scale * drawn ** (1 / self.concentration)

    def log_prob(self, value: Any) -> Tensor:
        ratio = self._checked(value) / self.scale
        k = self.concentration
        return k.log() - self.scale.log() + (k - 1) * ratio.log() - ratio**k

    def cdf(self, value: Any) -> Tensor:
        return -ops.expm1(-((self._checked(value) / self.scale) ** self.concentration))

    def icdf(self, value: Any) -> Tensor:
        return self.scale * (-ops.log1p(-ops.as_tensor(value))) ** (1 / self.concentration)

    def entropy(self) -> Tensor:
        k = self.concentration
        return euler_constant * (1 - 1 / k) + (self.scale / k).log() + 1
