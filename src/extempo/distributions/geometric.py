"""Geometric: failures before the first success."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..core.context import no_grad
from ..core.tensor import Tensor
from ..errors import NumericalError
from ..ops.loss import binary_cross_entropy_with_logits
from ..special import xlog1py
from . import constraints
from .distribution import Shape
from .probs_or_logits import ProbsOrLogits
from .utils import Value, open_uniform

__all__ = ["Geometric"]


class Geometric(ProbsOrLogits):
    """How many trials fail before the first that succeeds, from 0; `probs` in (0, 1].

    >>> ex.distributions.Geometric(probs=0.5).log_prob(ex.tensor(2.0)).exp()
    tensor(0.1250)
    """

    support = constraints.nonnegative_integer

    def __init__(
        self, probs: Value | None = None, logits: Value | None = None, validate_args: bool | None = None
    ) -> None:
        self._keep(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)
        if self._validate_args and probs is not None and not (self.probs > 0).all():
            raise NumericalError("Geometric: expected parameter probs above 0, but found 0; success must be possible")

    @property
    def mean(self) -> Tensor:
        return 1 / self.probs - 1

    @property
    def mode(self) -> Tensor:
        return ops.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1 / self.probs - 1) / self.probs

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with no_grad():
            level = open_uniform(self._extended_shape(sample_shape), self.probs)
            return (level.log() / ops.log1p(-self.probs)).floor()

    def log_prob(self, value: Any) -> Tensor:
        return xlog1py(self._checked(value).to(self.probs.dtype), -self.probs) + self.probs.log()

    def entropy(self) -> Tensor:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs
