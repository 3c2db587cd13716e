"""ContinuousBernoulli: a Bernoulli-like density on [0, 1] (Loaiza-Ganem and Cunningham 2019)."""

from __future__ import annotations

import math
from typing import Any

from .. import ops
from ..core.tensor import Tensor
from ..ops.loss import binary_cross_entropy_with_logits
from . import constraints
from .distribution import Shape
from .probs_or_logits import ProbsOrLogits
from .utils import Value, clamp_probs, lazy_property, logits_to_probs

__all__ = ["ContinuousBernoulli"]


class ContinuousBernoulli(ProbsOrLogits):
    """Numbers x in [0, 1] with a density proportional to probs ** x * (1 - probs) ** (1 - x).

    Between the two `lims`, where the closed forms cancel, Taylor's series around 1/2 serve in their place.

    >>> ex.distributions.ContinuousBernoulli(probs=0.5).log_prob(ex.tensor(0.3))
    tensor(0.)
    """

    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self,
        probs: Value | None = None,
        logits: Value | None = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        self._keep(probs, logits)
        self._lims = lims
        super().__init__(self._param.shape, validate_args=validate_args)
        if probs is not None:
            self.probs = clamp_probs(self.probs)

    @lazy_property
    def probs(self) -> Tensor:
        """Probabilities of a Bernoulli distribution with these odds, kept from 0 and 1."""
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def _apart(self, closed_form: Any, series: Any) -> Tensor:
        """`closed_form(p)` away from 1/2, and near it `series(p - 1/2)`; neither meets what the other is for."""
        far = (self.probs <= self._lims[0]) | (self.probs > self._lims[1])
        away = ops.where(far, self.probs, self._lims[0])
        near = ops.where(far, 0.5, self.probs) - 0.5
        return ops.where(far, closed_form(away), series(near))

    def _log_normalizer(self) -> Tensor:
        """The logarithm of 2 * atanh(1 - 2 p) / (1 - 2 p)."""

        def closed_form(p: Tensor) -> Tensor:
            return (ops.log1p(-p) - p.log()).abs().log() - (1 - 2 * p).abs().log()

        def series(d: Tensor) -> Tensor:
            return math.log(2) + (4 / 3 + 104 / 45 * d.square()) * d.square()

        return self._apart(closed_form, series)

    @property
    def mean(self) -> Tensor:
        def closed_form(p: Tensor) -> Tensor:
            return p / (2 * p - 1) + 1 / (ops.log1p(-p) - p.log())

        def series(d: Tensor) -> Tensor:
            return 0.5 + (1 / 3 + 16 / 45 * d.square()) * d

        return self._apart(closed_form, series)

    @property
    def variance(self) -> Tensor:
        def closed_form(p: Tensor) -> Tensor:
            return p * (p - 1) / (1 - 2 * p).square() + (ops.log1p(-p) - p.log()).square().reciprocal()

        def series(d: Tensor) -> Tensor:
            return 1 / 12 - (1 / 15 - 128 / 945 * d.square()) * d.square()

        return self._apart(closed_form, series)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self.icdf(ops.rand(self._extended_shape(sample_shape), dtype=self.probs.dtype))

    def log_prob(self, value: Any) -> Tensor:
        logits, value = ops.broadcast_tensors(self.logits, self._checked(value))
        unnormalized = -binary_cross_entropy_with_logits(logits, value.to(logits.dtype), reduction="none")
        return unnormalized + self._log_normalizer()

    def cdf(self, value: Any) -> Tensor:
        value = self._checked(value)

        def closed_form(p: Tensor) -> Tensor:
            return (p**value * (1 - p) ** (1 - value) + p - 1) / (2 * p - 1)

        def series(d: Tensor) -> Tensor:
            return value - value * (1 - value) * (2 * d - 4 / 3 * d.square() * (1 - 2 * value))

        inside = self._apart(closed_form, series)
        return ops.where(value <= 0, 0.0, ops.where(value >= 1, 1.0, inside))

    def icdf(self, value: Any) -> Tensor:
        value = ops.as_tensor(value)

        def closed_form(p: Tensor) -> Tensor:
            rise = ops.log1p(-p + value * (2 * p - 1)) - ops.log1p(-p)
            return rise / (p.log() - ops.log1p(-p))

        def series(d: Tensor) -> Tensor:
            return value + value * (1 - value) * (2 * d + 8 / 3 * d.square() * (1 - 2 * value))

        return self._apart(closed_form, series)

    def entropy(self) -> Tensor:
        log_odds = self.probs.log() - ops.log1p(-self.probs)
        return -self.mean * log_odds - self._log_normalizer() - ops.log1p(-self.probs)
