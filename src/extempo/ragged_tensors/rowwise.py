"""Along rows: reductions, scans and sorts, by what their op says of rows that lie end to end.

Over regular dimensions a reduction is that of the values. Over the ragged one, alone or together with regular ones, it
is that of each row, and has one result for each: (B, ...). Over all rows, which includes the ragged dimension, it is
that of all values. Over dimension 0 alone there is none: elements of different rows do not lie side by side.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import ops
from ..core.op import Op
from ..core.tensor import Tensor, from_array
from ..core.types import bool_
from ..dispatch.dispatcher import apply
from ..ops.segments import segment_places
from .per_row import stacked
from .rows import Rows
from .rules import common, from_front, regular_dims, to_front
from .tensor import NEAREST, RaggedTensor, refuse

_MOST_PADDING = 4  # times as many elements as there are, up to which rows are filled up to one length
_ACROSS = "elements of different rows do not lie side by side; reduce over (0, {dim}) for all rows together, "

# (rows, *values, **attrs) -> one result for each row, or for each element of each; rows lie along dimension 0
OfRows = Callable[..., Any]


def along_rows(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """An op along dimensions, by its own function of all rows at once."""
    run = _reduced if "keepdim" in attrs else _scanned
    return run(op, inputs, attrs, op.ragged)


def looped(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """An op along dimensions, on one row after the other."""
    if "keepdim" in attrs:
        return _reduced(op, inputs, attrs, functools.partial(reduce_each_row, op))
    return _scanned(op, inputs, attrs, functools.partial(_scan_each_row, op))


def padded_with_ones(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """A product, or a running one, on rows filled up to the longest."""
    return _padded(op, inputs, attrs, 1)


def padded_with_zeros(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """A scan on rows filled up to the longest: what comes after a row changes nothing in it."""
    return _padded(op, inputs, attrs, 0)


def _padded(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any], fill: int) -> Any:
    """An op along dimensions, on one regular tensor; row by row, where that would be mostly padding."""
    if "keepdim" in attrs:
        return _reduced(op, inputs, attrs, functools.partial(_reduce_padded, op, fill))
    return _scanned(op, inputs, attrs, functools.partial(_scan_padded, op, fill))


# ---- reductions


def _reduced(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any], of_rows: OfRows) -> Any:
    """A reduction with attributes `dim` and `keepdim`; its other inputs are numbers."""
    x: RaggedTensor = inputs[0]
    numbers, dims, keepdim = inputs[1:], attrs["dim"], attrs["keepdim"]
    if x._dim not in dims:
        if 0 in dims:
            refuse(f"{op.name} over dimension 0 alone", _ACROSS.format(dim=x._dim) + NEAREST)
        out = apply(op, (x._flat, *numbers), {**attrs, "dim": tuple(d - 1 for d in dims)})
        at = x._dim if keepdim else x._dim - sum(d < x._dim for d in dims)
        return _each(out, lambda t: RaggedTensor(t, x._rows, at))
    if 0 in dims:
        out = apply(op, (x._flat, *numbers), {**attrs, "dim": tuple(d - 1 for d in dims if d)})
        return _each(out, lambda t: t.unsqueeze(0)) if keepdim else out
    values, rows = _columns(x, dims)
    out = of_rows(rows, values, *numbers, **_others(attrs))
    if not keepdim:
        return out
    shape = [1 if d in dims else size for d, size in enumerate(x.shape)]
    return _each(out, lambda t: t.reshape(shape))


def _each(out: Any, fn: Callable[[Tensor], Any]) -> Any:
    return tuple(map(fn, out)) if isinstance(out, tuple) else fn(out)


def _others(attrs: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attrs.items() if name not in ("dim", "keepdim")}


def _columns(x: RaggedTensor, dims: tuple[int, ...]) -> tuple[Tensor, Rows]:
    """Values as (elements of all rows, ...) and these rows, where elements differ in all of `dims`."""
    first = [x._dim - 1, *(d - 1 for d in dims if d != x._dim)]
    kept = [d for d in range(x._flat.ndim) if d not in first]
    values = to_front(x._flat, first[0]) if len(first) == 1 else x._flat.permute(*first, *kept)
    n_each = math.prod(x._flat.shape[d] for d in first[1:])
    if len(first) > 1:
        values = values.reshape(x._rows.total * n_each, *(x._flat.shape[d] for d in kept))
    return values, x._rows.times(n_each)


def reduce_each_row(op: type[Op], rows: Rows, values: Tensor, *numbers: Any, **attrs: Any) -> Any:
    """A reduction of one row after the other."""
    along_row = {**attrs, "dim": (0,), "keepdim": False}
    return stacked(op.name, lambda row: apply(op, (row, *numbers), along_row), RaggedTensor(values, rows))


def _is_mostly_padding(rows: Rows) -> bool:
    return rows.n * rows.longest > _MOST_PADDING * rows.total


def _filled_up(rows: Rows, values: Tensor, fill: int) -> Tensor:
    """Rows as (rows, longest, ...), with a number behind the end of each."""
    places = np.where(
        np.arange(rows.longest) < rows.lengths[:, None], rows.offsets[:-1, None] + np.arange(rows.longest), rows.total
    )
    more = ops.cat([values, ops.full((1, *values.shape[1:]), fill, dtype=values.dtype)], 0)
    return more.index_select(0, from_array(places.reshape(-1))).unflatten(0, (rows.n, rows.longest))


def _reduce_padded(op: type[Op], fill: int, rows: Rows, values: Tensor, **attrs: Any) -> Any:
    if _is_mostly_padding(rows):
        return reduce_each_row(op, rows, values, **attrs)
    return apply(op, (_filled_up(rows, values, fill),), {**attrs, "dim": (1,), "keepdim": False})


def _scan_padded(op: type[Op], fill: int, rows: Rows, *values: Tensor, **attrs: Any) -> Tensor:
    if _is_mostly_padding(rows):
        return _scan_each_row(op, rows, *values, **attrs)
    made = apply(op, tuple([_filled_up(rows, x, fill) for x in values]), {**attrs, "dim": 1})
    return made.flatten(0, 1).index_select(0, from_array(rows.row_of * rows.longest + rows.place_of))


def moments(name: str, x: Any, dims: tuple[int, ...], keepdim: bool, correction: float) -> tuple[Any, Any]:
    """Variance and mean over dimensions."""
    if x._dim in dims and 0 not in dims:
        x._rows.require_elements(name)
    mean = x.mean(dims, keepdim=True)
    rest = x - mean
    sizes = math.prod(size for d, size in enumerate(x.shape) if d in dims and d not in (0, x._dim))
    total = (rest * rest).sum(dims, keepdim=keepdim)
    if x._dim not in dims:
        degrees: Any = max(sizes - correction, 0)
    elif 0 in dims:
        degrees = max(sizes * x._rows.total - correction, 0)
    else:
        degrees = (x._rows.lengths_tensor * sizes - correction).clamp(min=0).to(x.dtype)
        degrees = degrees.reshape(-1, *(1,) * (total.ndim - 1))
    return total / degrees, mean if keepdim else x.mean(dims)


def quantiles(x: Any, q: Tensor, dim: int | None, keepdim: bool, fn: Callable[..., Tensor]) -> Any:
    """Quantiles `fn(tensor, dim, keepdim)`, of all elements, along the ragged dimension, or along a regular one."""
    if dim is None:
        found = fn(x._flat.reshape(-1), None, False)
        return found.reshape(*q.shape, *(1,) * x.ndim) if keepdim else found
    if dim == 0:
        refuse("quantile over dimension 0 alone", NEAREST)
    if dim != x._dim:
        if q.ndim:
            refuse("several quantiles along a regular dimension", "ask for one at a time; dimension 0 counts the rows")
        (at,) = regular_dims(x, (dim,), "quantile")
        return RaggedTensor(fn(x._flat, at, keepdim), x._rows, x._dim if keepdim or dim > x._dim else x._dim - 1)
    x._rows.require_elements("quantile")
    found = stacked("quantile", lambda row: fn(row, dim - 1, keepdim), x)
    return found.movedim(1, 0) if q.ndim else found


# ---- scans and sorts


def _scanned(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any], of_rows: OfRows) -> RaggedTensor:
    """A function of rows that keeps their lengths: scans, orders, softmax."""
    x, at = _one_dim(op, inputs, attrs)
    flats = tuple(i._flat for i in inputs)
    if at is not None:
        return x.like(apply(op, flats, {**attrs, "dim": at}))
    made = of_rows(x._rows, *(to_front(flat, x._dim - 1) for flat in flats), **_others(attrs))
    return x.like(from_front(made, x._dim - 1))


def _one_dim(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> tuple[RaggedTensor, int | None]:
    """The tensor that rows are taken from, and the dimension of its values: None for the ragged one."""
    if not all(isinstance(i, RaggedTensor) for i in inputs):
        refuse(f"{op.name} of a ragged and a regular tensor", NEAREST)
    x, dim = common(op.name, inputs), attrs["dim"]
    if dim == x._dim:
        return x, None
    return x, regular_dims(x, (dim,), op.name)[0]


def _scan_each_row(op: type[Op], rows: Rows, *values: Tensor, **attrs: Any) -> Tensor:
    along_row = {**attrs, "dim": 0}
    if not rows.n:
        return apply(op, values, along_row)
    each = zip(*(x.split_with_sizes(rows.lengths.tolist(), 0) for x in values), strict=True)
    return ops.cat([apply(op, row, along_row) for row in each], 0)


def topk(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """The k best places of each row."""
    x, at = _one_dim(op, inputs, attrs)
    if at is not None:
        return x.like(apply(op, (x._flat,), {**attrs, "dim": at}))
    if attrs["k"]:
        x._rows.require_elements("topk", attrs["k"])
    found = segment_places("topk", x._rows, to_front(x._flat, x._dim - 1), **_others(attrs))
    return found.movedim(1, x._dim)


def check_kth(x: Any, k: int, dim: int) -> None:
    """Whether every row has a k-th element along `dim`."""
    if k < 1:
        refuse(f"kthvalue with k = {k}", f"k counts from 1, and rows have lengths {x._rows.brief()}")
    if dim == x._dim:
        x._rows.require_elements("kthvalue", k)


def differences(x: Any, n: int) -> Any:
    """The n-th difference of neighbours in each row."""
    before, after = ((slice(None),) * x._dim + (part,) for part in (slice(None, -1), slice(1, None)))
    for _ in range(min(n, x._rows.longest)):
        x = x[after] ^ x[before] if x.dtype is bool_ else x[after] - x[before]
    return x
