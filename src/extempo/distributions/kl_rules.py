"""The divergences that are known in closed form: of two distributions of one family, and across families.

Where p gives probability to what q excludes, the divergence is infinite; across families it is otherwise -entropy(p)
minus the expected log_prob of q, from the moments of p.
"""

from __future__ import annotations

import math
from typing import Any

from .. import ops
from ..core.tensor import Tensor
from ..errors import ShapeError, UnsupportedError
from ..linalg import solve_triangular
from .bounded import Beta, ContinuousBernoulli, Uniform
from .derived import Independent, TransformedDistribution
from .discrete import Bernoulli, Binomial, Categorical, Geometric, Poisson
from .kl import kl_divergence, register_kl
from .low_rank import LowRankMultivariateNormal
from .multivariate import Dirichlet, MultivariateNormal, OneHotCategorical, squared_length
from .positive import Exponential, Gamma, HalfNormal, Pareto, Weibull
from .real_line import Cauchy, Gumbel, Laplace, Normal
from .utils import LOG_TWO_PI, euler_constant, log_beta, softplus, sum_rightmost
from .wishart import Wishart

# ---- of one family


def _coin_divergence(p: Bernoulli | Binomial, q: Bernoulli | Binomial) -> Tensor:
    """Of one trial: exactly 0 or infinite where an outcome is impossible."""

    def outcome(p_probs: Tensor, q_probs: Tensor, sign: float) -> Tensor:
        surprise = p_probs * (softplus(sign * q.logits) - softplus(sign * p.logits))
        return ops.where(p_probs == 0, 0.0, ops.where(q_probs == 0, math.inf, surprise))

    return outcome(p.probs, q.probs, -1.0) + outcome(1 - p.probs, 1 - q.probs, 1.0)


register_kl(Bernoulli, Bernoulli)(_coin_divergence)


@register_kl(Binomial, Binomial)
def _binomial(p: Binomial, q: Binomial) -> Tensor:
    if (p.total_count < q.total_count).any():
        raise UnsupportedError(
            "kl_divergence: no formula for two Binomials where q has more trials; give p at least as many"
        )
    return ops.where(p.total_count > q.total_count, math.inf, p.total_count * _coin_divergence(p, q))


@register_kl(Beta, Beta)
def _beta(p: Beta, q: Beta) -> Tensor:
    p_total, q_total = p.concentration1 + p.concentration0, q.concentration1 + q.concentration0
    normalizers = log_beta(q.concentration1, q.concentration0) - log_beta(p.concentration1, p.concentration0)
    ones = (p.concentration1 - q.concentration1) * p.concentration1.digamma()
    zeros = (p.concentration0 - q.concentration0) * p.concentration0.digamma()
    return normalizers + ones + zeros + (q_total - p_total) * p_total.digamma()


@register_kl(Categorical, Categorical)
def _categorical(p: Categorical, q: Categorical) -> Tensor:
    surprise = p.probs * (p.logits - q.logits)
    surprise = ops.where(q.probs == 0, math.inf, surprise)
    return ops.where(p.probs == 0, 0.0, surprise).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot_categorical(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return _categorical(p._categorical, q._categorical)


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    distance = (p.scale + q.scale).square() + (p.loc - q.loc).square()
    return (distance / (4 * p.scale * q.scale)).log()


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: ContinuousBernoulli, q: ContinuousBernoulli) -> Tensor:
    normalizers = p._log_normalizer() - q._log_normalizer() + ops.log1p(-p.probs) - ops.log1p(-q.probs)
    return p.mean * (p.logits - q.logits) + normalizers


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    p_total, q_total = p.concentration.sum(-1), q.concentration.sum(-1)
    normalizers = p_total.lgamma() - q_total.lgamma() + (q.concentration.lgamma() - p.concentration.lgamma()).sum(-1)
    digammas = p.concentration.digamma() - p_total.digamma().unsqueeze(-1)
    return normalizers + ((p.concentration - q.concentration) * digammas).sum(-1)


@register_kl(Exponential, Exponential)
def _exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


@register_kl(Gamma, Gamma)
def _gamma(p: Gamma, q: Gamma) -> Tensor:
    rates = q.concentration * (p.rate / q.rate).log() + p.concentration * (q.rate / p.rate - 1)
    normalizers = q.concentration.lgamma() - p.concentration.lgamma()
    return rates + normalizers + (p.concentration - q.concentration) * p.concentration.digamma()


