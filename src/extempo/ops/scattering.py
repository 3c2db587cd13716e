"""Gather and scatter: elements read from, or written to, places given by integer tensors or masks.

Along one dimension the index of `Gather` and `Scatter` says where, along all others an element stays where it is. The
`index_*` functions write whole slices (one `IndexPut`), the `*_scatter` functions write where a view looks (one
`WriteThrough`). Every in-place form is the function written back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import ops
from ..core.op import REGISTRY
from ..core.tensor import Tensor, TensorLike
from ..core.tensor_methods import method
from ..core.types import Number, bool_, broadcast_shapes, normalize_dim
from ..dispatch.dispatcher import apply
from ..errors import DtypeError, IndexRangeError, ShapeError, UnsupportedError
from .creation import as_tensor
from .define import Operand, deliver, inplace_method, numpy_method, refuse_shared
from .found_sizes import tracer_of
from .index import as_index, as_number, row_index, same_dtype
from .index_ops import IndexPut
from .scatter_ops import UFUNCS, Gather, Scatter, ScatterReduce
from .shaping import diagonal_attributes, existing_dim, slice_step, strided_step
from .view import WriteThrough

__all__ = [
    "as_strided_scatter",
    "diagonal_scatter",
    "gather",
    "index_add",
    "index_copy",
    "index_fill",
    "index_reduce",
    "masked_fill",
    "masked_scatter",
    "put",
    "scatter",
    "scatter_add",
    "scatter_reduce",
    "select_scatter",
    "slice_scatter",
    "take_along_dim",
]

# ---- along one dimension


def _aligned(input: Tensor, dim: int, index: Any, op: str) -> tuple[Tensor, int, Tensor]:
    """Input, dim and index for the ops, which know no 0-dim tensors."""
    d = normalize_dim(dim, input.ndim, op)
    at = as_index(index, op)
    return (input if input.ndim else input.reshape(1)), d, (at if at.ndim else at.reshape(1))


def _source(src: Any, input: Tensor, index: Tensor, op: str) -> Tensor:
    """The part of src that the index uses."""
    src = same_dtype(src, input, op)
    if not src.ndim:
        src = src.reshape(1)
    if src._type.shape == index._type.shape or not index._type.numel():
        return src
    if src.ndim != index.ndim or any(i > s for i, s in zip(index._type.shape, src._type.shape, strict=True)):
        raise ShapeError(f"{op}: src of shape {tuple(src.shape)} must cover the index of shape {tuple(index.shape)}")
    return src[tuple(slice(n) for n in index._type.shape)]


@numpy_method
def gather(input: Tensor, dim: int, index: Any, *, sparse_grad: bool = False, out: Tensor | None = None) -> Tensor:
    """Elements picked along one dimension: result[i][j] = input[index[i][j]][j] for dim 0 of two.

    >>> ex.gather(ex.tensor([[1, 2], [3, 4]]), 1, ex.tensor([[1], [0]]))
    tensor([[2],
            [3]])
    """
    if sparse_grad:
        raise UnsupportedError(
            "gather: sparse_grad=True asks for a sparse gradient, and Extempo's are dense; leave it out"
        )
    if out is not None:
        refuse_shared("gather", out, input, index)
    x, d, at = _aligned(input, dim, index, "gather")
    picked = apply(Gather, (x, at), {"dim": d})
    return deliver(picked if as_tensor(index).ndim else picked.reshape(()), out)


@numpy_method
def take_along_dim(input: Tensor, indices: Any, dim: int | None = None, *, out: Tensor | None = None) -> Tensor:
    """`gather` with input and indices broadcast along the other dimensions; without dim, on the flattened tensors.

    >>> ex.take_along_dim(ex.tensor([[10, 20], [30, 40]]), ex.tensor([[1], [0]]), dim=1)
    tensor([[20],
            [30]])
    """
    at = as_index(indices, "take_along_dim")
    if dim is None:
        return gather(input.reshape(-1), 0, at.reshape(-1), out=out)
    d = normalize_dim(dim, input.ndim, "take_along_dim")
    if input.ndim != at.ndim:
        raise ShapeError(
            f"take_along_dim: input of shape {input._type.shape} and indices of shape {at._type.shape} must have "
            "equally many dimensions"
        )
    own, wanted = input._type.shape, at._type.shape
    try:
        rest = broadcast_shapes((*own[:d], *own[d + 1 :]), (*wanted[:d], *wanted[d + 1 :]))
    except ShapeError as error:
        raise ShapeError(f"take_along_dim: apart from dim {d}, {error}") from None
    x, at = (t.expand(*rest[:d], t.shape[d], *rest[d:]) if t.ndim else t for t in (input, at))
    if own:
        at = ops.where(ops.lt(at, 0), at + own[d], at)
    return gather(x, d, at, out=out)


def _scattered(input: Tensor, dim: int, index: Any, src: Any, accumulate: bool, op: str) -> Tensor:
    x, d, at = _aligned(input, dim, index, op)
    src = as_number(src, input) if isinstance(src, bool | int | float) else _source(src, input, at, op)
    return apply(Scatter, (x, at, src), {"dim": d, "accumulate": accumulate}).reshape(input._type.shape)


@numpy_method
def scatter(
    input: Tensor,
    dim: int,
    index: Any,
    src: Operand | None = None,
    *,
    value: Number | None = None,
    reduce: str | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """A copy with src (or one value) written along one dimension where the index says; reduce: "add" or "multiply".

    >>> ex.scatter(ex.zeros(3), 0, ex.tensor([2, 0]), ex.tensor([1.0, 2.0]))
    tensor([2., 0., 1.])
    """
    given = value if src is None else src
    if given is None:
        raise DtypeError("scatter: give src or value")
    if reduce is None:
        return deliver(_scattered(input, dim, index, given, False, "scatter"), out)
    if reduce not in ("add", "multiply"):
        raise ShapeError(f"scatter: reduce must be 'add' or 'multiply', got {reduce!r}; scatter_reduce has more")
    if not isinstance(given, Tensor):
        at = as_index(index, "scatter")
        given = ops.full(at.shape, as_number(given, input), dtype=input.dtype)
    return scatter_reduce(input, dim, index, given, "sum" if reduce == "add" else "prod", out=out)


@numpy_method
def scatter_add(input: Tensor, dim: int, index: Any, src: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy with src added along one dimension where the index says.

    >>> ex.scatter_add(ex.zeros(3), 0, ex.tensor([2, 2]), ex.tensor([1.0, 2.0]))
    tensor([0., 0., 3.])
    """
    return deliver(_scattered(input, dim, index, as_tensor(src), True, "scatter_add"), out)


