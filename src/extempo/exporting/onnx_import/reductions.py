"""Operators that reduce dimensions, and those that go along one: sums, extrema, cumulative sums, the largest k."""

from __future__ import annotations

import math
from collections.abc import Callable

from ... import ops
from ...core.tensor import Tensor
from ...core.types import bool_, dtype, iinfo
from .elementwise import as_float
from .sizes import axes_in, axis_in
from .table import Ints, Results, add, operator

Reduction = Callable[[Tensor, list[int], bool], Tensor]


def _reduced(reduce: Reduction) -> Callable[..., Results]:
    """The axes are an attribute or, in later opsets, an input; none mean all, or none at all if the file says so."""

    def run(
        x: Tensor, axes: Ints | None = None, *, axes_: Ints | None = None, keepdims: int = 1,
        noop_with_empty_axes: int = 0,
    ) -> Tensor:  # fmt: skip
        named = axes if axes is not None else axes_
        if not named and noop_with_empty_axes:
            return reduce(x.unsqueeze(-1), [x.ndim], False)
        dims = axes_in(named, x.ndim) if named else list(range(x.ndim))
        return reduce(x, dims, bool(keepdims)) if dims else reduce(x.unsqueeze(-1), [0], False)

    return run


def _sum(x: Tensor, dims: list[int], keep: bool) -> Tensor:
    return x.sum(dims, keepdim=keep, dtype=x.dtype)


def _prod(x: Tensor, dims: list[int], keep: bool) -> Tensor:
    for dim in sorted(dims, reverse=True):
        x = x.prod(dim, keepdim=keep, dtype=x.dtype)
    return x


def _logsumexp(x: Tensor, dims: list[int], keep: bool) -> Tensor:
    if _is_empty(x, dims):
        return _sum(x, dims, keep).log()
    return ops.logsumexp(as_float(x), dims, keepdim=keep)


def _is_empty(x: Tensor, dims: list[int]) -> bool:
    return any(x.shape[d] == 0 for d in dims)


def _lowest(d: dtype) -> float | int:
    return -math.inf if d.is_floating_point else iinfo(d).min


def _highest(d: dtype) -> float | int:
    return math.inf if d.is_floating_point else iinfo(d).max


def _max(x: Tensor, dims: list[int], keep: bool) -> Tensor:
    if x.dtype is bool_:
        return x.any(dims, keepdim=keep)
    return x.amax(dims, keepdim=keep) if not _is_empty(x, dims) else _filled(x, dims, keep, _lowest(x.dtype))


def _min(x: Tensor, dims: list[int], keep: bool) -> Tensor:
    if x.dtype is bool_:
        return x.all(dims, keepdim=keep)
    return x.amin(dims, keepdim=keep) if not _is_empty(x, dims) else _filled(x, dims, keep, _highest(x.dtype))


def _filled(x: Tensor, dims: list[int], keep: bool, value: float) -> Tensor:
    """What a reduction of nothing gives."""
    return ops.full_like(_sum(x, dims, keep), value)


_REDUCTIONS: dict[str, Reduction] = {
    "ReduceSum": _sum,
    "ReduceMean": lambda x, dims, keep: as_float(x).mean(dims, keepdim=keep).to(x.dtype),
    "ReduceProd": _prod,
    "ReduceMax": _max,
    "ReduceMin": _min,
    "ReduceL1": lambda x, dims, keep: _sum(x.abs(), dims, keep),
    "ReduceL2": lambda x, dims, keep: as_float(_sum(x * x, dims, keep)).sqrt().to(x.dtype),
    "ReduceLogSum": lambda x, dims, keep: as_float(_sum(x, dims, keep)).log().to(x.dtype),
    "ReduceLogSumExp": lambda x, dims, keep: _logsumexp(x, dims, keep).to(x.dtype),
    "ReduceSumSquare": lambda x, dims, keep: _sum(x * x, dims, keep),
}
for _name, _reduction in _REDUCTIONS.items():
    add(_name, _reduced(_reduction))


def _first_best(x: Tensor, axis: int, keepdims: int, select_last_index: int, largest: bool) -> Tensor:
    dim = axis_in(axis, x.ndim)
    find = ops.argmax if largest else ops.argmin
    if not select_last_index:
        return find(x, dim, keepdim=bool(keepdims))
    return x.shape[dim] - 1 - find(x.flip(dim), dim, keepdim=bool(keepdims))


@operator("ArgMax")
def arg_max(x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    return _first_best(x, axis, keepdims, select_last_index, True)


@operator("ArgMin")
def arg_min(x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    return _first_best(x, axis, keepdims, select_last_index, False)


@operator("CumSum")
def cum_sum(x: Tensor, axis: Ints, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    dim = axis_in(axis[0], x.ndim)
    x = x.flip(dim) if reverse else x
    y = x.cumsum(dim, dtype=x.dtype)
    if exclusive:
        zero = ops.zeros_like(y.narrow(dim, 0, min(1, y.shape[dim])))
        y = ops.cat([zero, y.narrow(dim, 0, max(0, y.shape[dim] - 1))], dim)
    return y.flip(dim) if reverse else y


@operator("TopK")
def top_k(
    x: Tensor, k: Ints | None = None, *, k_: int | None = None, axis: int = -1, largest: int = 1, sorted: int = 1
) -> Results:
    """Of equal values the one that stands first comes first."""
    n = k[0] if k else k_
    dim = axis_in(axis, x.ndim)
    if n is None or not 0 <= n <= x.shape[dim]:
        raise ValueError(f"k must be at most the size of the axis, {x.shape[dim]}, got {n}")
    values, indices = ops.sort(x, stable=True, dim=dim, descending=bool(largest))
    return values.narrow(dim, 0, n), indices.narrow(dim, 0, n)
