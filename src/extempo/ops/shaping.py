"""Shapes: the functions that see a tensor's memory otherwise, and their `_copy` and in-place forms.

All are views (one op of `view` each) and share memory with their input, except `reshape`, `flatten` and `ravel`, which
copy where strides leave no other way.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import ops
from ..core.context import CONTEXT
from ..core.strides import row_major_strides
from ..core.tensor import LazySource, Tensor, TensorLike, new, wrap
from ..core.tensor_methods import TensorMethods, method
from ..core.types import Size, TensorType, as_dtype, as_int, count, dtype, is_sequence, normalize_dim
from ..core.types import broadcast_shapes as _broadcast_shapes
from ..core.wording import counted
from ..dispatch.dispatcher import apply
from ..dispatch.inline_cache import cached_by_types
from ..errors import DtypeError, IndexRangeError, LeafWriteError, ShapeError
from ..symbolic.sym_int import at_least_0, bounds_of_slice, depends
from .define import also_named, deliver, deliver_each, numpy_method
from .view import AliasOf, AsStrided, Diagonal, Expand, Permute, Reshape, Slice, Unfold, as_shape

__all__ = [
    "adjoint",
    "alias_copy",
    "as_strided",
    "as_strided_",
    "as_strided_copy",
    "broadcast_shapes",
    "broadcast_tensors",
    "broadcast_to",
    "diagonal",
    "diagonal_copy",
    "expand_copy",
    "flatten",
    "moveaxis",
    "movedim",
    "narrow",
    "narrow_copy",
    "permute",
    "permute_copy",
    "ravel",
    "reshape",
    "select",
    "select_copy",
    "slice_copy",
    "squeeze",
    "squeeze_copy",
    "swapaxes",
    "swapdims",
    "t",
    "t_copy",
    "transpose",
    "transpose_copy",
    "unflatten",
    "unfold_copy",
    "unsqueeze",
    "unsqueeze_copy",
    "view_copy",
]

Dims = int | Sequence[int]


def _fill_in(shape: tuple[int, ...], x: TensorType, op: str) -> tuple[int, ...]:
    """Replace a -1 by what the number of elements leaves for it."""
    total = count(x.shape)
    if count(shape) == total and all(s >= 0 for s in shape):
        return shape
    known = count(s for s in shape if s != -1)
    if shape.count(-1) > 1:
        raise ShapeError(f"{op}: only one size can be -1, got {shape}")
    if any(s < -1 for s in shape):
        raise ShapeError(f"{op}: sizes must not be negative, got {shape}")
    if -1 in shape:
        if known == 0:
            raise ShapeError(
                f"{op}: -1 is ambiguous in {shape}, because the other sizes multiply to 0; give it as a number"
            )
        if total % known:
            raise ShapeError(
                f"{op}: shape {x.shape} has {counted(total, 'element')}, which {shape} does not divide evenly"
            )
        return tuple(total // known if s == -1 else s for s in shape)
    raise ShapeError(f"{op}: shape {x.shape} has {counted(total, 'element')}, {shape} has {known}")


@method
def reshape(input: Tensor, *sizes: Any, shape: Sequence[int] | None = None) -> Tensor:
    """The same elements with another shape; one size may be -1. A view where possible, a copy elsewhere.

    >>> ex.reshape(ex.arange(6), (2, -1))
    tensor([[0, 1, 2],
            [3, 4, 5]])
    """
    return _reshape(input, *sizes) if shape is None else _reshape(input, shape)


@cached_by_types
def _reshape(input: Tensor, *sizes: Any) -> Any:
    if input.is_nested:
        from ..ragged_tensors.reshaping import reshaped

        return reshaped(input, sizes, "reshape")
    return apply(Reshape, (input,), {"shape": _fill_in(as_shape(sizes, "reshape"), input._type, "reshape")})


@method
def reshape_as(input: Tensor, other: Tensor) -> Tensor:
    """Reshape to the shape of `other`."""
    return reshape(input, other._type.shape)


def _view(self: Tensor, *sizes: Any, size: Any = None, dtype: Any = None) -> Tensor:
    """The same memory with another shape (never a copy), or with `view(dtype)` another element type."""
    if dtype is not None or (len(sizes) == 1 and isinstance(sizes[0], ops.types.dtype)):
        return _view_dtype(self, as_dtype(dtype or sizes[0]))
    if self.is_nested:
        return reshape(self, *sizes, shape=size)
    wanted = as_shape(sizes if size is None else (size,), "view")
    result: Tensor = apply(Reshape, (self,), {"shape": _fill_in(wanted, self._type, "view")})
    if result._data is None:
        copied = isinstance(result._source, LazySource) and not result._source.is_view(result)
    else:
        copied = result._storage is not self._storage and self._type.numel() > 0
    if copied:
        raise ShapeError(
            f"view: a tensor of shape {self._type.shape} with strides {self.stride()} cannot be seen as "
            f"{result._type.shape} without copying; use reshape(...), or contiguous() first"
        )
    return result


def _view_dtype(x: Tensor, to: dtype) -> Tensor:
    """The same bytes as elements of another type: a view that no gradient passes through."""
    here, there = x.dtype.itemsize, to.itemsize
    shape, array = x._type.shape, x._values()
    if here != there:
        if not shape:
            raise ShapeError(f"view: a 0-dim {x.dtype} tensor cannot be seen as {to}, whose elements have another size")
        if shape[-1] * here % there or (array.size and array.strides[-1] != here and shape[-1] != 1):
            raise ShapeError(
                f"view: the last dimension of shape {shape} ({x.dtype}) cannot be seen as {to}; use contiguous()"
            )
        shape = (*shape[:-1], shape[-1] * here // there)
    bytes_seen = array.view(to.numpy) if array.size else np.empty(shape, to.numpy)
    made = wrap(bytes_seen.reshape(shape), TensorType(shape, to))
    made._storage = x._storage
    if x.requires_grad:
        made._grad_barrier = ("view(dtype)", None)
    return made


method(_view, "view")


def _view_as(self: Tensor, other: Tensor) -> Tensor:
    """View in the shape of `other`."""
    return _view(self, other._type.shape)


method(_view_as, "view_as")


@method
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """The dimensions from start_dim to end_dim made one.

    >>> ex.flatten(ex.tensor([[1, 2], [3, 4]])), ex.flatten(ex.zeros(2, 3, 4), 1).shape
    (tensor([1, 2, 3, 4]), extempo.Size([2, 12]))
    """
    return _flatten(input, start_dim, end_dim)


@cached_by_types
def _flatten(input: Tensor, start_dim: int, end_dim: int) -> Any:
    first, last = normalize_dim(start_dim, input.ndim, "flatten"), normalize_dim(end_dim, input.ndim, "flatten")
    shape = input._type.shape
    if first > last:
        raise ShapeError(f"flatten: start_dim {start_dim} comes after end_dim {end_dim}")
    if input.is_nested:
        from ..ragged_tensors.reshaping import flattened

        return flattened(input, first, last)
    if first == last and shape:
        return input
    return reshape(input, (*shape[:first], count(shape[first : last + 1]), *shape[last + 1 :]))


@method
def ravel(input: Tensor) -> Tensor:
    """All elements as one dimension; a copy only where needed.

    >>> ex.ravel(ex.tensor([[1, 2], [3, 4]]))
    tensor([1, 2, 3, 4])
    """
    return reshape(input, (-1,)) if input._type.numel() else reshape(input, (0,))


@numpy_method
def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """One dimension made several; one size may be -1.

    >>> ex.unflatten(ex.arange(6), 0, (2, -1))
    tensor([[0, 1, 2],
            [3, 4, 5]])
    """
    if not input.ndim:
        raise IndexRangeError("unflatten: a 0-dim tensor has no dimension to unflatten")
    d = normalize_dim(dim, input.ndim, "unflatten")
    wanted = as_shape((sizes,), "unflatten")
    if not wanted:
        raise ShapeError("unflatten: sizes must not be empty")
    shape = input._type.shape
    inner = _fill_in(wanted, TensorType((shape[d],), input.dtype), f"unflatten, dim {d}")
    return _view(input, (*shape[:d], *inner, *shape[d + 1 :]))


@method
def permute(input: Tensor, *order: Any, dims: Sequence[int] | None = None) -> Tensor:
    """The dimensions in the order given.

    >>> ex.permute(ex.zeros(2, 3, 4), (2, 0, 1)).shape
    extempo.Size([4, 2, 3])
    """
    return _permute(input, *order) if dims is None else _permute(input, dims)


@cached_by_types
def _permute(input: Tensor, *order: Any) -> Tensor:
    wanted = as_shape(order, "permute")
    to = tuple(normalize_dim(d, input.ndim, "permute") for d in wanted) if input.ndim else wanted
    if len(to) != input.ndim or len(set(to)) != len(to):
        raise ShapeError(f"permute: dims {wanted} must name each of the {input.ndim} dimensions once")
    return apply(Permute, (input,), {"dims": to})


@method
def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two dimensions exchanged.

    >>> ex.transpose(ex.tensor([[1, 2], [3, 4]]), 0, 1)
    tensor([[1, 3],
            [2, 4]])
    """
    return _transpose(input, dim0, dim1)


