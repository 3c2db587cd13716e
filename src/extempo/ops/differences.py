"""Calculus on samples: differences of neighbours, numerical derivatives, integrals by trapezoids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import ops
from ..core.tensor import Tensor
from ..core.tensor_methods import method
from ..core.types import Number, bool_, normalize_dim, normalize_dims
from ..errors import DtypeError, ShapeError
from .define import numpy_names

__all__ = ["cumulative_trapezoid", "diff", "gradient", "trapezoid", "trapz"]


def _neighbours(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Everything but the last, and everything but the first, along `dim`."""
    size = x.shape[dim]
    return x.narrow(dim, 0, max(size - 1, 0)), x.narrow(dim, min(1, size), max(size - 1, 0))


@method
@numpy_names
def diff(
    input: Tensor,
    n: int = 1,
    dim: int = -1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The n-th difference of neighbours along `dim`, after joining `prepend` and `append`.

    >>> ex.diff(ex.tensor([1, 3, 6]))
    tensor([2, 3])
    """
    if not input.ndim:
        raise ShapeError("diff: expected at least one dimension, got a 0-dim tensor")
    if n < 0:
        raise ShapeError(f"diff: n must not be negative, got {n}")
    d = normalize_dim(dim, input.ndim, "diff")
    if n == 0:
        return ops.deliver(input.clone(), out)
    parts = [x for x in (prepend, input, append) if x is not None]
    result = ops.cat(parts, d) if len(parts) > 1 else input
    if not isinstance(result.shape[d], int):
        from ..ragged_tensors.rowwise import differences

        return ops.deliver(differences(result, n), out)
    for _ in range(min(n, result.shape[d])):
        before, after = _neighbours(result, d)
        result = ops.logical_xor(after, before) if result.dtype is bool_ else after - before
    return ops.deliver(result, out)


# ---- derivatives


def _coefficients(steps: Tensor, ndim: int, dim: int) -> tuple[Tensor, Tensor]:
    """The distances to the neighbour before and after every inner point, shaped to multiply along `dim`."""
    before, after = _neighbours(steps, 0)
    shape = (-1, *(1,) * (ndim - 1 - dim))
    return before.reshape(shape), after.reshape(shape)


def _derivative(x: Tensor, dim: int, spacing: Any, edge_order: int) -> Tensor:
    size = x.shape[dim]
    if size < edge_order + 1:
        raise ShapeError(f"gradient: dim {dim} of shape {tuple(x.shape)} needs at least {edge_order + 1} elements")
    if isinstance(spacing, Tensor) and spacing.ndim:
        if tuple(spacing.shape) != (size,):
            raise ShapeError(f"gradient: coordinates of shape {tuple(spacing.shape)} for dim {dim} of size {size}")
        steps = diff(spacing)
    else:
        steps = ops.ones(size - 1, dtype=x.dtype if x.is_floating_point() else None) * spacing

    def part(start: int, length: int = 1) -> Tensor:
        return x.narrow(dim, start, length)

    near, far = _coefficients(steps, x.ndim, dim)
    inner = (
        part(0, size - 2) * (-far / (near * (near + far)))
        + part(1, size - 2) * ((far - near) / (near * far))
        + part(2, size - 2) * (near / (far * (near + far)))
        if size > 2
        else None
    )
    if edge_order == 1:
        first = (part(1) - part(0)) / steps[0]
        last = (part(size - 1) - part(size - 2)) / steps[-1]
    else:
        first = _one_sided(part(0), part(1), part(2), steps[0], steps[1])
        last = -_one_sided(part(size - 1), part(size - 2), part(size - 3), steps[-1], steps[-2])
    return ops.cat([first, inner, last] if inner is not None else [first, last], dim)


def _one_sided(edge: Tensor, next_: Tensor, third: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """The derivative at an edge from three points, a and b apart: exact for parabolas."""
    return edge * (-(2 * a + b) / (a * (a + b))) + next_ * ((a + b) / (a * b)) - third * (a / (b * (a + b)))


@numpy_names
def gradient(
    input: Tensor, *, spacing: Any = 1, dim: int | Sequence[int] | None = None, edge_order: int = 1
) -> list[Tensor]:
    """The derivative along each dimension by second-order central differences, one-sided at the edges.

    `spacing` is one step for all (1 if None), or a list with a step or a vector of coordinates for each dimension.

    >>> ex.gradient(ex.tensor([1.0, 4.0, 9.0, 16.0]))
    [tensor([3., 4., 6., 7.])]
    """
    if edge_order not in (1, 2):
        raise DtypeError(f"gradient: edge_order must be 1 or 2, got {edge_order!r}")
    if dim is None and isinstance(spacing, list | tuple) and len(spacing) == 1 and input.ndim != 1:
        raise ShapeError(f"gradient: 1 spacing for {input.ndim} dimensions; give a number, or one for each")
    dims = [dim] if isinstance(dim, int) else list(range(input.ndim)) if dim is None else list(dim)
    normalize_dims(dims, input.ndim, "gradient")
    spacings = list(spacing) if isinstance(spacing, list | tuple) else [1 if spacing is None else spacing] * len(dims)
    if len(spacings) != len(dims):
        raise ShapeError(f"gradient: {len(spacings)} spacings for {len(dims)} dimensions; give one for each")
    return [
        _derivative(input, normalize_dim(d, input.ndim, "gradient"), step, edge_order)
        for d, step in zip(dims, spacings, strict=True)
    ]


# ---- integrals


def _areas(y: Tensor, x: Tensor | None, dx: Number | None, dim: int) -> Tensor:
    """The areas of the trapezoids between neighbours, doubled."""
    if x is not None and dx is not None:
        raise DtypeError("trapezoid: give x or dx, not both")
    before, after = _neighbours(y, dim)
    if x is None:
        return (before + after) * (1 if dx is None else dx)
    if x.ndim == 1 and y.ndim > 1:
        if x.shape[0] != y.shape[dim]:
            raise ShapeError(
                f"trapezoid: x has {x.shape[0]} points, y of shape {tuple(y.shape)} has {y.shape[dim]} along dim {dim}"
            )
        steps = diff(x).reshape(-1, *(1,) * (y.ndim - 1 - dim))
    else:
        steps = diff(x, dim=dim - y.ndim)
    return (before + after) * steps


@numpy_names
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Number | None = None, dim: int = -1) -> Tensor:
    """The integral along `dim` by the trapezoidal rule, over points x or steps dx (1).

    >>> ex.trapezoid(ex.tensor([1.0, 2.0, 3.0]), dx=0.5)
    tensor(2.)
    """
    d = normalize_dim(dim, y.ndim, "trapezoid")
    if x is None and not y.is_floating_point():
        y = y.long()  # two neighbours may add up to more than a narrow integer holds
    return _areas(y, x, dx, d).sum(d) / 2


trapz = trapezoid


@numpy_names
def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Number | None = None, dim: int = -1) -> Tensor:
    """The integral up to each point along `dim` by the trapezoidal rule; one element shorter than y.

    >>> ex.cumulative_trapezoid(ex.tensor([1.0, 2.0, 3.0]))
    tensor([1.5000, 4.0000])
    """
    d = normalize_dim(dim, y.ndim, "cumulative_trapezoid")
    return _areas(y, x, dx, d).cumsum(d) / 2
