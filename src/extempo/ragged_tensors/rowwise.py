"""Along rows: sums, means, extremes, softmax, running sums, sorting.

Over regular dimensions a reduction is that of the values. Over the ragged one, alone or together with regular ones, it
is that of each row, and has one result for each: (B, ...). Over all rows, which includes the ragged dimension, it is
that of all values. Over dimension 0 alone there is none: elements of different rows do not lie side by side.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .. import ops
from ..core.op import Op
from ..core.tensor import Tensor
from ..core.types import TensorType, bool_, float32
from ..dispatch.dispatcher import apply
from ..ops.segments import (
    SegmentAmax,
    SegmentAmin,
    SegmentCumsum,
    SegmentLogSoftmax,
    SegmentLogSoftmaxBackward,
    SegmentPlaces,
    SegmentSoftmax,
    SegmentSoftmaxBackward,
    segment_spread,
    segment_sum,
)
from .per_row import stacked
from .rows import Rows
from .rules import brief, common, from_front, regular_dims, require_elements, rule, to_front
from .tensor import NEAREST, RaggedTensor, refuse

_ACROSS = "elements of different rows do not lie side by side; reduce over (0, {dim}) for all rows together, "

# name of the op -> (op, values, rows, other inputs, attributes) -> one result for each row; rows lie along dimension 0
Segmented = Callable[[type[Op], Tensor, Rows, tuple[Any, ...], dict[str, Any]], Any]
_BY_ROW: dict[str, Segmented] = {}


def _by_row(*names: str) -> Callable[[Segmented], Segmented]:
    def register(fn: Segmented) -> Segmented:
        _BY_ROW.update(dict.fromkeys(names, fn))
        return fn

    return register


def reduced(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """A reduction with attributes `dim` and `keepdim`."""
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
    out = _BY_ROW[op.name](op, values, rows, numbers, attrs)
    if not keepdim:
        return out
    shape = [1 if d in dims else size for d, size in enumerate(x.shape)]
    return _each(out, lambda t: t.reshape(shape))


def _each(out: Any, fn: Callable[[Tensor], Any]) -> Any:
    return tuple(map(fn, out)) if isinstance(out, tuple) else fn(out)


def _columns(x: RaggedTensor, dims: tuple[int, ...]) -> tuple[Tensor, Rows]:
    """Values as (elements of all rows, ...) and these rows, where elements differ in all of `dims`."""
    first = [x._dim - 1, *(d - 1 for d in dims if d != x._dim)]
    kept = [d for d in range(x._flat.ndim) if d not in first]
    values = to_front(x._flat, first[0]) if len(first) == 1 else x._flat.permute(*first, *kept)
    n_each = math.prod(x._flat.shape[d] for d in first[1:])
    if len(first) > 1:
        values = values.reshape(x._rows.total * n_each, *(x._flat.shape[d] for d in kept))
    return values, x._rows.times(n_each)


# ---- one result for each row


@_by_row("sum")
def _sum(op: type[Op], values: Tensor, rows: Rows, numbers: tuple[Any, ...], attrs: dict[str, Any]) -> Tensor:
    return segment_sum(values, *rows.segments)


@_by_row("mean")
def _mean(op: type[Op], values: Tensor, rows: Rows, numbers: tuple[Any, ...], attrs: dict[str, Any]) -> Tensor:
    op.infer(TensorType((1,), values.dtype), dim=(0,), keepdim=False)  # raises for integers
    require_elements(op.name, rows)
    wide = values.to(float32) if values.dtype.itemsize == 2 else values
    return (segment_sum(wide, *rows.segments) / _counts(rows, wide)).to(values.dtype)


def _counts(rows: Rows, values: Tensor) -> Tensor:
    """The length of each row, as a tensor that broadcasts with a result for each row."""
    return rows.lengths_tensor.to(values.dtype).reshape(-1, *(1,) * (values.ndim - 1))


@_by_row("all", "any")
def _truth(op: type[Op], values: Tensor, rows: Rows, numbers: tuple[Any, ...], attrs: dict[str, Any]) -> Tensor:
    is_any = op.name == "any"
    n_found = segment_sum((ops.ne if is_any else ops.eq)(values, 0), *rows.segments)
    result = op.infer(TensorType((1,), values.dtype), dim=(0,), keepdim=False)
    return (ops.gt if is_any else ops.eq)(n_found, 0).to(result.dtype)


@_by_row("amax", "amin")
def _extreme(op: type[Op], values: Tensor, rows: Rows, numbers: tuple[Any, ...], attrs: dict[str, Any]) -> Tensor:
    require_elements(op.name, rows)
    best: Tensor = apply(SegmentAmax if op.name == "amax" else SegmentAmin, (values, *rows.segments))
    return best


@_by_row("argmax", "argmin", "median_place", "nanmedian_place", "mode", "kthvalue")
def _place(op: type[Op], values: Tensor, rows: Rows, numbers: tuple[Any, ...], attrs: dict[str, Any]) -> Tensor:
    require_elements(op.public_name, rows, *numbers)
    return places(op.name, values, rows, *numbers)


def places(name: str, values: Tensor, rows: Rows, *numbers: Any, **attrs: Any) -> Tensor:
    """What an op that finds places finds in each row, along dimension 0."""
    found: Tensor = apply(
        SegmentPlaces, (values, rows.offsets_tensor, *numbers), {"op": name, "attrs": tuple(attrs.items())}
    )
    return found


@_by_row("max_with_index", "min_with_index")
def _with_index(op: type[Op], values: Tensor, rows: Rows, numbers: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    name = op.name.removesuffix("_with_index")
    require_elements(name, rows)
    indices = places(f"arg{name}", values, rows)
    starts = rows.offsets_tensor[:-1].reshape(-1, *(1,) * (values.ndim - 1))
    return ops.gather(values, 0, indices + starts), indices


@_by_row("logsumexp")
def _logsumexp(op: type[Op], values: Tensor, rows: Rows, numbers: tuple[Any, ...], attrs: dict[str, Any]) -> Tensor:
    wide = values.to(float32) if values.dtype.itemsize == 2 else values
    top = apply(SegmentAmax, (wide.detach(), *rows.segments))
    top = ops.where(ops.isinf(top), 0.0, top)  # inf - inf would be NaN where the answer is that infinity
    below = wide - segment_spread(top, *rows.segments)
    return (ops.log(segment_sum(ops.exp(below), *rows.segments)) + top).to(values.dtype)


@_by_row("vector_norm")
def _vector_norm(op: type[Op], values: Tensor, rows: Rows, numbers: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    if attrs["ord"] not in (1.0, 2.0) or values.dtype.itemsize == 2:
        return _looped(op, values, rows, numbers, attrs)
    op.infer(TensorType((1,), values.dtype), ord=2.0, dim=(0,), keepdim=False)  # raises for integers
    if attrs["ord"] == 1.0:
        return segment_sum(values.abs(), *rows.segments)
    total = segment_sum(values * values, *rows.segments)
    nothing = ops.eq(total, 0)  # the gradient of a zero vector's norm is 0
    return ops.where(nothing, 0.0, ops.where(nothing, 1.0, total).sqrt())


@_by_row("prod", "median", "nanmedian")
def _looped(op: type[Op], values: Tensor, rows: Rows, numbers: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    along_rows = {**attrs, "dim": (0,), "keepdim": False}
    return stacked(op.name, lambda row: apply(op, (row, *numbers), along_rows), RaggedTensor(values, rows))


rule(*_BY_ROW)(reduced)


def moments(name: str, x: Any, dims: tuple[int, ...], keepdim: bool, correction: float) -> tuple[Any, Any]:
    """Variance and mean over dimensions."""
    if x._dim in dims and 0 not in dims:
        require_elements(name, x._rows)
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
    require_elements("quantile", x._rows)
    found = stacked("quantile", lambda row: fn(row, dim - 1, keepdim), x)
    return found.movedim(1, 0) if q.ndim else found


# ---- softmax

_NORMALISED: dict[str, type[Op]] = {
    "softmax": SegmentSoftmax,
    "log_softmax": SegmentLogSoftmax,
    "softmax_backward": SegmentSoftmaxBackward,
    "log_softmax_backward": SegmentLogSoftmaxBackward,
}


@rule(*_NORMALISED)
def _normalised(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> RaggedTensor:
    x, at = _one_dim(op, inputs, attrs)
    flats = [i._flat for i in inputs]
    if at is not None:
        return x.like(apply(op, tuple(flats), {"dim": at}))
    fronts = [to_front(flat, x._dim - 1) for flat in flats]
    made = apply(_NORMALISED[op.name], (*fronts, *x._rows.segments))
    return x.like(from_front(made, x._dim - 1))


def _one_dim(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> tuple[RaggedTensor, int | None]:
    """The tensor that rows are taken from, and the dimension of its values: None for the ragged one."""
    if not all(isinstance(i, RaggedTensor) for i in inputs):
        refuse(f"{op.name} of a ragged and a regular tensor", NEAREST)
    x, dim = common(op.name, inputs), attrs["dim"]
    if dim == x._dim:
        return x, None
    return x, regular_dims(x, (dim,), op.name)[0]


# ---- scans and sorts


@rule("cumsum", "cumprod", "logcumsumexp", "recurrence", "cummax", "cummin", "argsort")
def _scan(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> RaggedTensor:
    x, at = _one_dim(op, inputs, attrs)
    if at is not None:
        return x.like(apply(op, tuple(i._flat for i in inputs), {**attrs, "dim": at}))
    front = to_front(x._flat, x._dim - 1)
    others = {name: value for name, value in attrs.items() if name != "dim"}
    if op.name == "cumsum":
        made = apply(SegmentCumsum, (front, *x._rows.segments), others)
    elif op.name in ("cummax", "cummin", "argsort"):
        made = places(op.name, front, x._rows, **others)
    else:
        return _scanned_by_row(op, inputs, attrs)
    return x.like(from_front(made, x._dim - 1))


def _scanned_by_row(op: type[Op], inputs: tuple[RaggedTensor, ...], attrs: dict[str, Any]) -> RaggedTensor:
    x, along_rows = inputs[0], {**attrs, "dim": inputs[0]._dim - 1}
    if not len(x):
        return x.like(apply(op, tuple(i._flat for i in inputs), along_rows))
    rows = [apply(op, row, along_rows) for row in zip(*(i.unbind() for i in inputs), strict=True)]
    return x.like(ops.cat(rows, x._dim - 1))


def differences(x: Any, n: int) -> Any:
    """The n-th difference of neighbours in each row."""
    before, after = ((slice(None),) * x._dim + (part,) for part in (slice(None, -1), slice(1, None)))
    for _ in range(min(n, x._rows.longest)):
        x = x[after] ^ x[before] if x.dtype is bool_ else x[after] - x[before]
    return x


@rule("topk")
def _topk(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    x, at = _one_dim(op, inputs, attrs)
    if at is not None:
        return x.like(apply(op, (x._flat,), {**attrs, "dim": at}))
    k, largest = attrs["k"], attrs["largest"]
    if k:
        require_elements("topk", x._rows, k)
    found = places("topk", to_front(x._flat, x._dim - 1), x._rows, k=k, largest=largest)
    return found.movedim(1, x._dim)


def check_kth(x: Any, k: int, dim: int) -> None:
    """Whether every row has a k-th element along `dim`."""
    if k < 1:
        refuse(f"kthvalue with k = {k}", f"k counts from 1, and rows have lengths {brief(x._rows)}")
    if dim == x._dim:
        require_elements("kthvalue", x._rows, k)
