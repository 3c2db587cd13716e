"""StudentT: a bell with heavy tails."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from .. import ops
from ..core.tensor import Tensor
from . import constraints
from .distribution import Distribution, Shape
from .gamma import Gamma
from .utils import Value, broadcast_all, log_beta

__all__ = ["StudentT"]


class StudentT(Distribution):
    """Student's t distribution with `df` degrees of freedom, moved to `loc` and stretched by `scale`.

    >>> ex.distributions.StudentT(1.0).log_prob(ex.tensor(0.0)).exp()
    tensor(0.3183)
    """

    arg_constraints: ClassVar[constraints.Table] = {
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real
    has_rsample = True

    def __init__(self, df: Value, loc: Value = 0.0, scale: Value = 1.0, validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(self.df.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return ops.where(self.df > 1, self.loc, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        finite = self.scale.square() * self.df / (self.df - 2)
        return ops.where(self.df > 2, finite, ops.where(self.df > 1, math.inf, math.nan).to(finite.dtype))

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        noise = ops.randn(self._extended_shape(sample_shape), dtype=self.df.dtype)
        spread = Gamma(self.df / 2, self.df / 2, validate_args=False).rsample(sample_shape)
        return self.loc + self.scale * noise * spread.rsqrt()

    def log_prob(self, value: Any) -> Tensor:
        distance = (self._checked(value) - self.loc) / self.scale
        powers = 0.5 * (self.df + 1) * ops.log1p(distance.square() / self.df)
        return -powers - self._log_normalizer()

    def _log_normalizer(self) -> Tensor:
        half = ops.full_like(self.df, 0.5)
        return self.scale.log() + 0.5 * self.df.log() + log_beta(half, 0.5 * self.df)

    def entropy(self) -> Tensor:
        digammas = (0.5 * (self.df + 1)).digamma() - (0.5 * self.df).digamma()
        return self._log_normalizer() + 0.5 * (self.df + 1) * digammas
