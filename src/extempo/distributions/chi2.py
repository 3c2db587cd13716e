"""Chi2: the sum of squares of normal draws."""

from __future__ import annotations

from typing import ClassVar

from ..core.tensor import Tensor
from . import constraints
from .gamma import Gamma
from .utils import Value, broadcast_all

__all__ = ["Chi2"]


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
