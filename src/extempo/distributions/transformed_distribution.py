"""TransformedDistribution: the distribution of a transform of draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

from .. import ops
from ..core.context import no_grad
from ..core.tensor import Tensor
from ..errors import DtypeError, ShapeError
from . import constraints
from .distribution import Distribution, Shape
from .independent import Independent
from .transforms import ComposeTransform, Transform
from .utils import sum_rightmost

__all__ = ["TransformedDistribution"]


class TransformedDistribution(Distribution):
    """The distribution of transform(x) for x from `base_distribution`; a list of transforms is run from its first on.

    >>> d = ex.distributions
    >>> log_normal = d.TransformedDistribution(d.Normal(0.0, 1.0), [d.ExpTransform()])
    >>> log_normal.log_prob(ex.tensor(1.0))
    tensor(-0.9189)
    """

    arg_constraints: ClassVar[constraints.Table] = {}
    _shared = ("base_dist",)

    def __init__(
        self,
        base_distribution: Distribution,
        transforms: Transform | Sequence[Transform],
        validate_args: bool | None = None,
    ) -> None:
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        if not all(isinstance(t, Transform) for t in self.transforms):
            raise DtypeError(f"{type(self).__name__}: expected a transform or a list of them, got {transforms!r}")
        transform = ComposeTransform(self.transforms)
        self.base_dist, forward_shape = _fitted(base_distribution, transform)
        n_domain, n_codomain = transform.domain.event_dim, transform.codomain.event_dim
        n_event = max(n_codomain, len(self.base_dist.event_shape) + n_codomain - n_domain)
        cut = len(forward_shape) - n_event
        self.has_rsample = self.base_dist.has_rsample
        super().__init__(forward_shape[:cut], forward_shape[cut:], validate_args)

    @constraints.dependent_property
    def support(self) -> constraints.Constraint:
        if not self.transforms:
            inner: constraints.Constraint = self.base_dist.support
            return inner
        codomain: constraints.Constraint = self.transforms[-1].codomain
        missing = len(self.event_shape) - codomain.event_dim
        return constraints.independent(codomain, missing) if missing > 0 else codomain

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with no_grad():
            return self._forward(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self._forward(self.base_dist.rsample(sample_shape))

    def _forward(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def log_prob(self, value: Any) -> Tensor:
        y = self._checked(value)
        event_dim = len(self.event_shape)
        log_prob: Any = 0.0
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            event_dim += transform.domain.event_dim - transform.codomain.event_dim
            stretch = transform.log_abs_det_jacobian(x, y)
            log_prob = log_prob - sum_rightmost(stretch, event_dim - transform.domain.event_dim)
            y = x
        return log_prob + sum_rightmost(self.base_dist.log_prob(y), event_dim - len(self.base_dist.event_shape))

    def cdf(self, value: Any) -> Tensor:
        value = self._checked(value)
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        return self._monotone(self.base_dist.cdf(value))

    def icdf(self, value: Any) -> Tensor:
        return self._forward(self.base_dist.icdf(self._monotone(ops.as_tensor(value))))

    def _monotone(self, probability: Tensor) -> Tensor:
        """The probability of the same event, seen through decreasing transforms from the other side."""
        sign = ComposeTransform(self.transforms).sign
        return probability if isinstance(sign, int) and sign == 1 else sign * (probability - 0.5) + 0.5

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Self:
        wanted = (*batch_shape, *self.event_shape)
        for transform in reversed(self.transforms):
            wanted = tuple(transform.inverse_shape(wanted))
        new = super().expand(batch_shape, _instance)
        new.base_dist = self.base_dist.expand(wanted[: len(wanted) - len(self.base_dist.event_shape)])
        return new

    def __repr__(self) -> str:
        if self.arg_constraints:
            return super().__repr__()
        return f"{type(self).__name__}({self.base_dist}, {self.transforms})"


def _fitted(base: Distribution, transform: Transform) -> tuple[Distribution, tuple[int, ...]]:
    """The base with the batch and event shape that the transform takes, and the shape of what comes out."""
    shape = tuple(base.batch_shape + base.event_shape)
    if len(shape) < transform.domain.event_dim:
        raise ShapeError(
            f"TransformedDistribution: the transform takes events of {transform.domain.event_dim} dimensions, the base "
            f"distribution has batch and event shape {shape}; expand it first"
        )
    forward_shape = tuple(transform.forward_shape(shape))
    needed = tuple(transform.inverse_shape(forward_shape))
    if needed != shape:  # the transform's parameters have batch dimensions of their own
        base = base.expand(needed[: len(needed) - len(base.event_shape)])
    missing = transform.domain.event_dim - len(base.event_shape)
    return (Independent(base, missing) if missing > 0 else base), forward_shape
