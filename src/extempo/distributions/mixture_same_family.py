"""MixtureSameFamily: draws from one of several components."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from .. import ops
from ..core.context import no_grad
from ..core.tensor import Tensor
from ..core.types import Size
from ..errors import DtypeError, ShapeError
from . import constraints
from .categorical import Categorical
from .distribution import Distribution, Shape

__all__ = ["MixtureSameFamily"]


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
