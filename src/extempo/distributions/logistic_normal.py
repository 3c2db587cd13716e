"""LogisticNormal: probability vectors made of normal variables."""

from __future__ import annotations

from typing import Any, ClassVar

from ..core.tensor import Tensor
from ..errors import ShapeError
from . import constraints
from .independent import Independent
from .normal import Normal
from .transformed_distribution import TransformedDistribution
from .transforms import StickBreakingTransform
from .utils import Value

__all__ = ["LogisticNormal"]


class LogisticNormal(TransformedDistribution):
    """n + 1 probabilities by stick breaking from n normal variables of means `loc` (..., n) and deviations `scale`.

    >>> ex.distributions.LogisticNormal(ex.zeros(2), ex.ones(2)).sample().shape
    extempo.Size([3])
    """

    arg_constraints: ClassVar[constraints.Table] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    base_dist: Any

    def __init__(self, loc: Value, scale: Value, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=False)
        if not base.batch_shape:
            raise ShapeError("LogisticNormal: expected loc or scale of at least 1 dimension, the last for the vector")
        super().__init__(Independent(base, 1), StickBreakingTransform(), validate_args)

    @property
    def loc(self) -> Tensor:
        """The means of the normal variables."""
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """The standard deviations of the normal variables."""
        return self.base_dist.base_dist.scale
