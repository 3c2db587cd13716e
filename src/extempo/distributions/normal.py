"""Normal: the bell curve."""

from __future__ import annotations

import math
from typing import Any

from .. import ops
from ..core.tensor import Tensor
from .location_scale import LocationScale
from .utils import LOG_TWO_PI

__all__ = ["Normal"]


class Normal(LocationScale):
    """Normal distribution of mean `loc` and standard deviation `scale`.

    >>> ex.distributions.Normal(0.0, 1.0).log_prob(ex.tensor(0.0))
    tensor(-0.9189)
    """

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        return self.scale.square()

    def _standard_draw(self, shape: tuple[int, ...]) -> Tensor:
        return ops.randn(shape, dtype=self.loc.dtype)

    def log_prob(self, value: Any) -> Tensor:
        distance = self._standardized(value)
        return -0.5 * (distance.square() + LOG_TWO_PI) - self.scale.log()

    def cdf(self, value: Any) -> Tensor:
        return 0.5 * (1 + ops.erf(self._standardized(value) * math.sqrt(0.5)))

    def icdf(self, value: Any) -> Tensor:
        return self.loc + self.scale * ops.erfinv(2 * ops.as_tensor(value) - 1) * math.sqrt(2)

    def entropy(self) -> Tensor:
        return 0.5 * (1 + LOG_TWO_PI) + self.scale.log()
