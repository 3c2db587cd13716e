"""RelaxedOneHotCategorical: nearly one-hot vectors that have a gradient (Maddison et al. 2017, Jang et al. 2017)."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from .. import ops
from ..core.tensor import Tensor
from . import constraints, utils
from .distribution import Shape
from .one_hot_categorical import OverCategories
from .transformed_distribution import TransformedDistribution
from .transforms import ExpTransform
from .utils import Value

__all__ = ["ExpRelaxedCategorical", "RelaxedOneHotCategorical"]


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
        gumbel = -utils.exponential(self._extended_shape(sample_shape), self.logits).log()
        return ((self.logits + gumbel) / self.temperature).log_softmax(-1)

    def log_prob(self, value: Any) -> Tensor:
        value = self._checked(value)
        n_categories = self.event_shape[0]
        scores = (self.logits - value * self.temperature).log_softmax(-1).sum(-1)
        log_temperature = ops.as_tensor(self.temperature, dtype=scores.dtype).log()
        return scores + math.lgamma(n_categories) + (n_categories - 1) * log_temperature


class RelaxedOneHotCategorical(TransformedDistribution):
    """Vectors of the simplex, the nearer to one-hot the lower the `temperature`, whose draws have a gradient.

    >>> logits = ex.zeros(3, requires_grad=True)
    >>> ex.distributions.RelaxedOneHotCategorical(ex.tensor(0.5), logits=logits).rsample().requires_grad
    True
    """

    arg_constraints: ClassVar[constraints.Table] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    base_dist: Any

    def __init__(
        self,
        temperature: Value,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=False)
        super().__init__(base, ExpTransform(), validate_args)

    @property
    def temperature(self) -> Value:
        """How far draws are from one-hot."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """Log-probabilities of the categories."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """Probabilities of the categories."""
        return self.base_dist.probs