@numpy_method
def scatter_reduce(
    input: Tensor,
    dim: int,
    index: Any,
    src: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
    out: Tensor | None = None,
) -> Tensor:
    """src combined, by "sum", "prod", "mean", "amax" or "amin", where the index says; with the input's own or not.

    >>> ex.scatter_reduce(ex.zeros(3), 0, ex.tensor([2, 2]), ex.tensor([1.0, 2.0]), "amax")
    tensor([0., 0., 2.])
    """
    if reduce in ("sum", "mean"):
        start = input if include_self else _scattered(input, dim, index, 0, False, "scatter_reduce")
        total = _scattered(start, dim, index, src, True, "scatter_reduce")
        if reduce == "mean":
            own = ops.ones_like(input) if include_self else ops.zeros_like(input)
            n = ops.clamp(_scattered(own, dim, index, ops.ones_like(src), True, "scatter_reduce"), min=1)
            total = total / n if input.dtype.is_floating_point else ops.floor_divide(total, n)
        return deliver(total, out)
    if reduce not in UFUNCS:
        raise ShapeError(f"scatter_reduce: reduce must be sum, prod, mean, amax or amin, got {reduce!r}")
    x, d, at = _aligned(input, dim, index, "scatter_reduce")
    attrs = {"dim": d, "reduce": reduce, "include_self": include_self}
    result = apply(ScatterReduce, (x, at, _source(src, input, at, "scatter_reduce")), attrs)
    return deliver(result.reshape(input._type.shape), out)


# ---- whole slices


def _put_slices(input: Tensor, dim: int, index: Any, source: Tensor, accumulate: bool, op: str) -> Tensor:
    d = normalize_dim(dim, input.ndim, op)
    rows = row_index(index, op)
    x = input if input.ndim else input.reshape(1)
    expected = (*x._type.shape[:d], rows._type.numel(), *x._type.shape[d + 1 :])
    if source.ndim and source._type.shape != expected:
        raise ShapeError(
            f"{op}: expected a source of shape {expected} for {rows.numel()} indices, got {tuple(source.shape)}"
        )
    if not source.ndim and x.ndim == 1:
        source = source.reshape(1)
    put = apply(IndexPut, (x, source, rows), {"dims": (d,), "accumulate": accumulate})
    return put if x is input else put.reshape(input._type.shape)


