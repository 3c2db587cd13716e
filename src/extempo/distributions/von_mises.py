"""VonMises: the bell curve on a circle."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from .. import ops
from ..core.context import no_grad
from ..core.tensor import Tensor
from ..core.types import float64
from ..special import i0e, i1e
from . import constraints
from .distribution import Distribution, Shape
from .utils import LOG_TWO_PI, Value, broadcast_all

__all__ = ["VonMises"]


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

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

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
