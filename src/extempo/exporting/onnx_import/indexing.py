"""Operators that pick and put elements by index: Gather, Scatter, Compress, OneHot, NonZero, Unique."""

from __future__ import annotations

import math

import numpy as np

from ... import ops
from ...core.tensor import Tensor, from_array
from ...core.types import bool_, int64
from ...errors import ArgumentError, ShapeError
from .arranging import index_grid
from .sizes import axis_in, check_size
from .table import Ints, Results, operator

_REDUCTIONS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def _counted(indices: Tensor, n: int) -> Tensor:
    """Indices from 0 on: negative ones count from the end."""
    indices = indices.to(int64)
    return ops.where(indices < 0, indices + n, indices)


@operator("Gather")
def gather(x: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    dim = axis_in(axis, x.ndim)
    flat = _counted(indices, x.shape[dim]).reshape(-1)
    return x.index_select(dim, flat).reshape(*x.shape[:dim], *indices.shape, *x.shape[dim + 1 :])


@operator("GatherElements")
def gather_elements(x: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    dim = axis_in(axis, x.ndim)
    return x.gather(dim, _counted(indices, x.shape[dim]))


@operator("GatherND")
def gather_nd(x: Tensor, indices: Tensor, *, batch_dims: int = 0) -> Tensor:
    n = indices.shape[-1]
    if batch_dims + n > x.ndim or not 0 <= batch_dims < indices.ndim:
        raise ShapeError(f"indices of shape {tuple(indices.shape)} do not fit a tensor of shape {tuple(x.shape)}")
    picked = [_counted(indices[..., i], x.shape[batch_dims + i]) for i in range(n)]
    own = [g.reshape(g.shape + (1,) * (indices.ndim - 1 - batch_dims)) for g in index_grid(x.shape[:batch_dims])]
    return x[(*own, *picked)] if own or picked else x


@operator("Scatter", "ScatterElements")
def scatter_elements(x: Tensor, indices: Tensor, updates: Tensor, *, axis: int = 0, reduction: str = "none") -> Tensor:
    dim = axis_in(axis, x.ndim)
    at = _counted(indices, x.shape[dim])
    if reduction == "none":
        return x.scatter(dim, at, updates)
    return x.scatter_reduce(dim, at, updates, _reduction(reduction))


def _reduction(name: str) -> str:
    if name not in _REDUCTIONS:
        raise ArgumentError(f"reduction must be one of none, {', '.join(_REDUCTIONS)}, got {name!r}")
    return _REDUCTIONS[name]


@operator("ScatterND")
def scatter_nd(x: Tensor, indices: Tensor, updates: Tensor, *, reduction: str = "none") -> Tensor:
    n = indices.shape[-1]
    if n > x.ndim:
        raise ShapeError(f"indices have {n} entries each, but the tensor has {x.ndim} dimensions")
    inner = math.prod(x.shape[n:])
    rows = ops.zeros(indices.shape[:-1], dtype=int64)
    for i in range(n):
        rows = rows * x.shape[i] + _counted(indices[..., i], x.shape[i])
    flat = x.reshape(math.prod(x.shape[:n]), inner)
    at, values = rows.reshape(-1, 1).expand(-1, inner), updates.reshape(rows.numel(), inner)
    if reduction == "none":
        return flat.scatter(0, at, values).reshape(x.shape)
    return flat.scatter_reduce(0, at, values, _reduction(reduction)).reshape(x.shape)


@operator("Compress")
def compress(x: Tensor, condition: Tensor, *, axis: int | None = None) -> Tensor:
    at = ops.nonzero(condition.reshape(-1)).reshape(-1)
    return x.reshape(-1).index_select(0, at) if axis is None else x.index_select(axis_in(axis, x.ndim), at)


@operator("NonZero")
def non_zero(x: Tensor) -> Tensor:
    return ops.nonzero(x).t() if x.ndim else ops.nonzero(x.reshape(1)).t()


@operator("OneHot")
def one_hot(indices: Tensor, depth: Ints, values: Tensor, *, axis: int = -1) -> Tensor:
    """Indices outside of -depth to depth - 1 give rows of the off value."""
    n = depth[0]
    dim = axis_in(axis, indices.ndim + 1)
    check_size((*indices.shape, n), values.element_size())
    at = _counted(indices, n).unsqueeze(dim)
    places = ops.arange(n).reshape([-1 if i == dim else 1 for i in range(indices.ndim + 1)])
    return ops.where(at == places, values[1], values[0])


@operator("Unique")
def unique(x: Tensor, *, axis: int | None = None, sorted: int = 1) -> Results:
    """Values, where each stands first, which of them each element is, and how often each is there."""
    array = x.detach().numpy()
    found, first, inverse, counts = np.unique(
        array, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    inverse = inverse.reshape(-1)
    if not sorted:
        order = np.argsort(first)
        found = np.take(found, order, axis=0 if axis is None else axis)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        first, inverse, counts = first[order], rank[inverse], counts[order]
    places = [from_array(np.asarray(a, np.int64)) for a in (first, inverse, counts)]
    values = (x.reshape(-1) if axis is None else x).index_select(0 if axis is None else axis, places[0])
    return (values if values.dtype is not bool_ else from_array(found), *places)