@numpy_method
def index_add(
    input: Tensor, dim: int, index: Any, source: Tensor, *, alpha: Number = 1, out: Tensor | None = None
) -> Tensor:
    """A copy with alpha * source added to the slices that `index` names; repeated ones add up.

    >>> ex.index_add(ex.zeros(3), 0, ex.tensor([0, 0, 2]), ex.tensor([1.0, 2.0, 3.0]))
    tensor([3., 0., 3.])
    """
    source = same_dtype(source, input, "index_add")
    if alpha != 1:
        source = source * alpha
    return deliver(_put_slices(input, dim, index, source, True, "index_add"), out)


@numpy_method
def index_copy(input: Tensor, dim: int, index: Any, source: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy with the slices that `index` names replaced by those of source.

    >>> ex.index_copy(ex.zeros(3), 0, ex.tensor([0, 2]), ex.tensor([1.0, 2.0]))
    tensor([1., 0., 2.])
    """
    source = same_dtype(source, input, "index_copy")
    return deliver(_put_slices(input, dim, index, source, False, "index_copy"), out)


@numpy_method
def index_fill(input: Tensor, dim: int, index: Any, value: Operand) -> Tensor:
    """A copy with the slices that `index` names set to one value.

    >>> ex.index_fill(ex.zeros(3), 0, ex.tensor([0, 2]), 7.0)
    tensor([7., 0., 7.])
    """
    d = normalize_dim(dim, input.ndim, "index_fill")
    rows = row_index(index, "index_fill")
    # A mask, because an index that is named twice is filled, and counts in the gradient, once.
    nowhere = ops.zeros(input._type.shape[d] if input.ndim else 1, dtype=bool_)
    mask = apply(IndexPut, (nowhere, ops.ones((), dtype=bool_), rows), {"dims": (0,), "accumulate": False})
    return masked_fill(input, mask.reshape((-1,) + (1,) * (input.ndim - d - 1) if input.ndim else ()), value)


@numpy_method
def index_reduce(
    input: Tensor,
    dim: int,
    index: Any,
    source: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
    out: Tensor | None = None,
) -> Tensor:
    """Slices of source combined into those that `index` names, by "prod", "mean", "amax" or "amin".

    >>> ex.index_reduce(ex.ones(3), 0, ex.tensor([0, 0, 2]), ex.tensor([2.0, 3.0, 4.0]), "prod")
    tensor([6., 1., 4.])
    """
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise ShapeError(f"index_reduce: reduce must be prod, mean, amax or amin, got {reduce!r}")
    d = normalize_dim(dim, input.ndim, "index_reduce")
    rows, source = row_index(index, "index_reduce"), same_dtype(source, input, "index_reduce")
    if not input.ndim:
        source = source.reshape(-1)
    at = rows.reshape(-1, *(1,) * (source.ndim - d - 1)).expand(source.shape)
    return scatter_reduce(input, d, at, source, reduce, include_self=include_self, out=out)


@method
def put(input: Tensor, index: Any, source: Tensor, accumulate: bool = False) -> Tensor:
    """A copy with source written, or added, to elements given by their number in the flattened tensor.

    >>> ex.put(ex.zeros(2, 2), ex.tensor([0, 3]), ex.tensor([1.0, 2.0]))
    tensor([[1., 0.],
            [0., 2.]])
    """
    at, source = as_index(index, "put"), same_dtype(source, input, "put")
    if source._type.numel() != at._type.numel():
        raise ShapeError(f"put: {at.numel()} indices need as many elements, source has {source.numel()}")
    attrs = {"dims": (0,), "accumulate": accumulate}
    return apply(IndexPut, (input.reshape(-1), source.reshape(-1), at.reshape(-1)), attrs).reshape(input._type.shape)


# ---- masks


def _check_mask(mask: Tensor, op: str) -> None:
    if mask.dtype is not bool_:
        raise DtypeError(f"{op}: expected a bool mask, got {mask.dtype}; compare first, e.g. x > 0")


@method
def masked_fill(input: Tensor, mask: Tensor, value: Operand) -> Tensor:
    """A copy with one value where the mask holds.

    >>> ex.masked_fill(ex.tensor([1.0, 2.0]), ex.tensor([False, True]), 0.0)
    tensor([1., 0.])
    """
    _check_mask(mask, "masked_fill")
    if not isinstance(value, Tensor | TensorLike):
        return ops.where(mask, as_number(value, input), input)
    if value.ndim:
        raise ShapeError(f"masked_fill: expected a number or a 0-dim tensor, got shape {tuple(value.shape)}")
    return ops.where(mask, value.to(input.dtype), input)


@method
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """A copy with elements of source, one after the other, where the mask holds.

    >>> ex.masked_scatter(ex.zeros(3), ex.tensor([True, False, True]), ex.tensor([1.0, 2.0]))
    tensor([1., 0., 2.])
    """
    _check_mask(mask, "masked_scatter")
    source = same_dtype(source, input, "masked_scatter")
    input, mask = ops.broadcast_tensors(input, mask)
    if tracer_of(mask) is not None:
        which = (mask.reshape(-1).cumsum(0) - 1).clamp(min=0).reshape(input._type.shape)
        return ops.where(mask, source.reshape(-1)[which], input)
    places = ops.nonzero(mask.reshape(-1)).reshape(-1)
    n = places._type.numel()
    if source._type.numel() < n:
        raise ShapeError(f"masked_scatter: the mask holds in {n} places, source has only {source.numel()} elements")
    attrs = {"dims": (0,), "accumulate": False}
    return apply(IndexPut, (input.reshape(-1), source.reshape(-1)[:n], places), attrs).reshape(input._type.shape)


# ---- where a view looks


def _write_seen(
    input: Tensor, src: Tensor, view: str, numbers: tuple[int, ...], attrs: dict[str, Any], op: str
) -> Tensor:
    seen = REGISTRY[view].infer(input._type, *map(type, numbers), **attrs).shape
    if src._type.shape != seen:
        raise ShapeError(f"{op}: expected a src of shape {seen}, got {tuple(src.shape)}")
    steps = ((view, len(numbers), tuple(attrs.items())),)
    return apply(WriteThrough, (input, src.to(input.dtype), *numbers), {"steps": steps})


@numpy_method
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy with `input.select(dim, index)` replaced by src.

    >>> ex.select_scatter(ex.zeros(2, 2), ex.tensor([1.0, 2.0]), 0, 1)
    tensor([[0., 0.],
            [1., 2.]])
    """
    d = existing_dim(input, dim, "select_scatter")
    size = input._type.shape[d]
    if not -size <= index < size:
        raise IndexRangeError(f"select_scatter: index {index} is out of range for dimension {d} of size {size}")
    return _write_seen(input, src, "slice", (index % size,), {"spec": (":",) * d + ("i",)}, "select_scatter")


@numpy_method
def slice_scatter(
    input: Tensor,
    src: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """A copy with `start:end:step` of a dimension replaced by src.

    >>> ex.slice_scatter(ex.zeros(4), ex.tensor([1.0, 2.0]), start=1, end=3)
    tensor([0., 1., 2., 0.])
    """
    d = existing_dim(input, dim, "slice_scatter")
    first, entry = slice_step(input._type.shape[d], start, end, step, "slice_scatter")
    written = _write_seen(input, src, "slice", (first,), {"spec": (":",) * d + (entry,)}, "slice_scatter")
    return deliver(written, out)


@method
def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A copy with `input.diagonal(offset, dim1, dim2)` replaced by src.

    >>> ex.diagonal_scatter(ex.zeros(2, 2), ex.tensor([1.0, 2.0]))
    tensor([[1., 0.],
            [0., 2.]])
    """
    attrs = diagonal_attributes(input.ndim, offset, dim1, dim2, "diagonal_scatter")
    return _write_seen(input, src, "diagonal", (), attrs, "diagonal_scatter")


@method
def as_strided_scatter(
    input: Tensor, src: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """A copy with `input.as_strided(size, stride, storage_offset)` replaced by src.

    >>> ex.as_strided_scatter(ex.zeros(4), ex.ones(2), (2,), (2,))
    tensor([1., 0., 1., 0.])
    """
    offset, attrs = strided_step(input, size, stride, storage_offset, "as_strided_scatter")
    return _write_seen(input, src, "as_strided", (offset,), attrs, "as_strided_scatter")


for _fn in (
    scatter,
    scatter_add,
    scatter_reduce,
    index_add,
    index_copy,
    index_fill,
    index_reduce,
    put,
    masked_fill,
    masked_scatter,
):
    inplace_method(_fn.__name__ + "_", _fn)
