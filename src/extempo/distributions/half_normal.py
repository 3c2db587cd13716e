"""HalfNormal: the size of a normal variable."""

from __future__ import annotations

import math

from ..core.tensor import Tensor
from .folded import Folded
from .normal import Normal

__all__ = ["HalfNormal"]


class HalfNormal(Folded):
    """|x| for x from Normal(0, scale).

    >>> ex.distributions.HalfNormal(1.0).mean
    tensor(0.7979)
    """

    whole = Normal

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale.square() * (1 - 2 / math.pi)
