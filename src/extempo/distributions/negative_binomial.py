"""NegativeBinomial: successes before a number of failures."""

from __future__ import annotations

from typing import Any, ClassVar

from .. import ops
from ..core.context import no_grad
from ..core.tensor import Tensor
from ..ops.activation import logsigmoid
from . import constraints
from .distribution import Shape
from .gamma import Gamma
from .probs_or_logits import ProbsOrLogits
from .utils import Value

__all__ = ["NegativeBinomial"]


class NegativeBinomial(ProbsOrLogits):
    """How many trials of success `probs` in [0, 1), or of log-odds `logits`, succeed before `total_count` have failed.

    >>> ex.distributions.NegativeBinomial(1.0, probs=0.5).log_prob(ex.tensor(0.0)).exp()
    tensor(0.5000)
    """

    arg_constraints: ClassVar[constraints.Table] = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    def __init__(
        self,
        total_count: Value,
        probs: Value | None = None,
        logits: Value | None = None,
        validate_args: bool | None = None,
    ) -> None:
        (count,) = self._keep(probs, logits, total_count)
        self.total_count = count.to(self._param.dtype)
        super().__init__(self._param.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.mean / ops.sigmoid(-self.logits)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with no_grad():
            rates = Gamma(self.total_count, ops.exp(-self.logits), validate_args=False).sample(sample_shape)
            return ops.poisson(rates)

    def log_prob(self, value: Any) -> Tensor:
        n, value = self.total_count, self._checked(value).to(self.total_count.dtype)
        powers = n * logsigmoid(-self.logits) + value * logsigmoid(self.logits)
        log_choices = (n + value).lgamma() - (1 + value).lgamma() - n.lgamma()
        return powers + ops.where(n + value == 0, 0.0, log_choices)  # no trial, one way
