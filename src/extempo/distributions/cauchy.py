"""Cauchy: a bell so wide that it has no mean."""

from __future__ import annotations

import math
from typing import Any

from .. import ops
from ..core.tensor import Tensor
from .location_scale import LocationScale

__all__ = ["Cauchy"]


class Cauchy(LocationScale):
    """Cauchy distribution around the median `loc`, with half of its mass within `scale` of it.

    >>> ex.distributions.Cauchy(0.0, 1.0).cdf(ex.tensor(1.0))
    tensor(0.7500)
    """

    @property
    def mean(self) -> Tensor:
        return ops.full_like(self.loc, math.nan)

    @property
    def variance(self) -> Tensor:
        return ops.full_like(self.loc, math.inf)

    def _standard_draw(self, shape: tuple[int, ...]) -> Tensor:
        return ops.empty(shape, dtype=self.loc.dtype).cauchy_()

    def log_prob(self, value: Any) -> Tensor:
        distance = self._standardized(value)
        return -math.log(math.pi) - self.scale.log() - ops.log1p(distance.square())

    def cdf(self, value: Any) -> Tensor:
        return ops.atan(self._standardized(value)) / math.pi + 0.5

    def icdf(self, value: Any) -> Tensor:
        return ops.tan(math.pi * (ops.as_tensor(value) - 0.5)) * self.scale + self.loc

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()
