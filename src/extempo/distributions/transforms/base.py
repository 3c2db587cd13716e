"""Transform: an invertible map between sets of tensors, with the logarithm of how it stretches volume.

`t(x)` maps forwards, `t.inv` is the inverse as a transform of its own, `log_abs_det_jacobian(x, y)` has one number for
each event. A transform with cache_size=1 remembers its last pair, so that `t.inv(t(x))` is x itself, bit for bit.
"""

from __future__ import annotations

import copy
import functools
import operator
from collections.abc import Sequence
from typing import Any

from ... import ops
from ...core.tensor import Tensor
from ...core.types import Size
from ...errors import DtypeError, ShapeError, UnsupportedError
from .. import constraints
from ..constraints import Constraint
from ..utils import sum_rightmost

__all__ = ["ComposeTransform", "IndependentTransform", "ReshapeTransform", "Transform", "identity_transform"]

Shape = tuple[int, ...]


class Transform:
    """The base of all transforms; subclasses define `domain`, `codomain`, `_call`, `_inverse`, `log_abs_det_jacobian`.

    >>> class Double(ex.distributions.Transform):
    ...     domain = codomain = ex.distributions.constraints.real
    ...     bijective = True
    ...     def _call(self, x):
    ...         return 2 * x
    ...     def _inverse(self, y):
    ...         return y / 2
    >>> Double().inv(ex.tensor(3.0))
    tensor(1.5000)
    """

    bijective: Any = False

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise DtypeError(f"{type(self).__name__}: cache_size must be 0 or 1, got {cache_size!r}")
        self._cache_size = cache_size
        self._inv: Transform | None = None
        self._cached: tuple[Any, Any] = (None, None)

    @property
    def domain(self) -> Any:
        """The constraint of inputs."""
        raise NotImplementedError

    @property
    def codomain(self) -> Any:
        """The constraint of outputs."""
        raise NotImplementedError

    @property
    def sign(self) -> Any:
        """1 for an increasing and -1 for a decreasing map of numbers."""
        raise UnsupportedError(f"{type(self).__name__}: it neither increases nor decreases everywhere")

    @property
    def event_dim(self) -> int:
        """How many of the last dimensions make one element, where inputs and outputs agree on it."""
        if self.domain.event_dim != self.codomain.event_dim:
            raise ShapeError(
                f"{type(self).__name__}: inputs have {self.domain.event_dim} event dimensions and outputs "
                f"{self.codomain.event_dim}; ask domain.event_dim or codomain.event_dim"
            )
        return int(self.domain.event_dim)

    @property
    def inv(self) -> Transform:
        """The inverse; its inverse is this transform again."""
        if self._inv is None:
            self._inv = _InverseTransform(self)
        return self._inv

    def with_cache(self, cache_size: int = 1) -> Transform:
        """This transform with another cache size."""
        if self._cache_size == cache_size:
            return self
        other = copy.copy(self)
        Transform.__init__(other, cache_size)
        return other

    def __call__(self, x: Tensor) -> Tensor:
        """The image of x."""
        if self._cache_size and x is self._cached[0]:
            return self._cached[1]
        return self._remember(x, self._call(x))[1]

    def _inv_call(self, y: Tensor) -> Tensor:
        if self._cache_size and y is self._cached[1]:
            return self._cached[0]
        return self._remember(self._inverse(y), y)[0]

    def _remember(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        if self._cache_size:
            self._cached = (x, y)
        return x, y

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The logarithm of |dy / dx| at x, of which y is the image."""
        raise UnsupportedError(f"{type(self).__name__}: it has no Jacobian determinant: it maps many points to one")

    def forward_shape(self, shape: Shape) -> Shape:
        """The shape of the image of a tensor of this shape."""
        return shape

    def inverse_shape(self, shape: Shape) -> Shape:
        """The shape of what a tensor of this shape is the image of."""
        return shape

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_inv": None, "_cached": (None, None)}

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class StatelessTransform(Transform):
    """A transform without parameters: two of one class are equal."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))


class _InverseTransform(Transform):
    """A transform run backwards."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(transform._cache_size)
        self._inv: Transform = transform

    @property
    def domain(self) -> Constraint:
        return self._inv.codomain

    @property
    def codomain(self) -> Constraint:
        return self._inv.domain

    @property
    def bijective(self) -> bool:
        return bool(self._inv.bijective)

    @property
    def sign(self) -> Any:
        return self._inv.sign

    @property
    def inv(self) -> Transform:
        return self._inv

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self._inv.with_cache(cache_size).inv

    def __call__(self, x: Tensor) -> Tensor:
        return self._inv._inv_call(x)

    def _inv_call(self, y: Tensor) -> Tensor:
        return self._inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Shape) -> Shape:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Shape) -> Shape:
        return self._inv.forward_shape(shape)

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    def __hash__(self) -> int:
        return hash((_InverseTransform, self._inv))

    def __repr__(self) -> str:
        return f"{self._inv!r}.inv"


def _with_event_dim(constraint: Constraint, event_dim: int) -> Constraint:
    missing = event_dim - constraint.event_dim
    return constraints.independent(constraint, missing) if missing > 0 else constraint


class ComposeTransform(Transform):
    """Transforms one after the other, the first in the list first.

    >>> d = ex.distributions
    >>> d.ComposeTransform([d.ExpTransform(), d.AffineTransform(1.0, 2.0)])(ex.tensor(0.0))
    tensor(3.)
    """

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else list(parts)

    @property
    def domain(self) -> Constraint:
        if not self.parts:
            return constraints.real
        # Run backwards through the parts: one that needs larger events makes the input's larger too.
        event_dim = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            event_dim = max(event_dim + part.domain.event_dim - part.codomain.event_dim, part.domain.event_dim)
        return _with_event_dim(self.parts[0].domain, event_dim)

    @property
    def codomain(self) -> Constraint:
        if not self.parts:
            return constraints.real
        event_dim = self.parts[0].domain.event_dim
        for part in self.parts:
            event_dim = max(event_dim + part.codomain.event_dim - part.domain.event_dim, part.codomain.event_dim)
        return _with_event_dim(self.parts[-1].codomain, event_dim)

    @property
    def bijective(self) -> bool:
        return all(part.bijective for part in self.parts)

    @property
    def sign(self) -> Any:
        return functools.reduce(operator.mul, (part.sign for part in self.parts), 1)

    @property
    def inv(self) -> Transform:
        if self._inv is None:
            self._inv = ComposeTransform([part.inv for part in reversed(self.parts)])
            self._inv._inv = self
        return self._inv

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size)

    def __call__(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def _inv_call(self, y: Tensor) -> Tensor:
        return self.inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if not self.parts:
            return ops.zeros_like(x)
        points = [x]
        for part in self.parts[:-1]:
            points.append(part(points[-1]))
        points.append(y)
        total: Any = 0
        event_dim = self.domain.event_dim
        for i, part in enumerate(self.parts):
            stretch = part.log_abs_det_jacobian(points[i], points[i + 1])
            total = total + sum_rightmost(stretch, event_dim - part.domain.event_dim)
            event_dim += part.codomain.event_dim - part.domain.event_dim
        return total

    def forward_shape(self, shape: Shape) -> Shape:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Shape) -> Shape:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = Transform.__hash__

    def __repr__(self) -> str:
        return f"ComposeTransform([{', '.join(map(repr, self.parts))}])"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """A transform whose last batch dimensions count as part of the event: their stretches are added up.

    >>> d = ex.distributions
    >>> t = d.IndependentTransform(d.ExpTransform(), 1)
    >>> t.log_abs_det_jacobian(ex.tensor([1.0, 2.0]), None)
    tensor(3.)
    """

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def domain(self) -> Constraint:
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @property
    def codomain(self) -> Constraint:
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> bool:
        return bool(self.base_transform.bijective)

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return IndependentTransform(self.base_transform, self.reinterpreted_batch_ndims, cache_size)

    def _call(self, x: Tensor) -> Tensor:
        self._require_dims(x, self.domain.event_dim)
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        self._require_dims(y, self.codomain.event_dim)
        return self.base_transform.inv(y)

    def _require_dims(self, x: Tensor, n_dims: int) -> None:
        if x.ndim < n_dims:
            raise ShapeError(f"IndependentTransform: expected at least {n_dims} dimensions, got {tuple(x.shape)}")

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        stretch = self.base_transform.log_abs_det_jacobian(x, y)
        return sum_rightmost(stretch, self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Shape) -> Shape:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Shape) -> Shape:
        return self.base_transform.inverse_shape(shape)

    def __repr__(self) -> str:
        return f"IndependentTransform({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


class ReshapeTransform(StatelessTransform):
    """Events of one shape as events of another.

    >>> ex.distributions.ReshapeTransform((2, 3), (6,))(ex.zeros(5, 2, 3)).shape
    extempo.Size([5, 6])
    """

    bijective = True

    def __init__(self, in_shape: Shape, out_shape: Shape, cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ShapeError(
                f"ReshapeTransform: {tuple(in_shape)} and {tuple(out_shape)} do not hold equally many numbers"
            )
        super().__init__(cache_size)

    @property
    def domain(self) -> Constraint:
        return constraints.independent(constraints.real, len(self.in_shape))

    @property
    def codomain(self) -> Constraint:
        return constraints.independent(constraints.real, len(self.out_shape))

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(self.forward_shape(tuple(x.shape)))

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(self.inverse_shape(tuple(y.shape)))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return ops.zeros(x.shape[: x.ndim - len(self.in_shape)], dtype=x.dtype)

    def forward_shape(self, shape: Shape) -> Shape:
        return _replaced(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Shape) -> Shape:
        return _replaced(shape, self.out_shape, self.in_shape)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ReshapeTransform)
            and self.in_shape == other.in_shape
            and self.out_shape == other.out_shape
        )

    def __hash__(self) -> int:
        return hash((ReshapeTransform, self.in_shape, self.out_shape))


def _replaced(shape: Shape, old: Size, new: Size) -> Shape:
    cut = len(shape) - len(old)
    if cut < 0 or tuple(shape[cut:]) != tuple(old):
        raise ShapeError(f"ReshapeTransform: expected a shape that ends in {tuple(old)}, got {tuple(shape)}")
    return (*shape[:cut], *new)
