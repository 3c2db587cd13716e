"""Constraint: a set of tensors, and the ones that depend on or are made of others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...core.tensor import Tensor
from ...errors import ShapeError, UnsupportedError


class Constraint:
    """A set of tensors. Subclasses define `check`, and `event_dim` where several numbers make one element.

    >>> ex.distributions.constraints.positive.check(ex.tensor([-1.0, 2.0]))
    tensor([False,  True])
    """

    @property
    def is_discrete(self) -> bool:
        """Whether the set consists of separate points."""
        return False

    @property
    def event_dim(self) -> int:
        """How many of the last dimensions make one element."""
        return 0

    def check(self, value: Tensor) -> Tensor:
        """For each event of `value`, whether it lies inside."""
        raise NotImplementedError

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={_short(value)}" for name, value in vars(self).items())
        return f"{type(self).__name__.lstrip('_')}({shown})"


Table = Mapping[str, Constraint]  # of parameters, by their names


def _short(value: Any) -> str:
    if not isinstance(value, Tensor):
        return repr(value)
    return str(value.item()) if value.numel() == 1 else f"<tensor of shape {tuple(value.shape)}>"


class _Dependent(Constraint):
    """A set that depends on other values, so that nothing can be checked against it.

    >>> constraints = ex.distributions.constraints
    >>> constraints.is_dependent(constraints.dependent)
    True
    """

    def __init__(self, *, is_discrete: bool | None = None, event_dim: int | None = None) -> None:
        self._is_discrete = is_discrete
        self._event_dim = event_dim

    @property
    def is_discrete(self) -> bool:
        return bool(self._known("is_discrete", self._is_discrete))

    @property
    def event_dim(self) -> int:
        return int(self._known("event_dim", self._event_dim))

    def _known(self, name: str, value: Any) -> Any:
        if value is None:
            raise UnsupportedError(
                f"dependent: {name} of this constraint is known of an instance only; ask distribution.support.{name}"
            )
        return value

    def __call__(self, *, is_discrete: bool | None = None, event_dim: int | None = None) -> _Dependent:
        """The same with more said about it: `constraints.dependent(event_dim=1)`."""
        return _Dependent(
            is_discrete=self._is_discrete if is_discrete is None else is_discrete,
            event_dim=self._event_dim if event_dim is None else event_dim,
        )

    def check(self, value: Tensor) -> Tensor:
        raise UnsupportedError("dependent: what lies inside depends on an instance; use distribution.support")


def is_dependent(constraint: Any) -> bool:
    """Whether the set depends on other values, so that it cannot be checked alone.

    >>> ex.distributions.constraints.is_dependent(ex.distributions.constraints.real)
    False
    """
    return isinstance(constraint, _Dependent)


class _DependentProperty(property, _Dependent):
    """A decorator: a property of a distribution that is a constraint, with what its class already knows of it.

    >>> constraints = ex.distributions.constraints
    >>> class Grid(ex.distributions.Distribution):
    ...     @constraints.dependent_property(is_discrete=True, event_dim=0)
    ...     def support(self):
    ...         return constraints.integer_interval(0, self.size)
    >>> Grid.support.is_discrete
    True
    """

    def __init__(
        self, fn: Callable[..., Any] | None = None, *, is_discrete: bool | None = None, event_dim: int | None = None
    ) -> None:
        property.__init__(self, fn)
        _Dependent.__init__(self, is_discrete=is_discrete, event_dim=event_dim)

    def __call__(self, fn: Callable[..., Any]) -> _DependentProperty:  # type: ignore[override] # a decorator's call
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


class _Independent(Constraint):
    """Arrays that lie inside when all their numbers do; the last `reinterpreted_batch_ndims` dimensions are one event.

    >>> vectors = ex.distributions.constraints.independent(ex.distributions.constraints.positive, 1)
    >>> vectors.check(ex.tensor([[1.0, 2.0], [1.0, -2.0]]))
    tensor([ True, False])
    """

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def is_discrete(self) -> bool:
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        inside = self.base_constraint.check(value)
        if inside.ndim < self.reinterpreted_batch_ndims:
            raise ShapeError(f"independent: expected at least {self.event_dim} dimensions, got {tuple(value.shape)}")
        return _all_of_last(inside, self.reinterpreted_batch_ndims)


def _all_of_last(inside: Tensor, n_dims: int) -> Tensor:
    return inside.flatten(inside.ndim - n_dims).all(-1) if n_dims else inside


class MixtureSameFamilyConstraint(Constraint):
    """What lies inside the support of every component, for components that have one dimension more than the value.

    >>> constraints = ex.distributions.constraints
    >>> upper = constraints.less_than(ex.tensor([1.0, 3.0]))
    >>> constraints.MixtureSameFamilyConstraint(upper).check(ex.tensor([0.5, 2.0]))
    tensor([ True, False])
    """

    def __init__(self, base_constraint: Constraint) -> None:
        self.base_constraint = base_constraint

    @property
    def is_discrete(self) -> bool:
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:
        return self.base_constraint.event_dim

    def check(self, value: Tensor) -> Tensor:
        inside = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        # A component's check reduces the event, so the components are last.
        return inside.all(-1)
