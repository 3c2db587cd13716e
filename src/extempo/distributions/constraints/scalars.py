"""Constraints of single numbers."""

from __future__ import annotations

from ... import ops
from ...core.tensor import Tensor
from ...core.types import Number
from .base import Constraint

Bound = Tensor | Number


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
