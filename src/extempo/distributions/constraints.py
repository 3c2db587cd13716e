"""Sets that parameters and samples lie in: each says of a tensor, element by element or event by event, what is inside.

A constraint's last `event_dim` dimensions belong together: `check` returns one bool for each event.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import ops
from .._tensor import Tensor
from ..errors import ShapeError, UnsupportedError
from ..linalg import cholesky_ex, eigvalsh
from ..types import Number, finfo

__all__ = [
    "Constraint",
    "MixtureSameFamilyConstraint",
    "boolean",
    "cat",
    "corr_cholesky",
    "dependent",
    "dependent_property",
    "greater_than",
    "greater_than_eq",
    "half_open_interval",
    "independent",
    "integer_interval",
    "interval",
    "is_dependent",
    "less_than",
    "lower_cholesky",
    "lower_triangular",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_definite",
    "positive_integer",
    "positive_semidefinite",
    "real",
    "real_vector",
    "simplex",
    "square",
    "stack",
    "symmetric",
    "unit_interval",
]

Bound = Tensor | Number


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


# ---- numbers


class _Boolean(Constraint):
    """The numbers 0 and 1, or bools.

    >>> ex.distributions.constraints.boolean.check(ex.tensor([0.0, 0.5]))
    tensor([ True, False])
    """

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value == 0) | (value == 1)


class _Real(Constraint):
    """Every number that is not NaN.

    >>> ex.distributions.constraints.real.check(ex.tensor([1.0, float("nan")]))
    tensor([ True, False])
    """

    def check(self, value: Tensor) -> Tensor:
        return value == value


class _GreaterThan(Constraint):
    """Numbers above a bound.

    >>> ex.distributions.constraints.greater_than(1.0).check(ex.tensor([1.0, 2.0]))
    tensor([False,  True])
    """

    def __init__(self, lower_bound: Bound) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Tensor) -> Tensor:
        return ops.gt(value, self.lower_bound)


class _GreaterThanEq(Constraint):
    """Numbers from a bound up.

    >>> ex.distributions.constraints.greater_than_eq(1.0).check(ex.tensor([1.0, 0.5]))
    tensor([ True, False])
    """

    def __init__(self, lower_bound: Bound) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Tensor) -> Tensor:
        return ops.ge(value, self.lower_bound)


class _LessThan(Constraint):
    """Numbers below a bound.

    >>> ex.distributions.constraints.less_than(1.0).check(ex.tensor([1.0, 0.5]))
    tensor([False,  True])
    """

    def __init__(self, upper_bound: Bound) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return ops.lt(value, self.upper_bound)


class _Interval(Constraint):
    """Numbers between two bounds, both included.

    >>> ex.distributions.constraints.interval(0.0, 1.0).check(ex.tensor([1.0, 1.5]))
    tensor([ True, False])
    """

    def __init__(self, lower_bound: Bound, upper_bound: Bound) -> None:
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return ops.ge(value, self.lower_bound) & ops.le(value, self.upper_bound)


class _HalfOpenInterval(_Interval):
    """Numbers between two bounds, the lower included and the upper not.

    >>> ex.distributions.constraints.half_open_interval(0.0, 1.0).check(ex.tensor([0.0, 1.0]))
    tensor([ True, False])
    """

    def check(self, value: Tensor) -> Tensor:
        return ops.ge(value, self.lower_bound) & ops.lt(value, self.upper_bound)


class _IntegerInterval(_Interval):
    """Whole numbers between two bounds, both included.

    >>> ex.distributions.constraints.integer_interval(0, 2).check(ex.tensor([2.0, 0.5]))
    tensor([ True, False])
    """

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & super().check(value)


class _IntegerGreaterThanEq(_GreaterThanEq):
    """Whole numbers from a bound up.

    >>> ex.distributions.constraints.nonnegative_integer.check(ex.tensor([-1, 0, 3]))
    tensor([False,  True,  True])
    """

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & super().check(value)


# ---- vectors


class _Simplex(Constraint):
    """Vectors of nonnegative numbers that add up to 1, within 1e-6 or the rounding of a shorter dtype.

    >>> ex.distributions.constraints.simplex.check(ex.tensor([[0.2, 0.8], [0.5, 0.6]]))
    tensor([ True, False])
    """

    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        tolerance = max(1e-6, 10 * finfo(value.dtype).eps) if value.is_floating_point() else 1e-6
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < tolerance)


class _OneHot(Constraint):
    """Vectors of one 1 and otherwise 0.

    >>> ex.distributions.constraints.one_hot.check(ex.tensor([[0, 1], [1, 1]]))
    tensor([ True, False])
    """

    is_discrete = True
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


class _Multinomial(Constraint):
    """Vectors of nonnegative numbers that add up to at most `upper_bound`.

    >>> ex.distributions.constraints.multinomial(3).check(ex.tensor([[1, 2], [2, 2]]))
    tensor([ True, False])
    """

    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Bound) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & ops.le(value.sum(-1), self.upper_bound)


# ---- matrices


class _Square(Constraint):
    """Matrices with as many rows as columns.

    >>> ex.distributions.constraints.square.check(ex.zeros(2, 3))
    tensor(False)
    """

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return ops.full(value.shape[:-2], value.shape[-2] == value.shape[-1])


class _Symmetric(_Square):
    """Square matrices equal to their transpose, within 1e-6.

    >>> ex.distributions.constraints.symmetric.check(ex.tensor([[1.0, 2.0], [3.0, 1.0]]))
    tensor(False)
    """

    def check(self, value: Tensor) -> Tensor:
        if value.shape[-2] != value.shape[-1]:
            return super().check(value)
        return ops.isclose(value, value.mT, atol=1e-6).all(-2).all(-1)


class _PositiveSemidefinite(_Symmetric):
    """Symmetric matrices without negative eigenvalues.

    >>> ex.distributions.constraints.positive_semidefinite.check(ex.tensor([[1.0, 1.0], [1.0, 1.0]]))
    tensor(True)
    """

    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if not symmetric.all():
            return symmetric
        return symmetric & (eigvalsh(value) >= 0).all(-1)


class _PositiveDefinite(_Symmetric):
    """Symmetric matrices with a Cholesky factor.

    >>> ex.distributions.constraints.positive_definite.check(ex.tensor([[2.0, 1.0], [1.0, 2.0]]))
    tensor(True)
    """

    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if not symmetric.all():
            return symmetric
        return symmetric & (cholesky_ex(value.detach()).info == 0)


class _LowerTriangular(Constraint):
    """Matrices that are 0 above the diagonal.

    >>> ex.distributions.constraints.lower_triangular.check(ex.tensor([[1.0, 1.0], [0.0, 1.0]]))
    tensor(False)
    """

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return (value.tril() == value).all(-2).all(-1)


class _LowerCholesky(_LowerTriangular):
    """Lower triangular matrices with a positive diagonal.

    >>> ex.distributions.constraints.lower_cholesky.check(ex.tensor([[1.0, 0.0], [3.0, 2.0]]))
    tensor(True)
    """

    def check(self, value: Tensor) -> Tensor:
        return super().check(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(_LowerCholesky):
    """Lower triangular matrices with a positive diagonal and rows of length 1.

    >>> ex.distributions.constraints.corr_cholesky.check(ex.tensor([[1.0, 0.0], [0.6, 0.8]]))
    tensor(True)
    """

    def check(self, value: Tensor) -> Tensor:
        tolerance = finfo(value.dtype).eps * value.shape[-1] * 10
        return super().check(value) & ((value.square().sum(-1) - 1).abs() < tolerance).all(-1)


# ---- tensors of parts


class _Parts(Constraint):
    """Tensors made of parts along a dimension, each with a constraint of its own."""

    def __init__(self, cseq: Sequence[Constraint], dim: int) -> None:
        self.cseq = list(cseq)
        self.dim = dim

    @property
    def is_discrete(self) -> bool:
        return any(part.is_discrete for part in self.cseq)

    @property
    def event_dim(self) -> int:
        return max(part.event_dim for part in self.cseq)


class _Cat(_Parts):
    """Parts joined along a dimension, of the lengths given (1 each, unless given).

    >>> constraints = ex.distributions.constraints
    >>> constraints.cat([constraints.positive, constraints.real], dim=-1, lengths=[1, 2]).check(ex.tensor([1.0, -1.0, 0.0]))
    tensor([True, True, True])
    """

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None) -> None:
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise ShapeError(f"cat: expected one length for each of {len(self.cseq)} parts, got {len(self.lengths)}")

    def check(self, value: Tensor) -> Tensor:
        parts = value.split(self.lengths, self.dim)
        return ops.cat([c.check(part) for c, part in zip(self.cseq, parts, strict=True)], self.dim)


class _Stack(_Parts):
    """Parts stacked along a dimension.

    >>> constraints = ex.distributions.constraints
    >>> constraints.stack([constraints.positive, constraints.real], dim=-1).check(ex.tensor([[1.0, -1.0], [-1.0, 0.0]]))
    tensor([[ True,  True],
            [False,  True]])
    """

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        super().__init__(cseq, dim)

    @property
    def event_dim(self) -> int:
        dims = super().event_dim
        return dims + 1 if self.dim + dims < 0 else dims

    def check(self, value: Tensor) -> Tensor:
        parts = value.unbind(self.dim)
        return ops.stack([c.check(part) for c, part in zip(self.cseq, parts, strict=True)], self.dim)


dependent = _Dependent()
dependent_property = _DependentProperty
independent = _Independent
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = _IntegerGreaterThanEq(0)
positive_integer = _IntegerGreaterThanEq(1)
integer_interval = _IntegerInterval
real = _Real()
real_vector = independent(real, 1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _Multinomial
unit_interval = _Interval(0.0, 1.0)
interval = _Interval
half_open_interval = _HalfOpenInterval
simplex = _Simplex()
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
cat = _Cat
stack = _Stack
