"""Divergences between distributions of different families.

Where p gives probability to what q excludes, the divergence is infinite; elsewhere it is -entropy(p) minus the expected
log_prob of q, from the moments of p.
"""

from __future__ import annotations

import math
from typing import Any

from .. import ops
from ..core.tensor import Tensor
from .bernoulli import Bernoulli
from .beta import Beta
from .binomial import Binomial
from .continuous_bernoulli import ContinuousBernoulli
from .exponential import Exponential
from .gamma import Gamma
from .gumbel import Gumbel
from .kl import register_kl
from .laplace import Laplace
from .normal import Normal
from .pareto import Pareto
from .poisson import Poisson
from .uniform import Uniform
from .utils import LOG_TWO_PI, euler_constant, log_beta

Unit = Beta | ContinuousBernoulli


def _infinite(p: Any, q: Any) -> Tensor:
    shape = ops.broadcast_shapes(p.batch_shape, q.batch_shape)
    return ops.full(shape, math.inf, dtype=p.mean.dtype)


_ON_UNIT = (Beta, ContinuousBernoulli)
_EXCLUDING: dict[type, tuple[type, ...]] = {
    **dict.fromkeys(_ON_UNIT, (Pareto,)),
    **dict.fromkeys((Exponential, Gamma), (*_ON_UNIT, Pareto, Uniform)),
    **dict.fromkeys((Gumbel, Laplace, Normal), (*_ON_UNIT, Exponential, Gamma, Pareto, Uniform)),
    Pareto: (*_ON_UNIT, Uniform),
    Poisson: (Bernoulli, Binomial),
}
for _p, _excluding in _EXCLUDING.items():
    for _q in _excluding:
        register_kl(_p, _q)(_infinite)


# ---- to Exponential, Gamma, Normal: the expected log_prob is linear in a few moments of p


def _mean_log(p: Any) -> Tensor:
    """The expected logarithm of a draw."""
    if isinstance(p, Beta):
        return p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    if isinstance(p, Exponential):
        return -euler_constant - p.rate.log()
    if isinstance(p, Pareto):
        return p.scale.log() + 1 / p.alpha
    # Uniform: x * log(x) - x between the ends, divided by their distance.
    return (ops.xlogy(p.high, p.high) - ops.xlogy(p.low, p.low)) / (p.high - p.low) - 1


def _within(p: Any, low: float, divergence: Tensor) -> Tensor:
    """Infinite where p reaches below `low`, which only Uniform may."""
    return ops.where(p.low < low, math.inf, divergence) if isinstance(p, Uniform) else divergence


def _to_exponential(p: Any, q: Exponential) -> Tensor:
    return _within(p, 0.0, -p.entropy() - q.rate.log() + q.rate * p.mean)


def _to_gamma(p: Any, q: Gamma) -> Tensor:
    expected = q.concentration * q.rate.log() - q.concentration.lgamma() + (q.concentration - 1) * _mean_log(p)
    return _within(p, 0.0, -p.entropy() - expected + q.rate * p.mean)


def _to_normal(p: Any, q: Normal) -> Tensor:
    distance = (p.variance + (p.mean - q.loc).square()) / q.scale.square()
    divergence = -p.entropy() + q.scale.log() + 0.5 * (LOG_TWO_PI + distance)
    # A Pareto of alpha 2 or less has no variance.
    return ops.where(p.alpha <= 2, math.inf, divergence) if isinstance(p, Pareto) else divergence


for _p in (Beta, ContinuousBernoulli, Gamma, Pareto, Uniform):
    register_kl(_p, Exponential)(_to_exponential)
for _p in (Beta, Exponential, Pareto, Uniform):
    register_kl(_p, Gamma)(_to_gamma)
for _p in (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Pareto, Uniform):
    register_kl(_p, Normal)(_to_normal)


# ---- to Gumbel: the expected exp(-x / scale) is the moment generating function of p


def _to_gumbel(p: Any, q: Gumbel) -> Tensor:
    expected = -(p.mean - q.loc) / q.scale - ops.exp(q.loc / q.scale) * _mean_exp(p, -1 / q.scale) - q.scale.log()
    return -p.entropy() - expected


def _mean_exp(p: Any, t: Tensor) -> Tensor:
    """The expected exp(t * x) of a draw x, t < 0."""
    if isinstance(p, Exponential):
        return p.rate / (p.rate - t)
    if isinstance(p, Gamma):
        return (p.rate / (p.rate - t)) ** p.concentration
    if isinstance(p, Normal):
        return (t * p.loc + 0.5 * (t * p.scale).square()).exp()
    return (ops.exp(t * p.high) - ops.exp(t * p.low)) / (t * (p.high - p.low))


for _p in (Exponential, Gamma, Normal, Uniform):
    register_kl(_p, Gumbel)(_to_gumbel)


# ---- to what lives on an interval


@register_kl(Beta, Uniform)
@register_kl(ContinuousBernoulli, Uniform)
def _unit_to_uniform(p: Unit, q: Uniform) -> Tensor:
    divergence = -p.entropy() + (q.high - q.low).log()
    return ops.where((q.high < 1) | (q.low > 0), math.inf, divergence)


@register_kl(Beta, ContinuousBernoulli)
@register_kl(Uniform, ContinuousBernoulli)
def _to_continuous_bernoulli(p: Any, q: ContinuousBernoulli) -> Tensor:
    divergence = -p.entropy() - p.mean * q.logits - ops.log1p(-q.probs) - q._log_normalizer()
    outside = (p.low < 0) | (p.high > 1) if isinstance(p, Uniform) else None
    return divergence if outside is None else ops.where(outside, math.inf, divergence)


@register_kl(Uniform, Beta)
def _uniform_to_beta(p: Uniform, q: Beta) -> Tensor:
    mirrored = Uniform(1 - p.high, 1 - p.low, validate_args=False)
    powers = (q.concentration1 - 1) * _mean_log(p) + (q.concentration0 - 1) * _mean_log(mirrored)
    divergence = -p.entropy() + log_beta(q.concentration1, q.concentration0) - powers
    return ops.where((p.low < 0) | (p.high > 1), math.inf, divergence)


@register_kl(Uniform, Pareto)
def _uniform_to_pareto(p: Uniform, q: Pareto) -> Tensor:
    expected = q.alpha.log() + q.alpha * q.scale.log() - (q.alpha + 1) * _mean_log(p)
    return ops.where(p.low < q.scale, math.inf, -p.entropy() - expected)


# ---- the rest


@register_kl(Normal, Laplace)
def _normal_to_laplace(p: Normal, q: Laplace) -> Tensor:
    z = (p.loc - q.loc) / p.scale
    # |x - loc| of a normal x: the mean of a folded normal variable.
    folded = math.sqrt(2 / math.pi) * ops.exp(-0.5 * z.square()) + z * ops.erf(z * math.sqrt(0.5))
    return -p.entropy() + (2 * q.scale).log() + p.scale * folded / q.scale


@register_kl(Bernoulli, Poisson)
def _bernoulli_to_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)
