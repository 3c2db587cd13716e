"""Poisson: counts of events at a constant rate."""

from __future__ import annotations

from typing import Any, ClassVar

from .. import ops
from ..core.context import no_grad
from ..core.tensor import Tensor
from . import constraints
from .distribution import Distribution, Shape
from .utils import Value, broadcast_all

__all__ = ["Poisson"]


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

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        return self.rate

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with no_grad():
            return ops.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Tensor:
        value = self._checked(value).to(self.rate.dtype)
        return ops.xlogy(value, self.rate) - self.rate - (value + 1).lgamma()
