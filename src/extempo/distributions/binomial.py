"""Binomial: successes among several trials."""

from __future__ import annotations

from typing import Any, ClassVar

from .. import ops
from ..core.context import no_grad
from ..core.tensor import Tensor
from ..core.types import float64
from ..errors import UnsupportedError
from ..ops.gamma_gradient import log_standard_gamma
from . import constraints
from .distribution import Shape
from .probs_or_logits import ProbsOrLogits
from .utils import Value, softplus

__all__ = ["Binomial"]

_FEW_TRIALS = 16  # so many are drawn one by one


class Binomial(ProbsOrLogits):
    """How many of `total_count` trials succeed, each with probability `probs` or the log-odds `logits`.

    >>> ex.distributions.Binomial(2, probs=0.5).log_prob(ex.tensor([0.0, 1.0, 2.0])).exp()
    tensor([0.2500, 0.5000, 0.2500])
    """

    arg_constraints: ClassVar[constraints.Table] = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True

    def __init__(
        self,
        total_count: Value = 1,
        probs: Value | None = None,
        logits: Value | None = None,
        validate_args: bool | None = None,
    ) -> None:
        (count,) = self._keep(probs, logits, total_count)
        self.total_count = count.to(self._param.dtype)
        super().__init__(self._param.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> constraints.Constraint:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            counts = _successes(self.total_count.expand(shape).to(float64), self.probs.expand(shape).to(float64))
            return counts.to(self.probs.dtype)

    def log_prob(self, value: Any) -> Tensor:
        n, value = self.total_count, self._checked(value).to(self.total_count.dtype)
        log_choices = (n + 1).lgamma() - (value + 1).lgamma() - (n - value + 1).lgamma()
        return log_choices + value * self.logits - n * softplus(self.logits)

    def entropy(self) -> Tensor:
        log_probs = self.log_prob(self.enumerate_support(expand=False))
        return -(log_probs.exp() * log_probs).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        largest = int(self.total_count.max())
        if int(self.total_count.min()) != largest:
            raise UnsupportedError(
                f"{type(self).__name__}: only distributions of one total_count can be listed together, got counts up "
                f"to {largest}; make one distribution for each"
            )
        return self._enumerated(ops.arange(largest + 1, dtype=self._param.dtype), expand)


def _successes(n_trials: Tensor, probability: Tensor) -> Tensor:
    """Binomial counts.

    The middle one of n uniform levels is a beta draw: where it lies decides the trials on one side of it, and those on
    the other remain. Halving ends with few trials, which are drawn one by one (Devroye 1986, chapter X.4).
    """
    counts = ops.zeros_like(n_trials)
    while (many := n_trials > _FEW_TRIALS).any():
        rank = ops.where(many, ((n_trials + 1) / 2).floor(), 1.0)
        above = ops.where(many, n_trials + 1 - rank, 1.0)
        level = (log_standard_gamma(rank) - log_standard_gamma(above)).sigmoid()
        succeeded = many & (level <= probability)
        failed = many & ~succeeded
        counts = counts + ops.where(succeeded, rank, 0.0)
        rest = ops.where(succeeded, (probability - level) / (1 - level), probability / level)
        n_trials = ops.where(succeeded, n_trials - rank, ops.where(failed, rank - 1, n_trials))
        probability = ops.where(many, rest, probability).clamp(min=0, max=1)
    trial = ops.arange(_FEW_TRIALS).reshape((-1, *(1 for _ in n_trials.shape)))
    level = ops.rand((_FEW_TRIALS, *n_trials.shape), dtype=float64)
    return counts + ((level < probability) & (trial < n_trials)).sum(0)
