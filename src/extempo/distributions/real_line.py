"""Distributions on the whole real line: loc + scale * z, where z follows a fixed law."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from .. import ops
from ..core.tensor import Tensor
from . import constraints
from .distribution import Distribution, Shape
from .utils import LOG_TWO_PI, Value, broadcast_all, euler_constant, exponential, gamma_draws, log_beta, same_as

__all__ = ["Cauchy", "Gumbel", "Laplace", "Normal", "StudentT"]


class LocationScale(Distribution):
    """What distributions on the real line share; a subclass says how z is drawn."""

    arg_constraints: ClassVar[constraints.Table] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Value, scale: Value, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    mode = same_as("loc")

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self.loc + self.scale * self._standard_draw(self._extended_shape(sample_shape))

    def _standard_draw(self, shape: tuple[int, ...]) -> Tensor:
        """Draws of z."""
        raise NotImplementedError

    def _standardized(self, value: Any) -> Tensor:
        """The z of a value."""
        return (self._checked(value) - self.loc) / self.scale


class Normal(LocationScale):
    """Normal distribution of mean `loc` and standard deviation `scale`.

    >>> ex.distributions.Normal(0.0, 1.0).log_prob(ex.tensor(0.0))
    tensor(-0.9189)
    """

    mean = same_as("loc")

    stddev = same_as("scale")

    @property
    def variance(self) -> Tensor:
        return self.scale.square()

    def _standard_draw(self, shape: tuple[int, ...]) -> Tensor:
        return ops.randn(shape, dtype=self.loc.dtype)

    def log_prob(self, value: Any) -> Tensor:
        distance = self._standardized(value)
        return -0.5 * (distance.square() + LOG_TWO_PI) - self.scale.log()

    def cdf(self, value: Any) -> Tensor:
        return 0.5 * (1 + ops.erf(self._standardized(value) * math.sqrt(0.5)))

    def icdf(self, value: Any) -> Tensor:
        return self.loc + self.scale * ops.erfinv(2 * ops.as_tensor(value) - 1) * math.sqrt(2)

    def entropy(self) -> Tensor:
        return 0.5 * (1 + LOG_TWO_PI) + self.scale.log()


class Laplace(LocationScale):
    """Laplace distribution around `loc` with mean distance `scale`.

    >>> ex.distributions.Laplace(0.0, 1.0).log_prob(ex.tensor(0.0)).exp()
    tensor(0.5000)
    """

    mean = same_as("loc")

    @property
    def stddev(self) -> Tensor:
        return self.scale * math.sqrt(2)

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale.square()

    def _standard_draw(self, shape: tuple[int, ...]) -> Tensor:
        return exponential(shape, self.loc) - exponential(shape, self.loc)  # two exponentials make a Laplace draw

    def log_prob(self, value: Any) -> Tensor:
        return -(2 * self.scale).log() - (self._checked(value) - self.loc).abs() / self.scale

    def cdf(self, value: Any) -> Tensor:
        distance = self._checked(value) - self.loc
        return 0.5 - 0.5 * distance.sign() * ops.expm1(-distance.abs() / self.scale)

    def icdf(self, value: Any) -> Tensor:
        offset = ops.as_tensor(value) - 0.5
        return self.loc - self.scale * offset.sign() * ops.log1p(-2 * offset.abs())

    def entropy(self) -> Tensor:
        return 1 + (2 * self.scale).log()


class Cauchy(LocationScale):
    """Cauchy distribution around the median `loc`, with half of its mass within `scale` of it.

    >>> ex.distributions.Cauchy(0.0, 1.0).cdf(ex.tensor(1.0))
    tensor(0.7500)
    """

    @property
    def mean(self) -> Tensor:
        return ops.full_like(self.loc, math.nan)

    @property
    def variance(self) -> Tensor:
        return ops.full_like(self.loc, math.inf)

    def _standard_draw(self, shape: tuple[int, ...]) -> Tensor:
        return ops.empty(shape, dtype=self.loc.dtype).cauchy_()

    def log_prob(self, value: Any) -> Tensor:
        distance = self._standardized(value)
        return -math.log(math.pi) - self.scale.log() - ops.log1p(distance.square())

    def cdf(self, value: Any) -> Tensor:
        return ops.atan(self._standardized(value)) / math.pi + 0.5

    def icdf(self, value: Any) -> Tensor:
        return ops.tan(math.pi * (ops.as_tensor(value) - 0.5)) * self.scale + self.loc

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()


class Gumbel(LocationScale):
    """Gumbel distribution with mode `loc`.

    >>> ex.distributions.Gumbel(0.0, 1.0).log_prob(ex.tensor(0.0))
    tensor(-1.)
    """

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * euler_constant

    @property
    def stddev(self) -> Tensor:
        return self.scale * (math.pi / math.sqrt(6))

    @property
    def variance(self) -> Tensor:
        return self.stddev.square()

    def _standard_draw(self, shape: tuple[int, ...]) -> Tensor:
        return -exponential(shape, self.loc).log()

    def log_prob(self, value: Any) -> Tensor:
        distance = -self._standardized(value)
        return distance - distance.exp() - self.scale.log()

    def cdf(self, value: Any) -> Tensor:
        return ops.exp(-ops.exp(-self._standardized(value)))

    def icdf(self, value: Any) -> Tensor:
        return self.loc - self.scale * (-ops.as_tensor(value).log()).log()

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + euler_constant)


class StudentT(LocationScale):
    """Student's t distribution with `df` degrees of freedom, moved to `loc` and stretched by `scale`.

    >>> ex.distributions.StudentT(1.0).log_prob(ex.tensor(0.0)).exp()
    tensor(0.3183)
    """

    arg_constraints: ClassVar[constraints.Table] = {
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }

    def __init__(self, df: Value, loc: Value = 0.0, scale: Value = 1.0, validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        Distribution.__init__(self, self.df.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return ops.where(self.df > 1, self.loc, math.nan)

    @property
    def variance(self) -> Tensor:
        finite = self.scale.square() * self.df / (self.df - 2)
        return ops.where(self.df > 2, finite, ops.where(self.df > 1, math.inf, math.nan).to(finite.dtype))

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        noise = ops.randn(shape, dtype=self.df.dtype)
        spread = gamma_draws(shape, self.df / 2, self.df / 2)
        return self.loc + self.scale * noise * spread.rsqrt()

    def log_prob(self, value: Any) -> Tensor:
        distance = self._standardized(value)
        powers = 0.5 * (self.df + 1) * ops.log1p(distance.square() / self.df)
        return -powers - self._log_normalizer()

    def _log_normalizer(self) -> Tensor:
        half = ops.full_like(self.df, 0.5)
        return self.scale.log() + 0.5 * self.df.log() + log_beta(half, 0.5 * self.df)

    def entropy(self) -> Tensor:
        digammas = (0.5 * (self.df + 1)).digamma() - (0.5 * self.df).digamma()
        return self._log_normalizer() + 0.5 * (self.df + 1) * digammas
