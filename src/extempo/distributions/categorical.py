"""Categorical: one of several categories, by its number."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from .. import ops
from ..core.context import no_grad
from ..core.tensor import Tensor
from ..core.types import finfo, int64
from ..errors import ShapeError
from . import constraints
from .distribution import Shape
from .probs_or_logits import ProbsOrLogits
from .utils import exponential

__all__ = ["Categorical"]


class Categorical(ProbsOrLogits):
    """A number from 0 to n - 1 with probabilities `probs` (..., n), or with the unnormalised logarithms `logits`.

    >>> ex.distributions.Categorical(probs=ex.tensor([1.0, 3.0])).log_prob(ex.tensor(1)).exp()
    tensor(0.7500)
    """

    arg_constraints: ClassVar[constraints.Table] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True
    _is_binary = False

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        name = self._take(probs, logits)
        given = ops.as_tensor(logits if probs is None else probs)
        if given.ndim < 1:
            raise ShapeError(f"{type(self).__name__}: expected {name} of at least 1 dimension, the last for categories")
        if probs is None:
            self.logits = given - given.logsumexp(-1, keepdim=True)
        else:
            self.probs = given / given.sum(-1, keepdim=True)
        super().__init__(given.shape[:-1], validate_args=validate_args)

    @property
    def _num_events(self) -> int:
        return self._param.shape[-1]

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> constraints.Constraint:
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Tensor:
        return ops.full(self._extended_shape(), math.nan, dtype=self._param.dtype)

    @property
    def mode(self) -> Tensor:
        return self._param.argmax(-1)

    @property
    def variance(self) -> Tensor:
        return self.mean

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        n_samples = math.prod(sample_shape)
        if not math.prod(shape):
            return ops.zeros(shape, dtype=int64)
        with no_grad():
            if n_samples == 1:
                # The first of independent arrivals at rates p is i with probability p[i]: all rows at once.
                return (exponential(self.probs.shape, self.probs) / self.probs).argmin(-1).reshape(shape)
            rows = self.probs.reshape(-1, self._num_events)
            return ops.multinomial(rows, n_samples, replacement=True).T.reshape(shape)

    def log_prob(self, value: Any) -> Tensor:
        value = self._checked(value).long().unsqueeze(-1)
        shape = ops.broadcast_shapes(value.shape[:-1], self._batch_shape)
        logits = self.logits.expand((*shape, -1))
        return logits.gather(-1, value.expand((*shape, 1))).squeeze(-1)

    def entropy(self) -> Tensor:
        logits = self.logits.clamp(min=finfo(self.logits.dtype).min)  # so that 0 * -inf is 0
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._enumerated(ops.arange(self._num_events), expand)
