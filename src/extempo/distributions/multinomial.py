"""Multinomial: how often each category was drawn."""

from __future__ import annotations

import math
from typing import Any

from .. import ops
from ..core.context import no_grad
from ..core.tensor import Tensor
from ..errors import DtypeError
from . import constraints
from .binomial import Binomial
from .distribution import Shape
from .one_hot_categorical import OverCategories

__all__ = ["Multinomial"]


class Multinomial(OverCategories):
    """Counts of the categories in `total_count` draws, with probabilities `probs` (..., n) or logarithms `logits`.

    >>> ex.distributions.Multinomial(2, probs=ex.tensor([1.0, 1.0])).log_prob(ex.tensor([1.0, 1.0])).exp()
    tensor(0.5000)
    """

    def __init__(
        self,
        total_count: int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise DtypeError(
                f"Multinomial: total_count must be one int for all of the batch, got {type(total_count).__name__}"
            )
        self.total_count = total_count
        super().__init__(probs, logits, validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> constraints.Constraint:
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            drawn = self._categorical.sample((self.total_count, *sample_shape)).movedim(0, -1)
            counts = ops.zeros(shape, dtype=self.probs.dtype)
            return counts.scatter_add(-1, drawn, ops.ones(drawn.shape, dtype=counts.dtype))

    def log_prob(self, value: Any) -> Tensor:
        value = self._checked(value).to(self.probs.dtype)
        logits, value = ops.broadcast_tensors(self.logits, value)
        impossible = (value == 0) & (logits == -math.inf)
        powers = ops.where(impossible, 0.0, logits) * value
        return (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1) + powers.sum(-1)

    def entropy(self) -> Tensor:
        n = ops.tensor(float(self.total_count), dtype=self.probs.dtype)
        counts = Binomial(self.total_count, probs=self.probs, validate_args=False)
        values = counts.enumerate_support(expand=False)[1:]
        expected = (counts.log_prob(values).exp() * (values + 1).lgamma()).sum(0).sum(-1)
        return n * self._categorical.entropy() - (n + 1).lgamma() + expected
