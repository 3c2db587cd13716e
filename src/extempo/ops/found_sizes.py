"""Results whose size values decide (nonzero, x[mask], unique, bincount), while a program is made and no value is there.

A tracer of programs gives such a size a name (its `places` and `counted_by`), and the rest follows from
that by other ops.
"""

from __future__ import annotations

from typing import Any

from .. import ops
from ..core.tensor import Tensor
from ..core.types import float32, float64, int64


def tracer_of(value: Tensor) -> Any:
    """Who gives names to sizes that the values of a tensor decide; None: they are there to be read, or nobody does."""
    source = value._source if value._data is None else None
    return source if getattr(source, "names_sizes", False) else None


def columns_of_places(tracer: Any, value: Tensor) -> list[Tensor]:
    """The indices of elements that are not 0, a tensor for each dimension."""
    rows = tracer.places(value if value.ndim else value.reshape(1))
    return [rows[:, d] for d in range(rows.ndim and rows._type.shape[1])]


def unique_elements(tracer: Any, input: Tensor, is_sorted: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Of runs of equal elements, after sorting if asked, the value; for each element the run; the runs' lengths."""
    flat = input.reshape(-1)
    n = flat._type.shape[0]
    ordered, order = ops.sort(flat, stable=True) if is_sorted else (flat, ops.arange(n))
    is_new = (ops.arange(n) == 0) | (ordered != ops.roll(ordered, 1))
    (starts,) = columns_of_places(tracer, is_new)
    runs = is_new.to(int64).cumsum(0) - 1
    counts = (starts * 0).index_add(0, runs, ops.ones(n, dtype=int64))
    inverse = (runs * 0).scatter(0, order, runs)
    return ordered[starts], inverse.reshape(input._type.shape), counts


def bin_counts(tracer: Any, input: Tensor, weights: Tensor | None, minlength: int) -> Tensor:
    """How often each number from 0 to the largest occurs, or the sums of weights."""
    values = input.to(int64)
    bins = tracer.counted_by(ops.cat([values, ops.full((1,), minlength - 1, dtype=int64)]).max() + 1)
    if weights is None:
        return (bins * 0).index_add(0, values, ops.ones(values._type.shape, dtype=int64))
    d = float32 if weights.dtype is float32 else float64
    return (bins * 0).to(d).index_add(0, values, weights.detach().to(d))


def repeated_places(tracer: Any, repeats: Tensor, size: Any) -> Tensor:
    """0 as often as the first count says, then 1, and so on."""
    counts = repeats.reshape(-1).to(int64).expand(size)
    ends = counts.cumsum(0)
    return ops.searchsorted(ends, tracer.counted_by(counts.sum()), right=True)
