"""Kumaraswamy: much like Beta, with a distribution function that is easily inverted."""

from __future__ import annotations

from typing import Any, ClassVar

from .. import ops
from ..core.tensor import Tensor
from ..special import xlog1py
from . import constraints
from .distribution import Distribution, Shape
from .utils import Value, broadcast_all, euler_constant, exponential, log_beta

__all__ = ["Kumaraswamy"]


class Kumaraswamy(Distribution):
    """Numbers in [0, 1], larger than x with probability (1 - x ** concentration1) ** concentration0.

    >>> ex.distributions.Kumaraswamy(1.0, 1.0).mean
    tensor(0.5000)
    """

    arg_constraints: ClassVar[constraints.Table] = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Value, concentration0: Value, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        super().__init__(self.concentration1.shape, validate_args=validate_args)

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