@cached_by_types
def _transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    a, b = normalize_dim(dim0, input.ndim, "transpose"), normalize_dim(dim1, input.ndim, "transpose")
    if not input.ndim:
        return apply(AliasOf, (input,))
    order = list(range(input.ndim))
    order[a], order[b] = order[b], order[a]
    return apply(Permute, (input,), {"dims": tuple(order)})


swapdims = method(transpose, "swapdims")


@method
@also_named(axis0="dim0", axis1="dim1")
def swapaxes(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two dimensions exchanged: `transpose` by NumPy's name.

    >>> ex.swapaxes(ex.zeros(2, 3, 4), axis0=0, axis1=2).shape
    extempo.Size([4, 3, 2])
    """
    return transpose(input, dim0, dim1)


@method
def t(input: Tensor) -> Tensor:
    """A matrix transposed; tensors with fewer dimensions as they are.

    >>> ex.t(ex.tensor([[1, 2], [3, 4]]))
    tensor([[1, 3],
            [2, 4]])
    """
    if input.ndim > 2:
        raise ShapeError(
            f"t: expected at most 2 dimensions, got shape {tuple(input.shape)}; use transpose(-2, -1) or mT"
        )
    return _T(input)


def _T(self: Tensor) -> Tensor:
    """All dimensions reversed."""
    return apply(Permute, (self,), {"dims": tuple(reversed(range(self.ndim)))})


def _mT(self: Tensor) -> Tensor:
    """The last two dimensions exchanged."""
    if self.ndim < 2:
        raise ShapeError(f"mT: expected at least 2 dimensions, got shape {tuple(self.shape)}")
    return transpose(self, -2, -1)


def _H(self: Tensor) -> Tensor:
    """A matrix transposed: real tensors are their own conjugates."""
    if self.ndim not in (0, 2):
        raise ShapeError(f"H: expected a matrix, got shape {tuple(self.shape)}; use mH for a batch of them")
    return _T(self)


@method
def adjoint(input: Tensor) -> Tensor:
    """The last two dimensions exchanged: real tensors are their own conjugates.

    >>> ex.adjoint(ex.tensor([[1, 2], [3, 4]]))
    tensor([[1, 3],
            [2, 4]])
    """
    return _mT(input) if input.ndim else _T(input)


for _property, _seen in (("T", _T), ("mT", _mT), ("H", _H), ("mH", adjoint)):
    setattr(TensorMethods, _property, property(_seen))


@method
def movedim(input: Tensor, source: Dims, destination: Dims) -> Tensor:
    """Dimensions moved from the positions `source` to the positions `destination`; the others keep their order.

    >>> ex.movedim(ex.zeros(2, 3, 4), 0, 2).shape
    extempo.Size([3, 4, 2])
    """
    given = [tuple(d) if is_sequence(d) else (d,) for d in (source, destination)]
    sources, targets = ([normalize_dim(d, input.ndim, "movedim") for d in dims] for dims in given)
    if len(sources) != len(targets) or len(set(sources)) != len(sources) or len(set(targets)) != len(targets):
        raise ShapeError(
            f"movedim: source {given[0]} and destination {given[1]} must name equally many different dimensions"
        )
    if not input.ndim:
        return apply(AliasOf, (input,))
    place = dict(zip(targets, sources, strict=True))
    rest = iter([d for d in range(input.ndim) if d not in sources])
    return apply(Permute, (input,), {"dims": tuple(place[d] if d in place else next(rest) for d in range(input.ndim))})


moveaxis = method(movedim, "moveaxis")


@method
def expand(input: Tensor, *sizes: Any, size: Any = None, implicit: bool = False) -> Tensor:
    """Dimensions of size 1 repeated without copying; -1 keeps a size."""
    if input.is_nested:
        from ..ragged_tensors.reshaping import expanded

        return expanded(input, sizes if size is None else (size,), "expand")
    wanted = as_shape(sizes if size is None else (size,), "expand")
    extra = len(wanted) - input.ndim
    if extra < 0:
        raise ShapeError(f"expand: {wanted} has fewer dimensions than the tensor's shape {tuple(input.shape)}")
    shape = []
    for i, n in enumerate(wanted):
        own = input._type.shape[i - extra] if i >= extra else 1
        if n < 0 and (n < -1 or i < extra):
            raise ShapeError(
                f"expand: {n} cannot stand for a {'new leading dimension' if n == -1 else 'size'} in {wanted}"
            )
        if own != 1 and n not in (-1, own):
            raise ShapeError(
                f"expand: shape {tuple(input.shape)} does not expand to {wanted}; only sizes of 1 can grow"
            )
        shape.append(own if n == -1 else n)
    return apply(Expand, (input,), {"shape": tuple(shape)})


@method
def expand_as(input: Tensor, other: Tensor) -> Tensor:
    """Expand to the shape of `other`."""
    if other.is_nested and not input.is_nested:
        from ..ragged_tensors.reshaping import expanded_as

        return expanded_as(input, other)
    return expand(input, other._type.shape)


@method
def broadcast_to(input: Tensor, *sizes: Any, size: Any = None) -> Tensor:
    """Expand to `size`, given as one argument or as several.

    >>> ex.broadcast_to(ex.tensor([1, 2]), (2, 2))
    tensor([[1, 2],
            [1, 2]])
    """
    return expand(input, *sizes, size=size)


def broadcast_shapes(*shapes: int | Sequence[int]) -> Size:
    """The shape that all these shapes broadcast to.

    >>> ex.broadcast_shapes((2, 1), (3,))
    extempo.Size([2, 3])
    """
    return Size(_broadcast_shapes(*[as_shape((s,), "broadcast_shapes") for s in shapes]))


def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """All tensors expanded to their common shape.

    >>> a, b = ex.broadcast_tensors(ex.tensor([[1], [2]]), ex.tensor([3, 4]))
    >>> a
    tensor([[1, 1],
            [2, 2]])
    >>> b
    tensor([[3, 4],
            [3, 4]])
    """
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else tensors
    shape = _broadcast_shapes(*[x._type.shape for x in given])
    return tuple(apply(Expand, (x,), {"shape": shape}) for x in given)


@numpy_method
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """A new dimension of size 1 at `dim`.

    >>> ex.unsqueeze(ex.tensor([1, 2]), 1)
    tensor([[1],
            [2]])
    """
    return _unsqueeze(input, dim)


@cached_by_types
def _unsqueeze(input: Tensor, dim: int) -> Tensor:
    d = normalize_dim(dim, input.ndim + 1, "unsqueeze")
    shape = input._type.shape
    return apply(Reshape, (input,), {"shape": (*shape[:d], 1, *shape[d:])})


@numpy_method
def squeeze(input: Tensor, dim: Dims | None = None) -> Tensor:
    """Dimensions of size 1 dropped: all of them, or those in `dim`.

    >>> ex.squeeze(ex.zeros(1, 3, 1)).shape, ex.squeeze(ex.zeros(1, 3, 1), 0).shape
    (extempo.Size([3]), extempo.Size([3, 1]))
    """
    return _squeeze(input, dim)


@cached_by_types
def _squeeze(input: Tensor, dim: Dims | None) -> Tensor:
    if dim is None:
        dims = set(range(input.ndim))
    else:
        given: Any = dim if is_sequence(dim) else (dim,)
        dims = {normalize_dim(d, input.ndim, "squeeze") for d in given}
    if input.is_nested:  # dimension 0 counts the rows, also where there is one
        dims.discard(0)
    shape = tuple(s for d, s in enumerate(input._type.shape) if d not in dims or s != 1)
    return apply(Reshape, (input,), {"shape": shape})


def existing_dim(x: Tensor, dim: int, op: str) -> int:
    """`dim` from 0 on; a 0-dim tensor has none."""
    if not x.ndim:
        raise IndexRangeError(f"{op}: a 0-dim tensor has no dimensions")
    return normalize_dim(dim, x.ndim, op)


@numpy_method
def select(input: Tensor, dim: int, index: int | Tensor) -> Tensor:
    """One index of a dimension, which disappears.

    >>> ex.select(ex.tensor([[1, 2], [3, 4]]), 1, 0)
    tensor([1, 3])
    """
    d = existing_dim(input, dim, "select")
    if input.is_nested:
        from ..ragged_tensors.reshaping import selected

        return selected(input, d, index.__index__())
    size = input._type.shape[d]
    i = index.__index__()
    if not -size <= i < size:
        raise IndexRangeError(f"select: index {i} is out of range for dimension {d} of size {size}")
    return apply(Slice, (input, i % size), {"spec": (":",) * d + ("i",)})


@numpy_method
def narrow(input: Tensor, dim: int, start: int | Tensor, length: int) -> Tensor:
    """`length` elements of a dimension, from `start` on.

    >>> ex.narrow(ex.arange(5), 0, 1, 3)
    tensor([1, 2, 3])
    """
    d = existing_dim(input, dim, "narrow")
    size = input._type.shape[d]
    if isinstance(start, Tensor) and (start.ndim or start.dtype.category != 1):
        raise DtypeError(
            f"narrow: start must be an int or a 0-dim integer tensor, got {start.dtype} of shape {tuple(start.shape)}"
        )
    given, length = start.__index__(), as_int(length, "narrow", "length")
    if input.is_nested and not isinstance(size, int):
        from ..ragged_tensors.reshaping import narrowed

        return narrowed(input, given, length)
    first = given + size if given < 0 else given
    if first < 0 or length < 0 or first + length > size:
        raise IndexRangeError(f"narrow: start {given} and length {length} exceed dimension {d} of size {size}")
    return apply(Slice, (input, first), {"spec": (":",) * d + ((length, 1),)})


def slice_step(size: int, start: int | None, end: int | None, step: int, op: str) -> tuple[int, tuple[int, int]]:
    """(first, (length, step)): how `Slice` writes start:end:step of a dimension of that size."""
    step = as_int(step, op, "step")
    if step <= 0:
        raise ShapeError(f"{op}: slice step must be positive, got {step}; use flip() to reverse")
    if depends((size, start, end)):
        first, stop = bounds_of_slice(size, start, end)
        return first, (at_least_0(-((first - stop) // step)), step)
    first, stop, _ = slice(start, end, step).indices(size)
    return first, (max(0, -((first - stop) // step)), step)


def _slice(self: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
    """`x[start:end:step]` along a dimension."""
    d = existing_dim(self, dim, "slice")
    first, entry = slice_step(self._type.shape[d], start, end, step, "slice")
    return apply(Slice, (self, first), {"spec": (":",) * d + (entry,)})


method(_slice, "slice")


@method
def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The diagonal of two dimensions as a new last one, sharing memory.

    >>> ex.diagonal(ex.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    """
    return apply(Diagonal, (input,), diagonal_attributes(input.ndim, offset, dim1, dim2, "diagonal"))


def diagonal_attributes(ndim: int, offset: int, dim1: int, dim2: int, op: str) -> dict[str, int]:
    """The attributes of `Diagonal`, checked."""
    a, b = normalize_dim(dim1, ndim, op), normalize_dim(dim2, ndim, op)
    if ndim < 2 or a == b:
        raise ShapeError(
            f"{op}: expected two different dimensions of a matrix or more, got {dim1} and {dim2} of {ndim}"
        )
    return {"offset": as_int(offset, op, "offset"), "dim1": a, "dim2": b}


def linalg_diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonals of a batch of matrices; what `linalg.diagonal` is."""
    return diagonal(A, offset, dim1, dim2)


def _unfold(self: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Windows of `size` taken every `step` along a dimension, as a new last one, sharing memory."""
    d = normalize_dim(dimension, self.ndim, "unfold")
    limit = self._type.shape[d] if self.ndim else 1
    size, step = as_int(size, "unfold", "size"), as_int(step, "unfold", "step")
    if not 0 <= size <= limit or step <= 0:
        raise ShapeError(f"unfold: size {size} and step {step} do not fit dimension {d} of size {limit}")
    return apply(Unfold, (self,), {"dimension": d, "size": size, "step": step})


method(_unfold, "unfold")


@method
def as_strided(input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Tensor:
    """Any window on the tensor's memory; the offset counts from the start of the storage, not of the tensor.

    >>> ex.as_strided(ex.arange(6), (3, 2), (1, 2))
    tensor([[0, 2],
            [1, 3],
            [2, 4]])
    """
    offset, attrs = strided_step(input, size, stride, storage_offset, "as_strided")
    return apply(AsStrided, (input, offset), attrs)


def strided_step(x: Tensor, size: Any, stride: Any, storage_offset: int | None, op: str) -> tuple[int, dict[str, Any]]:
    """(offset from x's first element, attributes) of `AsStrided`, checked against the memory there is."""
    shape, strides = as_shape((size,), op), as_shape((stride,), op)
    if len(shape) != len(strides) or any(s < 0 for s in (*shape, *strides)):
        raise ShapeError(f"{op}: size {shape} and stride {strides} must have equally many numbers, none negative")
    if x._array is None:
        own, start, available = row_major_strides(x._type.shape), 0, x._type.numel()
    else:
        own, start, available = x.stride(), x.storage_offset(), _elements_of_memory(x)
    offset = start if storage_offset is None else storage_offset
    last = offset + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    if count(shape) and not (offset >= 0 and last < available):
        raise ShapeError(
            f"{op}: size {shape}, stride {strides} and offset {offset} reach from element {offset} to {last}, "
            f"the storage has {available} elements"
        )
    return offset - start, {"size": shape, "stride": strides, "source_stride": own}


def _elements_of_memory(x: Tensor) -> int:
    low, high = np.lib.array_utils.byte_bounds(x._storage.array)
    return (high - low) // x.dtype.itemsize


# ---- in place: the tensor becomes a view of what it was


_PARTS = ("_array", "_storage", "_node", "_type", "_alias", "_grad_barrier")  # getting the node also closes a trace


def _becomes(x: Tensor, view: Callable[..., Tensor], name: str, args: Any, kwargs: Any) -> Tensor:
    node = x._current_node()
    if CONTEXT.get().grad and x.requires_grad and node is not None and not node.inputs:
        raise LeafWriteError(f"{name}: this tensor is a leaf that requires grad; use x = x.{name.rstrip('_')}(...)")
    source = x
    if x._alias is None:  # views of x look into what it was, so that stays
        source = new(Tensor)
        source._source = None
        for slot in _PARTS:
            setattr(source, slot, getattr(x, slot))
    seen = view(source, *args, **kwargs)
    for slot in _PARTS:
        setattr(x, slot, getattr(seen, slot))
    return x


def _in_place_view(view: Callable[..., Tensor], name: str, example: str = "") -> Callable[..., Tensor]:
    def fn_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return _becomes(input, view, name, args, kwargs)

    fn_.__name__ = fn_.__qualname__ = name
    fn_.__doc__ = f"In-place {name.rstrip('_')}: changes how the tensor sees its memory.{example}"
    return method(fn_, name)


for _name, _fn in (
    ("t_", t),
    ("transpose_", transpose),
    ("swapaxes_", swapaxes),
    ("swapdims_", transpose),
    ("squeeze_", squeeze),
    ("unsqueeze_", unsqueeze),
):
    _in_place_view(_fn, _name)
as_strided_ = _in_place_view(
    as_strided,
    "as_strided_",
    "\n\n>>> x = ex.arange(6)\n>>> ex.as_strided_(x, (3,), (2,)) is x, x\n(True, tensor([0, 2, 4]))",
)


# ---- the same as copies


def copying(view: Callable[..., Any], name: str, example: str) -> Callable[..., Any]:
    """`name(...)`: what the view function gives, in memory of its own; for several results `out=` is a list.

    example: a call and what it shows, for the docstring.
    """

    def fn(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        if not args and "input" in kwargs:
            args = (kwargs.pop("input"),)
        seen = view(*args, **kwargs)
        if isinstance(seen, Tensor | TensorLike):
            return deliver(seen.clone(), out)
        return deliver_each(tuple(part.clone() for part in seen), out)

    fn.__name__ = fn.__qualname__ = name
    fn.__doc__ = f"A copy of what `{name.removesuffix('_copy')}` sees.\n\n>>> {example}"
    signature = inspect.signature(view)
    last = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    option = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None, annotation="Any")
    fn.__signature__ = signature.replace(parameters=[*last, option])  # type: ignore[attr-defined] # read by inspect
    return fn


alias_copy = copying(lambda input: input, "alias_copy", "ex.alias_copy(ex.tensor([1, 2]))\ntensor([1, 2])")
as_strided_copy = copying(
    as_strided,
    "as_strided_copy",
    "ex.as_strided_copy(ex.arange(6), (3, 2), (1, 2)).flatten()\ntensor([0, 2, 1, 3, 2, 4])",
)
diagonal_copy = copying(diagonal, "diagonal_copy", "ex.diagonal_copy(ex.tensor([[1, 2], [3, 4]]))\ntensor([1, 4])")
expand_copy = copying(expand, "expand_copy", "ex.expand_copy(ex.tensor([[7]]), (1, 3))\ntensor([[7, 7, 7]])")
narrow_copy = method(copying(narrow, "narrow_copy", "ex.narrow_copy(ex.arange(5), 0, 1, 3)\ntensor([1, 2, 3])"))
permute_copy = copying(
    permute, "permute_copy", "ex.permute_copy(ex.zeros(2, 3, 4), (2, 0, 1)).shape\nextempo.Size([4, 2, 3])"
)
select_copy = copying(select, "select_copy", "ex.select_copy(ex.tensor([[1, 2], [3, 4]]), 1, 0)\ntensor([1, 3])")
slice_copy = copying(_slice, "slice_copy", "ex.slice_copy(ex.arange(6), 0, 1, 6, 2)\ntensor([1, 3, 5])")
squeeze_copy = copying(squeeze, "squeeze_copy", "ex.squeeze_copy(ex.zeros(1, 3, 1)).shape\nextempo.Size([3])")
t_copy = copying(t, "t_copy", "ex.t_copy(ex.tensor([[1], [2]]))\ntensor([[1, 2]])")
transpose_copy = copying(
    transpose, "transpose_copy", "ex.transpose_copy(ex.tensor([[1], [2]]), 0, 1)\ntensor([[1, 2]])"
)
unfold_copy = copying(_unfold, "unfold_copy", "ex.unfold_copy(ex.arange(4), 0, 4, 1)\ntensor([[0, 1, 2, 3]])")
unsqueeze_copy = copying(unsqueeze, "unsqueeze_copy", "ex.unsqueeze_copy(ex.tensor([1, 2]), 0)\ntensor([[1, 2]])")
view_copy = copying(_view, "view_copy", "ex.view_copy(ex.tensor([[1], [2]]), (1, 2))\ntensor([[1, 2]])")
