"""Distributions over whole numbers: outcomes of trials, counts, numbers of categories."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from .. import ops
from ..core.context import no_grad
from ..core.tensor import Tensor
from ..core.types import finfo, float64, int64
from ..errors import NumericalError, ShapeError, UnsupportedError
from ..ops.activation import logsigmoid
from ..ops.gamma_gradient import log_standard_gamma
from ..ops.loss import binary_cross_entropy_with_logits
from ..special import xlog1py
from . import constraints
from .distribution import Distribution, Shape
from .probs_or_logits import ProbsOrLogits
from .utils import Value, broadcast_all, exponential, gamma_draws, open_uniform, same_as, softplus

__all__ = ["Bernoulli", "Binomial", "Categorical", "Geometric", "NegativeBinomial", "Poisson"]


class Bernoulli(ProbsOrLogits):
    """1 with probability `probs`, or with the log-odds `logits`, else 0.

    >>> ex.distributions.Bernoulli(probs=0.25).log_prob(ex.tensor([0.0, 1.0])).exp()
    tensor([0.7500, 0.2500])
    """

    support = constraints.boolean
    has_enumerate_support = True

    mean = same_as("probs")

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
        Distribution.__init__(self, self._param.shape, validate_args=validate_args)

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


class Geometric(ProbsOrLogits):
    """How many trials fail before the first that succeeds, from 0; `probs` in (0, 1].

    >>> ex.distributions.Geometric(probs=0.5).log_prob(ex.tensor(2.0)).exp()
    tensor(0.1250)
    """

    support = constraints.nonnegative_integer

    def __init__(
        self, probs: Value | None = None, logits: Value | None = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(probs, logits, validate_args)
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
        Distribution.__init__(self, self._param.shape, validate_args=validate_args)

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
            return ops.poisson(gamma_draws(self._extended_shape(sample_shape), self.total_count, ops.exp(-self.logits)))

    def log_prob(self, value: Any) -> Tensor:
        n, value = self.total_count, self._checked(value).to(self.total_count.dtype)
        powers = n * logsigmoid(-self.logits) + value * logsigmoid(self.logits)
        log_choices = (n + value).lgamma() - (1 + value).lgamma() - n.lgamma()
        return powers + ops.where(n + value == 0, 0.0, log_choices)  # no trial, one way


class Poisson(Distribution):
    """Counts of mean `rate`.

    >>> ex.distributions.Poisson(2.0).log_prob(ex.tensor(0.0))
    tensor(-2.)
    """

    arg_constraints: ClassVar[constraints.Table] = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate: Value, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    mean = same_as("rate")

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    variance = same_as("rate")

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with no_grad():
            return ops.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Tensor:
        value = self._checked(value).to(self.rate.dtype)
        return ops.xlogy(value, self.rate) - self.rate - (value + 1).lgamma()


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
        Distribution.__init__(self, given.shape[:-1], validate_args=validate_args)

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

    variance = same_as("mean")

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
