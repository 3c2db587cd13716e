"""Gumbel: the largest of many draws."""

from __future__ import annotations

import math
from typing import Any

from .. import ops
from ..core.tensor import Tensor
from .location_scale import LocationScale
from .utils import euler_constant, exponential

__all__ = ["Gumbel"]


class Gumbel(LocationScale):
    """Gumbel distribution with mode `loc`.

    >>> ex.distributions.Gumbel(0.0, 1.0).log_prob(ex.tensor(0.0))
    tensor(-1.)
    """

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * euler_constant

    @property
    def stddev(self) -> Tensor:
        return self.scale * (math.pi / math.sqrt(6))

    @property
    def variance(self) -> Tensor:
        return self.stddev.square()

    def _standard_draw(self, shape: tuple[int, ...]) -> Tensor:
        return -exponential(shape, self.loc).log()

    def log_prob(self, value: Any) -> Tensor:
        distance = -self._standardized(value)
        return distance - distance.exp() - self.scale.log()

    def cdf(self, value: Any) -> Tensor:
        return ops.exp(-ops.exp(-self._standardized(value)))

    def icdf(self, value: Any) -> Tensor:
        return self.loc - self.scale * (-ops.as_tensor(value).log()).log()

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + euler_constant)
