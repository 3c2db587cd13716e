"""LocationScale: distributions of loc + scale * z, where z follows a fixed law on the real line."""

from __future__ import annotations

from typing import Any, ClassVar

from ..core.tensor import Tensor
from . import constraints
from .distribution import Distribution, Shape
from .utils import Value, broadcast_all


class LocationScale(Distribution):
    """What Normal, Laplace, Cauchy and Gumbel share; a subclass says how z is drawn."""

    arg_constraints: ClassVar[constraints.Table] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Value, scale: Value, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mode(self) -> Tensor:
        return self.loc

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self.loc + self.scale * self._standard_draw(self._extended_shape(sample_shape))

    def _standard_draw(self, shape: tuple[int, ...]) -> Tensor:
        """Draws of z."""
        raise NotImplementedError

    def _standardized(self, value: Any) -> Tensor:
        """The z of a value."""
        return (self._checked(value) - self.loc) / self.scale
