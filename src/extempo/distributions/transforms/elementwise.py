"""Transforms of single numbers."""

from __future__ import annotations

import math
from typing import Any

from ... import ops
from ...core.tensor import Tensor
from ...core.types import finfo
from .. import constraints
from ..constraints import Constraint
from ..distribution import Distribution
from ..utils import Value, softplus, sum_rightmost
from .base import Shape, StatelessTransform, Transform

__all__ = [
    "AbsTransform", "AffineTransform", "CumulativeDistributionTransform", "ExpTransform", "PowerTransform",
    "SigmoidTransform", "SoftplusTransform", "TanhTransform",
]  # fmt: skip


class Increasing(StatelessTransform):
    """An increasing bijection of the real line to another set, without parameters."""

    domain = constraints.real
    bijective = True
    sign = 1


class ExpTransform(Increasing):
    """y = exp(x), from the real line to the positive numbers.

    >>> ex.distributions.ExpTransform()(ex.tensor(0.0))
    tensor(1.)
    """

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


def _equal_values(a: Value, b: Value) -> bool:
    same = ops.as_tensor(a) == ops.as_tensor(b)
    return bool(same.all())


class PowerTransform(Transform):
    """y = x ** exponent on the positive numbers.

    >>> ex.distributions.PowerTransform(ex.tensor(2.0))(ex.tensor(3.0))
    tensor(9.)
    """

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Value, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.exponent = ops.as_tensor(exponent)

    @property
    def sign(self) -> Any:
        return self.exponent.sign()

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Shape) -> Shape:
        return ops.broadcast_shapes(shape, tuple(self.exponent.shape))

    def inverse_shape(self, shape: Shape) -> Shape:
        return self.forward_shape(shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and _equal_values(self.exponent, other.exponent)

    __hash__ = Transform.__hash__


def clipped_sigmoid(x: Tensor) -> Tensor:
    """sigmoid(x), kept away from 0 and 1 so that the inverse is finite."""
    limits = finfo(x.dtype)
    return x.sigmoid().clamp(min=limits.tiny, max=1 - limits.eps)


class SigmoidTransform(Increasing):
    """y = sigmoid(x), from the real line to (0, 1).

    >>> ex.distributions.SigmoidTransform()(ex.tensor(0.0))
    tensor(0.5000)
    """

    codomain = constraints.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        return clipped_sigmoid(x)

    def _inverse(self, y: Tensor) -> Tensor:
        limits = finfo(y.dtype)
        inside = y.clamp(min=limits.tiny, max=1 - limits.eps)
        return inside.log() - ops.log1p(-inside)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x) - softplus(x)


class SoftplusTransform(Increasing):
    """y = log(1 + exp(x)), from the real line to the positive numbers; close to x where x is large.

    >>> ex.distributions.SoftplusTransform()(ex.tensor(0.0))
    tensor(0.6931)
    """

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return ops.log(-ops.expm1(-y)) + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x)


class TanhTransform(Increasing):
    """y = tanh(x), from the real line to (-1, 1); use cache_size=1 where draws come near the ends.

    >>> ex.distributions.TanhTransform()(ex.tensor(0.0))
    tensor(0.)
    """

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        # log(1 - tanh(x) ** 2), without the cancellation.
        return 2 * (math.log(2) - x - softplus(-2 * x))


class AbsTransform(StatelessTransform):
    """y = |x|, which two numbers share; its inverse is the one that is not negative.

    >>> ex.distributions.AbsTransform()(ex.tensor(-2.0))
    tensor(2.)
    """

    domain = constraints.real
    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class AffineTransform(Transform):
    """y = loc + scale * x; the last `event_dim` dimensions are one event.

    >>> ex.distributions.AffineTransform(1.0, 2.0)(ex.tensor(3.0))
    tensor(7.)
    """

    bijective = True

    def __init__(self, loc: Value, scale: Value, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc = loc
        self.scale = scale
        self._event_dim = event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    @property
    def domain(self) -> Constraint:
        return constraints.independent(constraints.real, self._event_dim) if self._event_dim else constraints.real

    @property
    def codomain(self) -> Constraint:
        return self.domain

    @property
    def sign(self) -> Any:
        if isinstance(self.scale, Tensor):
            return self.scale.sign()
        return 1 if self.scale > 0 else -1 if self.scale < 0 else 0

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        stretch = ops.as_tensor(self.scale, dtype=x.dtype).abs().log()
        return sum_rightmost(stretch.expand(ops.broadcast_shapes(x.shape, stretch.shape)), self._event_dim)

    def forward_shape(self, shape: Shape) -> Shape:
        return ops.broadcast_shapes(shape, _shape_of(self.loc), _shape_of(self.scale))

    def inverse_shape(self, shape: Shape) -> Shape:
        return self.forward_shape(shape)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, AffineTransform)
            and _equal_values(self.loc, other.loc)
            and _equal_values(self.scale, other.scale)
        )

    __hash__ = Transform.__hash__


def _shape_of(value: Value) -> Shape:
    return tuple(value.shape) if isinstance(value, Tensor) else ()


class CumulativeDistributionTransform(Transform):
    """y = distribution.cdf(x), which turns draws of the distribution into uniform ones.

    >>> normal = ex.distributions.Normal(0.0, 1.0)
    >>> ex.distributions.CumulativeDistributionTransform(normal)(ex.tensor(0.0))
    tensor(0.5000)
    """

    bijective = True
    codomain = constraints.unit_interval
    sign = 1

    def __init__(self, distribution: Distribution, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Constraint:
        support: Constraint = self.distribution.support
        return support

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)
