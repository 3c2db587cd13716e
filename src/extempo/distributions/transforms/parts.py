"""Transforms of tensors part by part along a dimension."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import ops
from ...core.tensor import Tensor
from ...errors import DtypeError, ShapeError
from .. import constraints
from ..constraints import Constraint
from ..utils import sum_rightmost
from .base import Transform

__all__ = ["CatTransform", "StackTransform"]


class _PartwiseTransform(Transform):
    """Transforms side by side along `dim`; a subclass says how parts are taken out and put together."""

    def __init__(self, tseq: Sequence[Transform], dim: int, cache_size: int) -> None:
        super().__init__(cache_size)
        if not all(isinstance(t, Transform) for t in tseq):
            raise DtypeError(f"{type(self).__name__}: expected a list of transforms, got {tseq!r}")
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        self.dim = dim

    @property
    def bijective(self) -> bool:
        return all(t.bijective for t in self.transforms)

    def _take(self, x: Tensor) -> Sequence[Tensor]:
        raise NotImplementedError

    def _put(self, parts: list[Tensor], dim: int) -> Tensor:
        raise NotImplementedError

    def _each(self, run: Callable[..., Tensor], *tensors: Tensor) -> list[Tensor]:
        columns = [self._take(x) for x in tensors]
        return [run(t, *parts) for t, *parts in zip(self.transforms, *columns, strict=True)]

    def _call(self, x: Tensor) -> Tensor:
        return self._put(self._each(lambda t, part: t(part), x), self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        return self._put(self._each(lambda t, part: t.inv(part), y), self.dim)


class CatTransform(_PartwiseTransform):
    """Each transform on its own stretch of `dim`, of the lengths given (1 each, unless given).

    >>> d = ex.distributions
    >>> parts = [d.ExpTransform(), d.AffineTransform(0.0, 2.0)]
    >>> d.CatTransform(parts, dim=0, lengths=[1, 2])(ex.tensor([0.0, 1.0, 2.0]))
    tensor([1., 2., 4.])
    """

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0
    ) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise ShapeError(
                f"CatTransform: expected one length for each of {len(self.transforms)} transforms, "
                f"got {len(self.lengths)}"
            )

    @property
    def event_dim(self) -> int:
        return max(t.event_dim for t in self.transforms)

    @property
    def length(self) -> int:
        """The size of `dim`."""
        return sum(self.lengths)

    @property
    def domain(self) -> Constraint:
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @property
    def codomain(self) -> Constraint:
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _take(self, x: Tensor) -> Sequence[Tensor]:
        if x.shape[self.dim] != self.length:
            raise ShapeError(
                f"CatTransform: expected size {self.length} in dim {self.dim}, the sum of its lengths, "
                f"got shape {tuple(x.shape)}"
            )
        return x.split(self.lengths, self.dim)

    def _put(self, parts: list[Tensor], dim: int) -> Tensor:
        return ops.cat(parts, dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        def stretch(t: Transform, x_part: Tensor, y_part: Tensor) -> Tensor:
            # Parts with smaller events than the largest sum up what the largest counts as event.
            return sum_rightmost(t.log_abs_det_jacobian(x_part, y_part), self.event_dim - t.event_dim)

        stretches = self._each(stretch, x, y)
        dim = self.dim - x.ndim if self.dim >= 0 else self.dim
        dim += self.event_dim
        if dim < 0:
            return ops.cat(stretches, dim)
        total: Any = sum(stretches)
        return total


class StackTransform(_PartwiseTransform):
    """Each transform on its own index of `dim`.

    >>> d = ex.distributions
    >>> d.StackTransform([d.ExpTransform(), d.AffineTransform(0.0, 2.0)], dim=0)(ex.tensor([0.0, 1.0]))
    tensor([1., 2.])
    """

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(tseq, dim, cache_size)

    @property
    def domain(self) -> Constraint:
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @property
    def codomain(self) -> Constraint:
        return constraints.stack([t.codomain for t in self.transforms], self.dim)

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else StackTransform(self.transforms, self.dim, cache_size)

    def _take(self, x: Tensor) -> Sequence[Tensor]:
        if x.shape[self.dim] != len(self.transforms):
            raise ShapeError(
                f"StackTransform: expected size {len(self.transforms)} in dim {self.dim}, one for each transform, "
                f"got shape {tuple(x.shape)}"
            )
        return x.unbind(self.dim)

    def _put(self, parts: list[Tensor], dim: int) -> Tensor:
        return ops.stack(parts, dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return ops.stack(self._each(lambda t, *pair: t.log_abs_det_jacobian(*pair), x, y), self.dim)