@register_kl(Geometric, Geometric)
def _geometric(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - ops.log1p(-q.probs) / p.probs - q.logits


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    scales, distance = p.scale / q.scale, (p.loc - q.loc) / q.scale
    overlap = ops.exp((1 + scales).lgamma() - distance)
    return distance - scales.log() + overlap - (1 + euler_constant * (1 - scales))


@register_kl(Normal, Normal)
def _normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale).square()
    distance = ((p.loc - q.loc) / q.scale).square()
    return 0.5 * (ratio + distance - 1 - ratio.log())


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: HalfNormal, q: HalfNormal) -> Tensor:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return distance / q.scale + ratio * ops.exp(-distance / p.scale) - 1 - ratio.log()


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normal(p: MultivariateNormal, q: MultivariateNormal) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ShapeError(
            f"kl_divergence: MultivariateNormals of sizes {p.event_shape[0]} and {q.event_shape[0]} cannot be compared"
        )
    volumes = q._log_volume() - p._log_volume()
    q_factor, p_factor = q._unbroadcasted_scale_tril, p._unbroadcasted_scale_tril
    batch = ops.broadcast_shapes(q_factor.shape[:-2], p_factor.shape[:-2])
    both = (factor.expand((*batch, *factor.shape[-2:])) for factor in (q_factor, p_factor))
    trace = solve_triangular(*both, upper=False).square().sum(-2).sum(-1)
    return volumes + 0.5 * (trace + squared_length(q_factor, q.loc - p.loc) - p.event_shape[0])


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _low_rank_normal(
    p: LowRankMultivariateNormal | MultivariateNormal, q: LowRankMultivariateNormal | MultivariateNormal
) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ShapeError(
            f"kl_divergence: normal vectors of sizes {p.event_shape[0]} and {q.event_shape[0]} cannot be compared"
        )
    distance = (q.loc - p.loc).unsqueeze(-1)
    length = (distance * (q.precision_matrix @ distance)).sum((-2, -1))
    trace = (q.precision_matrix * p.covariance_matrix).sum((-2, -1))
    return q._log_volume() - p._log_volume() + 0.5 * (trace + length - p.event_shape[0])


@register_kl(Pareto, Pareto)
def _pareto(p: Pareto, q: Pareto) -> Tensor:
    alphas = q.alpha / p.alpha
    divergence = q.alpha * (p.scale / q.scale).log() - alphas.log() + alphas - 1
    return ops.where(p.scale < q.scale, math.inf, divergence)


@register_kl(Poisson, Poisson)
def _poisson(p: Poisson, q: Poisson) -> Tensor:
    return ops.xlogy(p.rate, p.rate / q.rate) - (p.rate - q.rate)


@register_kl(Uniform, Uniform)
def _uniform(p: Uniform, q: Uniform) -> Tensor:
    outside = (q.low > p.low) | (q.high < p.high)
    return ops.where(outside, math.inf, ((q.high - q.low) / (p.high - p.low)).log())


@register_kl(Weibull, Weibull)
def _weibull(p: Weibull, q: Weibull) -> Tensor:
    mean_log = p.scale.log() - euler_constant / p.concentration
    power = (p.scale / q.scale) ** q.concentration * (q.concentration / p.concentration + 1).lgamma().exp()
    expected = q.concentration.log() - q.concentration * q.scale.log() + (q.concentration - 1) * mean_log - power
    return -p.entropy() - expected


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise UnsupportedError(
            "kl_divergence: no formula for two transformed distributions with different transforms or event shapes"
        )
    extra = len(p.event_shape) - len(p.base_dist.event_shape)
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), max(extra, 0))


@register_kl(Independent, Independent)
def _independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise UnsupportedError(
            f"kl_divergence: Independents of {p.reinterpreted_batch_ndims} and {q.reinterpreted_batch_ndims} "
            "reinterpreted dimensions cannot be compared"
        )
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


# ---- across families: nothing of what p may draw, or too little of it, is possible for q

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


# ---- the other pairs of families


@register_kl(Normal, Laplace)
def _normal_to_laplace(p: Normal, q: Laplace) -> Tensor:
    z = (p.loc - q.loc) / p.scale
    # |x - loc| of a normal x: the mean of a folded normal variable.
    folded = math.sqrt(2 / math.pi) * ops.exp(-0.5 * z.square()) + z * ops.erf(z * math.sqrt(0.5))
    return -p.entropy() + (2 * q.scale).log() + p.scale * folded / q.scale


@register_kl(Bernoulli, Poisson)
def _bernoulli_to_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


@register_kl(Wishart, Wishart)
def _wishart(p: Wishart, q: Wishart) -> Tensor:
    size = p.event_shape[-1]
    trace = (q.precision_matrix * p.covariance_matrix).sum((-2, -1))
    volumes = q.df * (q._log_volume() - p._log_volume())
    normalizers = ops.mvlgamma(0.5 * q.df, size) - ops.mvlgamma(0.5 * p.df, size)
    return volumes + 0.5 * p.df * (trace - size) + normalizers + 0.5 * (p.df - q.df) * p._digammas()
