"""FisherSnedecor: the ratio of two mean squares."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from .. import ops
from ..core.tensor import Tensor
from . import constraints
from .distribution import Distribution, Shape
from .gamma import Gamma
from .utils import Value, broadcast_all, log_beta

__all__ = ["FisherSnedecor"]


class FisherSnedecor(Distribution):
    """The F distribution: (Chi2(df1) / df1) / (Chi2(df2) / df2).

    >>> ex.distributions.FisherSnedecor(1.0, 4.0).mean
    tensor(2.)
    """

    arg_constraints: ClassVar[constraints.Table] = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1: Value, df2: Value, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return ops.where(self.df2 > 2, self.df2 / (self.df2 - 2), math.nan)

    @property
    def mode(self) -> Tensor:
        inner = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return ops.where(self.df1 > 2, inner, math.nan)

    @property
    def variance(self) -> Tensor:
        n, m = self.df1, self.df2
        finite = 2 * m.square() * (n + m - 2) / (n * (m - 2).square() * (m - 4))
        return ops.where(m > 4, finite, math.nan)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        parts = (Gamma(df / 2, df / 2, validate_args=False).rsample(sample_shape) for df in (self.df1, self.df2))
        above, below = parts
        return above / below

    def log_prob(self, value: Any) -> Tensor:
        value = self._checked(value)
        n, m = self.df1, self.df2
        powers = n / 2 * (n / m).log() + (n / 2 - 1) * value.log() - (n + m) / 2 * ops.log1p(value * n / m)
        return powers - log_beta(n / 2, m / 2)
