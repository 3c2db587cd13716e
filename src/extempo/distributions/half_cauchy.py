"""HalfCauchy: the size of a Cauchy variable."""

from __future__ import annotations

import math

from .. import ops
from ..core.tensor import Tensor
from .cauchy import Cauchy
from .folded import Folded

__all__ = ["HalfCauchy"]


class HalfCauchy(Folded):
    """|x| for x from Cauchy(0, scale).

    >>> ex.distributions.HalfCauchy(1.0).cdf(ex.tensor(1.0))
    tensor(0.5000)
    """

    whole = Cauchy

    @property
    def mean(self) -> Tensor:
        return ops.full_like(self.scale, math.inf)

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance
