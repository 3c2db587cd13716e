"""Divergences between two distributions of one family, in closed form."""

from __future__ import annotations

import math

from .. import ops
from ..core.tensor import Tensor
from ..errors import ShapeError, UnsupportedError
from ..linalg import solve_triangular
from .bernoulli import Bernoulli
from .beta import Beta
from .binomial import Binomial
from .categorical import Categorical
from .cauchy import Cauchy
from .continuous_bernoulli import ContinuousBernoulli
from .dirichlet import Dirichlet
from .exponential import Exponential
from .gamma import Gamma
from .geometric import Geometric
from .gumbel import Gumbel
from .half_normal import HalfNormal
from .independent import Independent
from .kl import kl_divergence, register_kl
from .laplace import Laplace
from .multivariate_normal import MultivariateNormal, squared_length
from .normal import Normal
from .one_hot_categorical import OneHotCategorical
from .pareto import Pareto
from .poisson import Poisson
from .transformed_distribution import TransformedDistribution
from .uniform import Uniform
from .utils import euler_constant, log_beta, softplus, sum_rightmost
from .weibull import Weibull


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
