"""Pareto: a power law above a smallest value."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from .. import ops
from ..core.tensor import Tensor
from . import constraints
from .distribution import Distribution, Shape
from .utils import Value, broadcast_all, exponential

__all__ = ["Pareto"]


class Pareto(Distribution):
    """Numbers from `scale` up, larger than x with probability (scale / x) ** alpha.

    >>> ex.distributions.Pareto(1.0, 2.0).mean
    tensor(2.)
    """

    arg_constraints: ClassVar[constraints.Table] = {"alpha": constraints.positive, "scale": constraints.positive}
    has_rsample = True

    def __init__(self, scale: Value, alpha: Value, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        super().__init__(self.scale.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> constraints.Constraint:
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        return ops.where(self.alpha > 1, self.alpha * self.scale / (self.alpha - 1), math.inf)

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        finite = self.scale.square() * self.alpha / ((self.alpha - 1).square() * (self.alpha - 2))
        return ops.where(self.alpha > 2, finite, math.inf)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self.scale * (exponential(self._extended_shape(sample_shape), self.scale) / self.alpha).exp()

    def log_prob(self, value: Any) -> Tensor:
        return self.alpha.log() + self.alpha * self.scale.log() - (self.alpha + 1) * self._checked(value).log()

    def cdf(self, value: Any) -> Tensor:
        return -ops.expm1(self.alpha * (self.scale / self._checked(value)).log())

    def icdf(self, value: Any) -> Tensor:
        return self.scale * ops.exp(-ops.log1p(-ops.as_tensor(value)) / self.alpha)

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + 1 + 1 / self.alpha
