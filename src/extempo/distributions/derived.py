"""Distributions made of others: with batch dimensions as part of the event, with transformed draws, and mixtures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

from .. import ops
from ..core.context import no_grad
from ..core.tensor import Tensor
from ..core.types import Size
from ..errors import DtypeError, ShapeError, UnsupportedError
from . import constraints
from .discrete import Categorical
from .distribution import Distribution, Shape
from .transforms import ComposeTransform, Transform
from .utils import same_as, sum_rightmost

__all__ = ["Independent", "MixtureSameFamily", "TransformedDistribution"]


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

    mean = same_as("base_dist.mean")
    mode = same_as("base_dist.mode")
    variance = same_as("base_dist.variance")

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


class MixtureSameFamily(Distribution):
    """A Categorical over the last batch dimension of `component_distribution`.

    >>> d = ex.distributions
    >>> mixture = d.MixtureSameFamily(d.Categorical(ex.tensor([0.25, 0.75])), d.Normal(ex.tensor([0.0, 4.0]), 1.0))
    >>> mixture.mean
    tensor(3.)
    """

    arg_constraints: ClassVar[constraints.Table] = {}
    _shared = ("_mixture_distribution", "_component_distribution")

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise DtypeError(
                f"MixtureSameFamily: expected a Categorical to choose components, "
                f"got {type(mixture_distribution).__name__}"
            )
        if not isinstance(component_distribution, Distribution):
            raise DtypeError(
                f"MixtureSameFamily: expected a distribution of components, got {type(component_distribution).__name__}"
            )
        components = component_distribution.batch_shape
        n_chosen = mixture_distribution.param_shape[-1]
        if not components or components[-1] != n_chosen:
            raise ShapeError(
                f"MixtureSameFamily: the mixture chooses among {n_chosen} components, but the batch shape of the "
                f"components is {tuple(components)}; its last size must be {n_chosen}"
            )
        try:
            batch_shape = ops.broadcast_shapes(mixture_distribution.batch_shape, components[:-1])
        except ShapeError:
            batch_shape = Size()
        if tuple(batch_shape) != tuple(components[:-1]):
            raise ShapeError(
                f"MixtureSameFamily: the mixture has batch shape {tuple(mixture_distribution.batch_shape)}, the "
                f"components {tuple(components)}; without its last dimension the latter must hold the former"
            )
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        super().__init__(components[:-1], component_distribution.event_shape, validate_args)

    @property
    def mixture_distribution(self) -> Categorical:
        """What chooses the component."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        """The components, in the last batch dimension."""
        return self._component_distribution

    @constraints.dependent_property
    def support(self) -> constraints.Constraint:
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mean(self) -> Tensor:
        return self._average(self._component_distribution.mean)

    @property
    def variance(self) -> Tensor:
        within = self._average(self._component_distribution.variance)
        distance = self._component_distribution.mean - self._component_dim(self.mean)
        return within + self._average(distance.square())

    def _average(self, of_components: Tensor) -> Tensor:
        """The mean over components, weighted by their probability."""
        n_event = len(self._event_shape)
        probs = self._mixture_distribution.probs
        weights = probs.reshape((*probs.shape, *(1 for _ in range(n_event))))
        return (weights * of_components).sum(-1 - n_event)

    def _component_dim(self, value: Tensor) -> Tensor:
        return value.unsqueeze(-1 - len(self._event_shape))

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        n_event = len(self._event_shape)
        with no_grad():
            draws = self._component_distribution.sample(sample_shape)
            chosen = self._mixture_distribution.expand(self._batch_shape).sample(sample_shape)
            index = chosen.reshape((*chosen.shape, 1, *(1 for _ in range(n_event))))
            dim = draws.ndim - 1 - n_event
            index = index.expand((*draws.shape[:dim], 1, *draws.shape[dim + 1 :]))
            return draws.gather(dim, index).reshape(shape)

    def log_prob(self, value: Any) -> Tensor:
        log_probs = self._component_distribution.log_prob(self._component_dim(self._checked(value)))
        return (log_probs + self._mixture_distribution.logits.log_softmax(-1)).logsumexp(-1)

    def cdf(self, value: Any) -> Tensor:
        below = self._component_distribution.cdf(self._component_dim(self._checked(value)))
        return (below * self._mixture_distribution.probs).sum(-1)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Self:
        new = super().expand(batch_shape, _instance)
        n_components = self._component_distribution.batch_shape[-1]
        new._component_distribution = self._component_distribution.expand(Size((*batch_shape, n_components)))
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        return new

    def __repr__(self) -> str:
        return f"MixtureSameFamily({self._mixture_distribution}, {self._component_distribution})"
