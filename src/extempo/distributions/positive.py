"""Distributions on the positive numbers: waiting times, sizes, ratios."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from .. import ops
from ..core.tensor import Tensor
from . import constraints
from .derived import TransformedDistribution
from .distribution import Distribution, Shape
from .real_line import Cauchy, LocationScale, Normal
from .transforms import AbsTransform, ExpTransform, PowerTransform
from .utils import Value, broadcast_all, euler_constant, exponential, gamma_draws, log_beta, same_as

__all__ = [
    "Chi2",
    "Exponential",
    "FisherSnedecor",
    "Gamma",
    "HalfCauchy",
    "HalfNormal",
    "InverseGamma",
    "LogNormal",
    "Pareto",
    "Weibull",
]


class Exponential(Distribution):
    """Exponential distribution of mean 1 / `rate`.

    >>> ex.distributions.Exponential(2.0).mean
    tensor(0.5000)
    """

    arg_constraints: ClassVar[constraints.Table] = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, rate: Value, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        return ops.zeros_like(self.rate)

    @property
    def stddev(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        return self.rate.square().reciprocal()

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return exponential(self._extended_shape(sample_shape), self.rate) / self.rate

    def log_prob(self, value: Any) -> Tensor:
        return self.rate.log() - self.rate * self._checked(value)

    def cdf(self, value: Any) -> Tensor:
        return -ops.expm1(-self.rate * self._checked(value))

    def icdf(self, value: Any) -> Tensor:
        return -ops.log1p(-ops.as_tensor(value)) / self.rate

    def entropy(self) -> Tensor:
        return 1 - self.rate.log()


class Gamma(Distribution):
    """Gamma distribution of mean `concentration` / `rate`; its draws have a gradient to both.

    >>> ex.distributions.Gamma(3.0, 2.0).mean
    tensor(1.5000)
    """

    arg_constraints: ClassVar[constraints.Table] = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, concentration: Value, rate: Value, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate.square()

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return gamma_draws(self._extended_shape(sample_shape), self.concentration, self.rate)

    def log_prob(self, value: Any) -> Tensor:
        value = self._checked(value)
        return (
            ops.xlogy(self.concentration, self.rate)
            + ops.xlogy(self.concentration - 1, value)
            - self.rate * value
            - self.concentration.lgamma()
        )

    def cdf(self, value: Any) -> Tensor:
        return ops.igamma(self.concentration, self.rate * self._checked(value))

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - self.rate.log() + a.lgamma() + (1 - a) * a.digamma()


class Chi2(Gamma):
    """Chi-squared distribution with `df` degrees of freedom: Gamma(df / 2, 1 / 2).

    >>> ex.distributions.Chi2(3.0).mean
    tensor(3.)
    """

    arg_constraints: ClassVar[constraints.Table] = {"df": constraints.positive}

    def __init__(self, df: Value, validate_args: bool | None = None) -> None:
        (degrees,) = broadcast_all(df)
        super().__init__(0.5 * degrees, 0.5, validate_args=validate_args)

    @property
    def df(self) -> Tensor:
        """Degrees of freedom."""
        return self.concentration * 2


class FisherSnedecor(Distribution):
    """The F distribution: (Chi2(df1) / df1) / (Chi2(df2) / df2).

    >>> ex.distributions.FisherSnedecor(1.0, 4.0).mean
    tensor(2.)
    """

    arg_constraints: ClassVar[constraints.Table] = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1: Value, df2: Value, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return ops.where(self.df2 > 2, self.df2 / (self.df2 - 2), math.nan)

    @property
    def mode(self) -> Tensor:
        inner = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return ops.where(self.df1 > 2, inner, math.nan)

    @property
    def variance(self) -> Tensor:
        n, m = self.df1, self.df2
        finite = 2 * m.square() * (n + m - 2) / (n * (m - 2).square() * (m - 4))
        return ops.where(m > 4, finite, math.nan)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        above, below = (gamma_draws(shape, df / 2, df / 2) for df in (self.df1, self.df2))
        return above / below

    def log_prob(self, value: Any) -> Tensor:
        value = self._checked(value)
        n, m = self.df1, self.df2
        powers = n / 2 * (n / m).log() + (n / 2 - 1) * value.log() - (n + m) / 2 * ops.log1p(value * n / m)
        return powers - log_beta(n / 2, m / 2)


class Pareto(Distribution):
    """Numbers from `scale` up, larger than x with probability (scale / x) ** alpha.

    >>> ex.distributions.Pareto(1.0, 2.0).mean
    tensor(2.)
    """

    arg_constraints: ClassVar[constraints.Table] = {"alpha": constraints.positive, "scale": constraints.positive}
    has_rsample = True

    def __init__(self, scale: Value, alpha: Value, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        super().__init__(self.scale.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> constraints.Constraint:
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        return ops.where(self.alpha > 1, self.alpha * self.scale / (self.alpha - 1), math.inf)

    mode = same_as("scale")

    @property
    def variance(self) -> Tensor:
        finite = self.scale.square() * self.alpha / ((self.alpha - 1).square() * (self.alpha - 2))
        return ops.where(self.alpha > 2, finite, math.inf)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self.scale * (exponential(self._extended_shape(sample_shape), self.scale) / self.alpha).exp()

    def log_prob(self, value: Any) -> Tensor:
        return self.alpha.log() + self.alpha * self.scale.log() - (self.alpha + 1) * self._checked(value).log()

    def cdf(self, value: Any) -> Tensor:
        return -ops.expm1(self.alpha * (self.scale / self._checked(value)).log())

    def icdf(self, value: Any) -> Tensor:
        return self.scale * ops.exp(-ops.log1p(-ops.as_tensor(value)) / self.alpha)

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + 1 + 1 / self.alpha


class Weibull(Distribution):
    """Numbers larger than x with probability exp(-(x / scale) ** concentration).

    >>> ex.distributions.Weibull(2.0, 1.0).mean
    tensor(2.)
    """

    arg_constraints: ClassVar[constraints.Table] = {
        "scale": constraints.positive,
        "concentration": constraints.positive,
    }
    support = constraints.positive
    has_rsample = True

    def __init__(self, scale: Value, concentration: Value, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        super().__init__(self.scale.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.scale * self._moment(1)

    @property
    def mode(self) -> Tensor:
        k = self.concentration
        return self.scale * ((k - 1).clamp(min=0) / k) ** (1 / k)

    @property
    def variance(self) -> Tensor:
        return self.scale.square() * (self._moment(2) - self._moment(1).square())

    def _moment(self, order: int) -> Tensor:
        return (1 + order / self.concentration).lgamma().exp()

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        drawn = exponential(self._extended_shape(sample_shape), self.scale)
        return self.scale * drawn ** (1 / self.concentration)

    def log_prob(self, value: Any) -> Tensor:
        ratio = self._checked(value) / self.scale
        k = self.concentration
        return k.log() - self.scale.log() + (k - 1) * ratio.log() - ratio**k

    def cdf(self, value: Any) -> Tensor:
        return -ops.expm1(-((self._checked(value) / self.scale) ** self.concentration))

    def icdf(self, value: Any) -> Tensor:
        return self.scale * (-ops.log1p(-ops.as_tensor(value))) ** (1 / self.concentration)

    def entropy(self) -> Tensor:
        k = self.concentration
        return euler_constant * (1 - 1 / k) + (self.scale / k).log() + 1


class InverseGamma(TransformedDistribution):
    """1 / x for x from Gamma(concentration, rate).

    >>> ex.distributions.InverseGamma(3.0, 4.0).mean
    tensor(2.)
    """

    arg_constraints: ClassVar[constraints.Table] = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    base_dist: Any

    def __init__(self, concentration: Value, rate: Value, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=False)
        super().__init__(base, PowerTransform(ops.full((), -1.0, dtype=base.rate.dtype)), validate_args)

    concentration = same_as("base_dist.concentration", "The concentration of the gamma variable.")
    rate = same_as("base_dist.rate", "The rate of the gamma variable.")

    @property
    def mean(self) -> Tensor:
        return ops.where(self.concentration > 1, self.rate / (self.concentration - 1), math.inf)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        a = self.concentration
        finite = self.rate.square() / ((a - 1).square() * (a - 2))
        return ops.where(a > 2, finite, math.inf)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()


class LogNormal(TransformedDistribution):
    """exp(x) for x from Normal(loc, scale).

    >>> ex.distributions.LogNormal(0.0, 1.0).log_prob(ex.tensor(1.0))
    tensor(-0.9189)
    """

    arg_constraints: ClassVar[constraints.Table] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive
    base_dist: Any

    def __init__(self, loc: Value, scale: Value, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args=False), ExpTransform(), validate_args)

    loc = same_as("base_dist.loc", "The mean of the logarithm.")
    scale = same_as("base_dist.scale", "The standard deviation of the logarithm.")

    @property
    def mean(self) -> Tensor:
        return (self.loc + self.scale.square() / 2).exp()

    @property
    def mode(self) -> Tensor:
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Tensor:
        spread = self.scale.square()
        return ops.expm1(spread) * (2 * self.loc + spread).exp()

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc


class Folded(TransformedDistribution):
    """What HalfNormal and HalfCauchy share; a subclass names the distribution of which one half is kept."""

    arg_constraints: ClassVar[constraints.Table] = {"scale": constraints.positive}
    support = constraints.nonnegative
    whole: type[LocationScale]
    base_dist: Any

    def __init__(self, scale: Value, validate_args: bool | None = None) -> None:
        super().__init__(self.whole(0.0, scale, validate_args=False), AbsTransform(), validate_args)

    scale = same_as("base_dist.scale", "The scale of the whole distribution.")

    @property
    def mode(self) -> Tensor:
        return ops.zeros_like(self.scale)

    def log_prob(self, value: Any) -> Tensor:
        value = self._checked(value)
        return ops.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value: Any) -> Tensor:
        return 2 * self.base_dist.cdf(self._checked(value)) - 1

    def icdf(self, value: Any) -> Tensor:
        return self.base_dist.icdf((ops.as_tensor(value) + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(Folded):
    """|x| for x from Normal(0, scale).

    >>> ex.distributions.HalfNormal(1.0).mean
    tensor(0.7979)
    """

    whole = Normal

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale.square() * (1 - 2 / math.pi)


class HalfCauchy(Folded):
    """|x| for x from Cauchy(0, scale).

    >>> ex.distributions.HalfCauchy(1.0).cdf(ex.tensor(1.0))
    tensor(0.5000)
    """

    whole = Cauchy

    @property
    def mean(self) -> Tensor:
        return ops.full_like(self.scale, math.inf)

    variance = same_as("base_dist.variance")
