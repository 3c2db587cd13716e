"""Bernoulli and one-hot draws made continuous, so that they have a gradient.

Maddison et al. 2017, Jang et al. 2017.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

from .. import ops
from ..core.tensor import Tensor
from . import constraints
from .derived import TransformedDistribution
from .distribution import Shape
from .multivariate import OverCategories
from .probs_or_logits import ProbsOrLogits
from .transforms import ExpTransform, SigmoidTransform
from .utils import Value, clamp_probs, exponential, same_as, softplus

__all__ = ["RelaxedBernoulli", "RelaxedOneHotCategorical"]


class Relaxed(TransformedDistribution):
    """What both relaxed distributions share: their parameters are those of the base."""

    base_dist: Any
    logits = same_as("base_dist.logits", "Log-odds of 1, or log-probabilities of the categories.")
    probs = same_as("base_dist.probs", "Probabilities of 1, or of the categories.")

    @property
    def temperature(self) -> Value:
        """How far draws are from 0 and 1."""
        return self.base_dist.temperature


class LogitRelaxedBernoulli(ProbsOrLogits):
    """The log-odds of a RelaxedBernoulli.

    >>> d = ex.distributions.relaxed_bernoulli.LogitRelaxedBernoulli(ex.tensor(1.0), probs=ex.tensor([0.5]))
    >>> d.log_prob(ex.tensor([0.0])).exp()
    tensor([0.2500])
    """

    support = constraints.real
    has_rsample = True

    def __init__(
        self,
        temperature: Value,
        probs: Value | None = None,
        logits: Value | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        super().__init__(probs, logits, validate_args)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        level = clamp_probs(ops.rand(self._extended_shape(sample_shape), dtype=self._param.dtype))
        return (level.log() - ops.log1p(-level) + self.logits) / self.temperature

    def log_prob(self, value: Any) -> Tensor:
        difference = self.logits - self._checked(value) * self.temperature
        log_temperature = ops.as_tensor(self.temperature, dtype=difference.dtype).log()
        return log_temperature + difference - 2 * softplus(difference)


class RelaxedBernoulli(Relaxed):
    """Numbers in (0, 1), the nearer to 0 and 1 the lower the `temperature`, whose draws have a gradient.

    >>> logits = ex.zeros(3, requires_grad=True)
    >>> ex.distributions.RelaxedBernoulli(ex.tensor(0.5), logits=logits).rsample().requires_grad
    True
    """

    arg_constraints: ClassVar[constraints.Table] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval

    def __init__(
        self,
        temperature: Value,
        probs: Value | None = None,
        logits: Value | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits, validate_args=False)
        super().__init__(base, SigmoidTransform(), validate_args)


class ExpRelaxedCategorical(OverCategories):
    """The logarithm of a RelaxedOneHotCategorical, where densities are finite.

    >>> d = ex.distributions.relaxed_categorical.ExpRelaxedCategorical(ex.tensor(1.0), probs=ex.ones(3))
    >>> d.rsample().shape
    extempo.Size([3])
    """

    support = constraints.real_vector  # those whose exponentials add up to 1, but rounding blurs that
    has_rsample = True

    def __init__(
        self,
        temperature: Value,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        super().__init__(probs, logits, validate_args)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        gumbel = -exponential(self._extended_shape(sample_shape), self.logits).log()
        return ((self.logits + gumbel) / self.temperature).log_softmax(-1)

    def log_prob(self, value: Any) -> Tensor:
        value = self._checked(value)
        n_categories = self.event_shape[0]
        scores = (self.logits - value * self.temperature).log_softmax(-1).sum(-1)
        log_temperature = ops.as_tensor(self.temperature, dtype=scores.dtype).log()
        return scores + math.lgamma(n_categories) + (n_categories - 1) * log_temperature


class RelaxedOneHotCategorical(Relaxed):
    """Vectors of the simplex, the nearer to one-hot the lower the `temperature`, whose draws have a gradient.

    >>> logits = ex.zeros(3, requires_grad=True)
    >>> ex.distributions.RelaxedOneHotCategorical(ex.tensor(0.5), logits=logits).rsample().requires_grad
    True
    """

    arg_constraints: ClassVar[constraints.Table] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex

    def __init__(
        self,
        temperature: Value,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=False)
        super().__init__(base, ExpTransform(), validate_args)
