"""Distributions over correlation matrices."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from .. import ops
from ..core.context import no_grad
from ..core.tensor import Tensor
from ..core.types import finfo
from ..errors import ShapeError
from ..ops import mvlgamma
from . import constraints
from .bounded import Beta
from .distribution import Distribution, Shape
from .utils import Value, broadcast_all

__all__ = ["LKJCholesky"]


class LKJCholesky(Distribution):
    """Cholesky factors of `dim` by `dim` correlation matrices of density det ** (concentration - 1).

    At concentration 1 all correlation matrices are equally likely; above, those near the identity are likelier. Draws
    are made row by row ("onion", Lewandowski, Kurowicka and Joe 2009).

    >>> ex.distributions.LKJCholesky(3).sample().shape
    extempo.Size([3, 3])
    """

    arg_constraints: ClassVar[constraints.Table] = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim: int, concentration: Value = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ShapeError(f"LKJCholesky: expected matrices of at least 2 rows, got dim={dim}")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        super().__init__(self.concentration.shape, (dim, dim), validate_args)
        # Row i + 1 leaves a share of its length to the diagonal that has this distribution.
        rows = ops.arange(dim - 1, dtype=self.concentration.dtype)
        offset = self.concentration.unsqueeze(-1) + 0.5 * (dim - 2)
        self._beta = Beta((rows + 1) / 2, offset - 0.5 * rows, validate_args=False)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Any:
        new = self._get_checked_instance(type(self), _instance)
        concentration = self.concentration.expand(tuple(batch_shape))
        LKJCholesky.__init__(new, self.dim, concentration, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with no_grad():
            squared = self._beta.sample(sample_shape).unsqueeze(-1)
            directions = ops.randn(self._extended_shape(sample_shape), dtype=squared.dtype).tril(-1)[..., 1:, :]
            directions = directions / directions.norm(dim=-1, keepdim=True)
            below = squared.sqrt() * directions
            above = ops.zeros((*below.shape[:-2], 1, self.dim), dtype=below.dtype)
            factor = ops.cat([above, below], -2)
            tiny = finfo(factor.dtype).tiny
            return factor + (1 - factor.square().sum(-1)).clamp(min=tiny).sqrt().diag_embed()

    def log_prob(self, value: Any) -> Tensor:
        diagonal = self._checked(value).diagonal(dim1=-2, dim2=-1)[..., 1:]
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - ops.arange(2, self.dim + 1)
        return (order * diagonal.log()).sum(-1) - self._log_normalizer()

    def _log_normalizer(self) -> Tensor:
        n = self.dim - 1
        alpha = self.concentration + 0.5 * n
        return 0.5 * n * math.log(math.pi) + mvlgamma(alpha - 0.5, n) - n * alpha.lgamma()
