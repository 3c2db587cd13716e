"""Dirichlet: random probability vectors."""

from __future__ import annotations

from typing import Any, ClassVar

from .. import ops
from ..core.tensor import Tensor
from ..core.types import finfo
from ..errors import ShapeError
from ..ops.gamma_gradient import log_standard_gamma
from . import constraints
from .distribution import Distribution, Shape

__all__ = ["Dirichlet"]


class Dirichlet(Distribution):
    """Dirichlet distribution over the simplex; `concentration` (..., n) has one entry for each category.

    >>> ex.distributions.Dirichlet(ex.tensor([1.0, 3.0])).mean
    tensor([0.2500, 0.7500])
    """

    arg_constraints: ClassVar[constraints.Table] = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.ndim < 1:
            raise ShapeError("Dirichlet: expected a concentration of at least 1 dimension, the last for the categories")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        above = (self.concentration - 1).clamp(min=0)
        mode = above / above.sum(-1, True)
        # With every concentration below 1 each corner is a mode: the first is taken.
        corner = (ops.arange(self.concentration.shape[-1]) == 0).to(mode.dtype)
        return ops.where((self.concentration < 1).all(-1, True), corner, mode)

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.square() * (total + 1))

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        # Independent gamma draws, normalised; in logarithms, for with small concentrations all of them round to 0.
        logs = log_standard_gamma(self.concentration.expand(self._extended_shape(sample_shape)))
        return logs.softmax(-1).clamp(min=finfo(logs.dtype).tiny)

    def log_prob(self, value: Any) -> Tensor:
        a = self.concentration
        powers = ops.xlogy(a - 1, self._checked(value)).sum(-1)
        return powers + a.sum(-1).lgamma() - a.lgamma().sum(-1)

    def entropy(self) -> Tensor:
        a = self.concentration
        total = a.sum(-1)
        log_normalizer = a.lgamma().sum(-1) - total.lgamma()
        return log_normalizer + (total - a.shape[-1]) * total.digamma() - ((a - 1) * a.digamma()).sum(-1)
