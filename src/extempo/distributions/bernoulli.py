"""Bernoulli: 1 with a probability, else 0."""

from __future__ import annotations

import math
from typing import Any

from .. import ops
from ..core.context import no_grad
from ..core.tensor import Tensor
from ..ops.loss import binary_cross_entropy_with_logits
from . import constraints
from .distribution import Shape
from .probs_or_logits import ProbsOrLogits
from .utils import Value

__all__ = ["Bernoulli"]


class Bernoulli(ProbsOrLogits):
    """1 with probability `probs`, or with the log-odds `logits`, else 0.

    >>> ex.distributions.Bernoulli(probs=0.25).log_prob(ex.tensor([0.0, 1.0])).exp()
    tensor([0.7500, 0.2500])
    """

    support = constraints.boolean
    has_enumerate_support = True

    def __init__(
        self, probs: Value | None = None, logits: Value | None = None, validate_args: bool | None = None
    ) -> None:
        self._keep(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        likely = (self.probs >= 0.5).to(self.probs.dtype)
        return ops.where(self.probs == 0.5, math.nan, likely)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with no_grad():
            return ops.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Tensor:
        logits, value = ops.broadcast_tensors(self.logits, self._checked(value))
        return -binary_cross_entropy_with_logits(logits, value.to(logits.dtype), reduction="none")

    def entropy(self) -> Tensor:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._enumerated(ops.arange(2, dtype=self._param.dtype), expand)
