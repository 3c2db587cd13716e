"""RelaxedBernoulli: numbers near 0 or 1 that have a gradient (Maddison et al. 2017, Jang et al. 2017)."""

from __future__ import annotations

from typing import Any, ClassVar

from .. import ops
from ..core.tensor import Tensor
from . import constraints
from .distribution import Shape
from .probs_or_logits import ProbsOrLogits
from .transformed_distribution import TransformedDistribution
from .transforms import SigmoidTransform
from .utils import Value, clamp_probs, softplus

__all__ = ["LogitRelaxedBernoulli", "RelaxedBernoulli"]


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
        self._keep(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        level = clamp_probs(ops.rand(self._extended_shape(sample_shape), dtype=self._param.dtype))
        return (level.log() - ops.log1p(-level) + self.logits) / self.temperature

    def log_prob(self, value: Any) -> Tensor:
        difference = self.logits - self._checked(value) * self.temperature
        log_temperature = ops.as_tensor(self.temperature, dtype=difference.dtype).log()
        return log_temperature + difference - 2 * softplus(difference)


class RelaxedBernoulli(TransformedDistribution):
    """Numbers in (0, 1), the nearer to 0 and 1 the lower the `temperature`, whose draws have a gradient.

    >>> logits = ex.zeros(3, requires_grad=True)
    >>> ex.distributions.RelaxedBernoulli(ex.tensor(0.5), logits=logits).rsample().requires_grad
    True
    """

    arg_constraints: ClassVar[constraints.Table] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    base_dist: Any

    def __init__(
        self,
        temperature: Value,
        probs: Value | None = None,
        logits: Value | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits, validate_args=False)
        super().__init__(base, SigmoidTransform(), validate_args)

    @property
    def temperature(self) -> Value:
        """How far draws are from 0 and 1."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """Log-odds of 1."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """Probability of 1."""
        return self.base_dist.probs
