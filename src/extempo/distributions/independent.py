"""Independent: batch dimensions counted as part of the event."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from ..core.tensor import Tensor
from ..core.types import Size
from ..errors import ShapeError, UnsupportedError
from . import constraints
from .distribution import Distribution, Shape
from .utils import sum_rightmost

__all__ = ["Independent"]


class Independent(Distribution):
    """`base_distribution` with its last `reinterpreted_batch_ndims` batch dimensions as part of the event.

    >>> d = ex.distributions.Independent(ex.distributions.Normal(ex.zeros(5, 3), 1.0), 1)
    >>> d.batch_shape, d.event_shape, d.log_prob(ex.zeros(3)).shape
    (extempo.Size([5]), extempo.Size([3]), extempo.Size([5]))
    """

    arg_constraints: ClassVar[constraints.Table] = {}
    _shared = ("base_dist",)

    def __init__(
        self, base_distribution: Distribution, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:
        n_batch = len(base_distribution.batch_shape)
        if not 0 <= reinterpreted_batch_ndims <= n_batch:
            raise ShapeError(
                f"Independent: expected reinterpreted_batch_ndims from 0 to {n_batch}, the batch dimensions of "
                f"{base_distribution}, got {reinterpreted_batch_ndims}"
            )
        shape = base_distribution.batch_shape + base_distribution.event_shape
        cut = n_batch - reinterpreted_batch_ndims
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        self.has_rsample = base_distribution.has_rsample
        self.has_enumerate_support = not reinterpreted_batch_ndims and base_distribution.has_enumerate_support
        super().__init__(shape[:cut], shape[cut:], validate_args)

    @constraints.dependent_property
    def support(self) -> constraints.Constraint:
        inner: constraints.Constraint = self.base_dist.support
        n_dims = self.reinterpreted_batch_ndims
        return constraints.independent(inner, n_dims) if n_dims else inner

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Any) -> Tensor:
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims:
            raise UnsupportedError("Independent: the values of several variables together are too many to list")
        return self.base_dist.enumerate_support(expand)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Self:
        inner = self.event_shape[: self.reinterpreted_batch_ndims]
        new = super().expand(batch_shape, _instance)
        new.base_dist = self.base_dist.expand(Size((*batch_shape, *inner)))
        return new

    def __repr__(self) -> str:
        return f"Independent({self.base_dist}, {self.reinterpreted_batch_ndims})"
