"""Laplace: exponential decay to both sides."""

from __future__ import annotations

import math
from typing import Any

from .. import ops
from ..core.tensor import Tensor
from .location_scale import LocationScale
from .utils import exponential

__all__ = ["Laplace"]


class Laplace(LocationScale):
    """Laplace distribution around `loc` with mean distance `scale`.

    >>> ex.distributions.Laplace(0.0, 1.0).log_prob(ex.tensor(0.0)).exp()
    tensor(0.5000)
    """

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return self.scale * math.sqrt(2)

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale.square()

    def _standard_draw(self, shape: tuple[int, ...]) -> Tensor:
        return exponential(shape, self.loc) - exponential(shape, self.loc)  # two exponentials make a Laplace draw

    def log_prob(self, value: Any) -> Tensor:
        return -(2 * self.scale).log() - (self._checked(value) - self.loc).abs() / self.scale

    def cdf(self, value: Any) -> Tensor:
        distance = self._checked(value) - self.loc
        return 0.5 - 0.5 * distance.sign() * ops.expm1(-distance.abs() / self.scale)

    def icdf(self, value: Any) -> Tensor:
        offset = ops.as_tensor(value) - 0.5
        return self.loc - self.scale * offset.sign() * ops.log1p(-2 * offset.abs())

    def entropy(self) -> Tensor:
        return 1 + (2 * self.scale).log()
