"""Distributions on an interval: probabilities, any numbers between two ends, angles."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from .. import ops
from ..core.context import no_grad
from ..core.tensor import Tensor
from ..core.types import finfo, float64
from ..ops.gamma_gradient import log_standard_gamma
from ..ops.loss import binary_cross_entropy_with_logits
from ..special import i0e, i1e, xlog1py
from . import constraints
from .distribution import Distribution, Shape
from .probs_or_logits import ProbsOrLogits
from .utils import (
    LOG_TWO_PI,
    Value,
    broadcast_all,
    clamp_probs,
    euler_constant,
    exponential,
    lazy_property,
    log_beta,
    logits_to_probs,
    same_as,
)

__all__ = ["Beta", "ContinuousBernoulli", "Kumaraswamy", "Uniform", "VonMises"]


class Uniform(Distribution):
    """Uniform distribution on [low, high).

    >>> ex.distributions.Uniform(0.0, 4.0).log_prob(ex.tensor(1.0)).exp()
    tensor(0.2500)
    """

    has_rsample = True

    def __init__(self, low: Value, high: Value, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)

    @property
    def arg_constraints(self) -> constraints.Table:
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> constraints.Constraint:
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        return ops.full_like(self.high, math.nan)

    @property
    def stddev(self) -> Tensor:
        return (self.high - self.low) / math.sqrt(12)

    @property
    def variance(self) -> Tensor:
        return (self.high - self.low).square() / 12

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        level = ops.rand(self._extended_shape(sample_shape), dtype=self.low.dtype)
        return self.low + level * (self.high - self.low)

    def log_prob(self, value: Any) -> Tensor:
        value = self._checked(value)
        inside = (self.low <= value) & (self.high > value)
        return inside.to(self.low.dtype).log() - (self.high - self.low).log()

    def cdf(self, value: Any) -> Tensor:
        return ((self._checked(value) - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Any) -> Tensor:
        return ops.as_tensor(value) * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        return (self.high - self.low).log()


class TwoConcentrations(Distribution):
    """What Beta and Kumaraswamy share: numbers in [0, 1], pulled towards its ends by two concentrations."""

    arg_constraints: ClassVar[constraints.Table] = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Value, concentration0: Value, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        super().__init__(self.concentration1.shape, validate_args=validate_args)


class Beta(TwoConcentrations):
    """Beta distribution on [0, 1]: `concentration1` pulls towards 1, `concentration0` towards 0.

    >>> ex.distributions.Beta(1.0, 3.0).mean
    tensor(0.2500)
    """

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        above1, above0 = (self.concentration1 - 1).clamp(min=0), (self.concentration0 - 1).clamp(min=0)
        # With both concentrations below 1, 0 and 1 are modes: 1 is taken.
        both_ends = (self.concentration1 < 1) & (self.concentration0 < 1)
        return ops.where(both_ends, 1.0, above1 / (above1 + above0))

    @property
    def variance(self) -> Tensor:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.square() * (total + 1))

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        # a / (a + b) of gamma draws a and b, in logarithms, for both may round to 0.
        log_odds = log_standard_gamma(self.concentration1.expand(shape)) - log_standard_gamma(
            self.concentration0.expand(shape)
        )
        limits = finfo(log_odds.dtype)
        return log_odds.sigmoid().clamp(min=limits.tiny, max=1 - limits.eps / 2)

    def log_prob(self, value: Any) -> Tensor:
        value = self._checked(value)
        powers = ops.xlogy(self.concentration1 - 1, value) + xlog1py(self.concentration0 - 1, -value)
        return powers - log_beta(self.concentration1, self.concentration0)

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        total = a + b
        digammas = (a - 1) * a.digamma() + (b - 1) * b.digamma() - (total - 2) * total.digamma()
        return log_beta(a, b) - digammas


class Kumaraswamy(TwoConcentrations):
    """Numbers in [0, 1], larger than x with probability (1 - x ** concentration1) ** concentration0.

    >>> ex.distributions.Kumaraswamy(1.0, 1.0).mean
    tensor(0.5000)
    """

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        inner = ((a - 1) / (a * b - 1)) ** (1 / a)
        return ops.where((a < 1) | (b < 1), float("nan"), inner)

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self._moment(1).square()

    def _moment(self, order: int) -> Tensor:
        return self.concentration0 * log_beta(1 + order / self.concentration1, self.concentration0).exp()

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        # -log(1 - x ** a) * b is an exponential draw.
        drawn = exponential(self._extended_shape(sample_shape), self.concentration1)
        return (-ops.expm1(-drawn / self.concentration0)) ** (1 / self.concentration1)

    def log_prob(self, value: Any) -> Tensor:
        value = self._checked(value)
        a, b = self.concentration1, self.concentration0
        return a.log() + b.log() + ops.xlogy(a - 1, value) + xlog1py(b - 1, -(value**a))

    def cdf(self, value: Any) -> Tensor:
        power = self._checked(value) ** self.concentration1
        return -ops.expm1(self.concentration0 * ops.log1p(-power))

    def icdf(self, value: Any) -> Tensor:
        inner = ops.log1p(-ops.as_tensor(value)) / self.concentration0
        return (-ops.expm1(inner)) ** (1 / self.concentration1)

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        harmonic = (b + 1).digamma() + euler_constant
        return (1 - 1 / b) + (1 - 1 / a) * harmonic - a.log() - b.log()


class ContinuousBernoulli(ProbsOrLogits):
    """Numbers x in [0, 1] with a density proportional to probs ** x * (1 - probs) ** (1 - x).

    Between the two `lims`, where the closed forms cancel, Taylor's series around 1/2 serve in their place.

    >>> ex.distributions.ContinuousBernoulli(probs=0.5).log_prob(ex.tensor(0.3))
    tensor(0.)
    """

    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self,
        probs: Value | None = None,
        logits: Value | None = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        self._lims = lims
        super().__init__(probs, logits, validate_args)
        if probs is not None:
            self.probs = clamp_probs(self.probs)

    @lazy_property
    def probs(self) -> Tensor:
        """Probabilities of a Bernoulli distribution with these odds, kept from 0 and 1."""
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def _apart(self, closed_form: Any, series: Any) -> Tensor:
        """`closed_form(p)` away from 1/2, and near it `series(p - 1/2)`; neither meets what the other is for."""
        far = (self.probs <= self._lims[0]) | (self.probs > self._lims[1])
        away = ops.where(far, self.probs, self._lims[0])
        near = ops.where(far, 0.5, self.probs) - 0.5
        return ops.where(far, closed_form(away), series(near))

    def _log_normalizer(self) -> Tensor:
        """The logarithm of 2 * atanh(1 - 2 p) / (1 - 2 p)."""

        def closed_form(p: Tensor) -> Tensor:
            return (ops.log1p(-p) - p.log()).abs().log() - (1 - 2 * p).abs().log()

        def series(d: Tensor) -> Tensor:
            return math.log(2) + (4 / 3 + 104 / 45 * d.square()) * d.square()

        return self._apart(closed_form, series)

    @property
    def mean(self) -> Tensor:
        def closed_form(p: Tensor) -> Tensor:
            return p / (2 * p - 1) + 1 / (ops.log1p(-p) - p.log())

        def series(d: Tensor) -> Tensor:
            return 0.5 + (1 / 3 + 16 / 45 * d.square()) * d

        return self._apart(closed_form, series)

    @property
    def variance(self) -> Tensor:
        def closed_form(p: Tensor) -> Tensor:
            return p * (p - 1) / (1 - 2 * p).square() + (ops.log1p(-p) - p.log()).square().reciprocal()

        def series(d: Tensor) -> Tensor:
            return 1 / 12 - (1 / 15 - 128 / 945 * d.square()) * d.square()

        return self._apart(closed_form, series)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self.icdf(ops.rand(self._extended_shape(sample_shape), dtype=self.probs.dtype))

    def log_prob(self, value: Any) -> Tensor:
        logits, value = ops.broadcast_tensors(self.logits, self._checked(value))
        unnormalized = -binary_cross_entropy_with_logits(logits, value.to(logits.dtype), reduction="none")
        return unnormalized + self._log_normalizer()

    def cdf(self, value: Any) -> Tensor:
        value = self._checked(value)

        def closed_form(p: Tensor) -> Tensor:
            return (p**value * (1 - p) ** (1 - value) + p - 1) / (2 * p - 1)

        def series(d: Tensor) -> Tensor:
            return value - value * (1 - value) * (2 * d - 4 / 3 * d.square() * (1 - 2 * value))

        inside = self._apart(closed_form, series)
        return ops.where(value <= 0, 0.0, ops.where(value >= 1, 1.0, inside))

    def icdf(self, value: Any) -> Tensor:
        value = ops.as_tensor(value)

        def closed_form(p: Tensor) -> Tensor:
            rise = ops.log1p(-p + value * (2 * p - 1)) - ops.log1p(-p)
            return rise / (p.log() - ops.log1p(-p))

        def series(d: Tensor) -> Tensor:
            return value + value * (1 - value) * (2 * d + 8 / 3 * d.square() * (1 - 2 * value))

        return self._apart(closed_form, series)

    def entropy(self) -> Tensor:
        log_odds = self.probs.log() - ops.log1p(-self.probs)
        return -self.mean * log_odds - self._log_normalizer() - ops.log1p(-self.probs)


class VonMises(Distribution):
    """Angles in [-pi, pi) around `loc`, the closer the larger the `concentration`.

    >>> ex.distributions.VonMises(0.0, 4.0).variance
    tensor(0.1365)
    """

    arg_constraints: ClassVar[constraints.Table] = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real

    def __init__(self, loc: Value, concentration: Value, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    mean = same_as("loc")
    mode = same_as("loc")

    @property
    def variance(self) -> Tensor:
        return 1 - i1e(self.concentration) / i0e(self.concentration)

    def log_prob(self, value: Any) -> Tensor:
        # exp(concentration) is taken out of the Bessel function, which would overflow, and out of the cosine.
        closeness = ops.cos(self._checked(value) - self.loc) - 1
        return self.concentration * closeness - LOG_TWO_PI - i0e(self.concentration).log()

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            angle = _centred_draws(self.concentration.to(float64).expand(shape)) + self.loc
            return ((angle + math.pi) % (2 * math.pi) - math.pi).to(self.loc.dtype)


def _centred_draws(concentration: Tensor) -> Tensor:
    """Draws around 0, by rejection from a wrapped Cauchy distribution (Best and Fisher 1979)."""
    tau = 1 + (1 + 4 * concentration.square()).sqrt()
    rho = (tau - (2 * tau).sqrt()) / (2 * concentration)
    # Where the concentration is too small for its square to count, 1 / concentration is the limit.
    r = ops.where(concentration < 1e-6, 1 / concentration, (1 + rho.square()) / (2 * rho))
    drawn = ops.zeros_like(concentration)
    done = concentration != concentration
    while not done.all():
        turn, level, half = (ops.rand(concentration.shape, dtype=float64) for _ in range(3))
        z = ops.cos(math.pi * turn)
        f = (1 + r * z) / (r + z)
        c = concentration * (r - f)
        accepted = (c * (2 - c) > level) | ((c / level).log() + 1 - c >= 0)
        drawn = ops.where(accepted & ~done, (half - 0.5).sign() * f.clamp(min=-1, max=1).acos(), drawn)
        done = done | accepted
    return ops.where(concentration == concentration, drawn, math.nan)
