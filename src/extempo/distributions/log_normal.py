"""LogNormal: numbers whose logarithm is normal."""

from __future__ import annotations

from typing import Any, ClassVar

from .. import ops
from ..core.tensor import Tensor
from . import constraints
from .normal import Normal
from .transformed_distribution import TransformedDistribution
from .transforms import ExpTransform
from .utils import Value

__all__ = ["LogNormal"]


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

    @property
    def loc(self) -> Tensor:
        """The mean of the logarithm."""
        return self.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """The standard deviation of the logarithm."""
        return self.base_dist.scale

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
