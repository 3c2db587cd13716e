"""Distribution: what every distribution has in common.

A sample's shape is sample_shape + batch_shape + event_shape: independent draws, independent distributions, and the
numbers of one draw. Tensors that an instance holds begin with its batch shape, so one `expand` serves all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, NoReturn, Self

from .. import ops
from ..core.context import no_grad
from ..core.tensor import Tensor
from ..core.types import Size, broadcast_shapes
from ..errors import DtypeError, NumericalError, ShapeError, UnsupportedError
from .constraints import Constraint, Table, is_dependent
from .utils import lazy_property

Shape = Iterable[int]


class Distribution:
    """The base of all distributions; subclasses define `rsample` or `sample`, `log_prob` and what else they can.

    >>> class Coin(ex.distributions.Distribution):
    ...     support = ex.distributions.constraints.boolean
    ...     def log_prob(self, value):
    ...         return ex.full(value.shape, 0.5).log()
    >>> Coin(validate_args=False).log_prob(ex.ones(2)).exp()
    tensor([0.5000, 0.5000])
    """

    has_rsample: bool = False
    has_enumerate_support: bool = False
    _validate_args: bool = __debug__
    _shared: ClassVar[tuple[str, ...]] = ()  # tensors that expand leaves as they are

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether distributions check parameters and values unless asked otherwise; under `python -O` they do not.

        >>> ex.distributions.Distribution.set_default_validate_args(True)
        """
        if value not in (True, False):
            raise DtypeError(f"set_default_validate_args: expected True or False, got {value!r}")
        Distribution._validate_args = value

    def __init__(self, batch_shape: Shape = (), event_shape: Shape = (), validate_args: bool | None = None) -> None:
        self._batch_shape = Size(batch_shape)
        self._event_shape = Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()

    def _check_parameters(self) -> None:
        try:
            constraints = self.arg_constraints
        except NotImplementedError:
            return
        for name, constraint in constraints.items():
            if not is_dependent(constraint) and self._is_given(name):
                self._require(f"parameter {name}", getattr(self, name), constraint)

    def _is_given(self, name: str) -> bool:
        """Whether a parameter is there, and not one that would first have to be computed from another."""
        return name in self.__dict__ or not isinstance(getattr(type(self), name, None), lazy_property)

    def _require(self, what: str, value: Any, constraint: Constraint) -> None:
        """Raise unless every element lies inside, naming the first that does not."""
        if not isinstance(value, Tensor):
            return
        inside = constraint.check(value)
        if inside.all():
            return
        index = tuple(int(i) for i in (~inside).nonzero()[0])
        found = value[index] if inside.shape == value.shape[: inside.ndim] else value
        where = f" at index {index}" if index else ""
        raise NumericalError(
            f"{type(self).__name__}: expected {what} of shape {tuple(value.shape)} to satisfy {constraint}, but found "
            f"{found.tolist()}{where}; ex.distributions.transform_to(constraint) maps free numbers there, "
            "validate_args=False skips the check"
        )

    # ---- what it is

    @property
    def batch_shape(self) -> Size:
        """The shape of the independent distributions that this object holds."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one draw from one of them."""
        return self._event_shape

    @property
    def arg_constraints(self) -> Table:
        """The constraint that each parameter must satisfy, by its name."""
        self._lacks("arg_constraints")

    @property
    def support(self) -> Any:
        """The constraint that every draw satisfies."""
        self._lacks("support")

    @property
    def mean(self) -> Tensor:
        """The mean of each distribution."""
        self._lacks("mean")

    @property
    def mode(self) -> Tensor:
        """The most probable value of each distribution."""
        self._lacks("mode")

    @property
    def variance(self) -> Tensor:
        """The variance of each distribution."""
        self._lacks("variance")

    @property
    def stddev(self) -> Tensor:
        """The standard deviation of each distribution."""
        return self.variance.sqrt()

    def _lacks(self, what: str) -> NoReturn:
        raise UnsupportedError(f"{type(self).__name__}: {what} is not defined for this distribution")

    # ---- draws

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Draws, without a gradient to the parameters."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Draws with a gradient to the parameters."""
        raise UnsupportedError(
            f"{type(self).__name__}: its draws have no gradient to its parameters; use sample, and log_prob in the loss"
        )

    def sample_n(self, n: int) -> Tensor:
        """`sample((n,))`, by its old name."""
        return self.sample((n,))

    def _extended_shape(self, sample_shape: Shape = ()) -> Size:
        """The shape of draws of this sample shape."""
        if isinstance(sample_shape, int):
            raise DtypeError(
                f"{type(self).__name__}: expected a sample shape such as ({sample_shape},), got the int {sample_shape}"
            )
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    # ---- probabilities

    def log_prob(self, value: Any) -> Tensor:
        """The logarithm of the density, or of the probability, of a value."""
        self._lacks("log_prob")

    def cdf(self, value: Any) -> Tensor:
        """The probability of a draw up to a value."""
        self._lacks("cdf")

    def icdf(self, value: Any) -> Tensor:
        """The value up to which draws have this probability."""
        self._lacks("icdf")

    def entropy(self) -> Tensor:
        """The expected -log_prob of a draw, in nats."""
        self._lacks("entropy")

    def perplexity(self) -> Tensor:
        """exp(entropy): of how many equally likely outcomes this is the uncertainty."""
        return self.entropy().exp()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values that a draw can have, in a new first dimension; one column for all the batch with expand=False."""
        self._lacks("enumerate_support")

    def _enumerated(self, values: Tensor, expand: bool) -> Tensor:
        """Values (n, *event) with the batch dimensions put in."""
        event = values.shape[1:]
        values = values.reshape((-1, *(1 for _ in self._batch_shape), *event))
        return values.expand((-1, *self._batch_shape, *event)) if expand else values

    def _checked(self, value: Any) -> Tensor:
        """The value as a tensor, validated if this distribution validates."""
        value = value if isinstance(value, Tensor) else ops.as_tensor(value)
        if self._validate_args:
            self._validate_sample(value)
        return value

    def _validate_sample(self, value: Tensor) -> None:
        """Raise unless the value has a shape that fits and lies in the support."""
        if not isinstance(value, Tensor):
            raise DtypeError(
                f"{type(self).__name__}: expected a tensor, got {type(value).__name__}; use ex.tensor(...)"
            )
        own = (*self._batch_shape, *self._event_shape)
        n_event = len(self._event_shape)
        if tuple(value.shape[value.ndim - n_event :]) != tuple(self._event_shape) or value.ndim < n_event:
            raise ShapeError(
                f"{type(self).__name__}: expected a value of event shape {tuple(self._event_shape)} last, got a value "
                f"of shape {tuple(value.shape)}"
            )
        try:
            broadcast_shapes(tuple(value.shape), own)
        except ShapeError:
            raise ShapeError(
                f"{type(self).__name__}: a value of shape {tuple(value.shape)} does not broadcast with batch and event "
                f"shape {own}"
            ) from None
        try:
            support = self.support
        except NotImplementedError:
            return
        self._require("the value", value, support)

    # ---- the same with another batch shape

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Self:
        """This distribution with a batch shape that its own broadcasts to; no memory is copied."""
        wanted = Size(batch_shape)
        new = self._get_checked_instance(type(self), _instance)
        for name, value in self.__dict__.items():
            new.__dict__[name] = value if name in self._shared else self._expanded(value, wanted)
        new._batch_shape = wanted
        return new

    def _get_checked_instance(self, cls: type[Any], _instance: Any = None) -> Any:
        """An instance to fill in, as `expand` methods written for PyTorch ask for it."""
        return type(self).__new__(type(self)) if _instance is None else _instance

    def _expanded(self, value: Any, batch_shape: Size) -> Any:
        n_batch = len(self._batch_shape)
        if isinstance(value, Tensor) and value.shape[:n_batch] == self._batch_shape:
            return value.expand((*batch_shape, *value.shape[n_batch:]))
        if isinstance(value, Distribution) and value.batch_shape[:n_batch] == self._batch_shape:
            return value.expand((*batch_shape, *value.batch_shape[n_batch:]))
        return value

    def __repr__(self) -> str:
        shown = []
        for name in filter(self._is_given, self.arg_constraints):
            value = getattr(self, name)
            shown.append(f"{name}: {value.tolist() if value.numel() == 1 else tuple(value.shape)}")
        return f"{type(self).__name__}({', '.join(shown)})"
