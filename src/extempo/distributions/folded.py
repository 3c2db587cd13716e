"""Folded: the absolute value of a variable that is symmetric around 0."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from .. import ops
from ..core.tensor import Tensor
from . import constraints
from .location_scale import LocationScale
from .transformed_distribution import TransformedDistribution
from .transforms import AbsTransform
from .utils import Value


class Folded(TransformedDistribution):
    """What HalfNormal and HalfCauchy share; a subclass names the distribution of which one half is kept."""

    arg_constraints: ClassVar[constraints.Table] = {"scale": constraints.positive}
    support = constraints.nonnegative
    whole: type[LocationScale]
    base_dist: Any

    def __init__(self, scale: Value, validate_args: bool | None = None) -> None:
        super().__init__(self.whole(0.0, scale, validate_args=False), AbsTransform(), validate_args)

    @property
    def scale(self) -> Tensor:
        """The scale of the whole distribution."""
        return self.base_dist.scale

    @property
    def mode(self) -> Tensor:
        return ops.zeros_like(self.scale)

    def log_prob(self, value: Any) -> Tensor:
        value = self._checked(value)
        return ops.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value: Any) -> Tensor:
        return 2 * self.base_dist.cdf(self._checked(value)) - 1

    def icdf(self, value: Any) -> Tensor:
        return self.base_dist.icdf((ops.as_tensor(value) + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)
