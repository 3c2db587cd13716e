"""x[...] for reading and writing, and the functions that pick elements by integer tensors and masks.

Ints, slices, None and Ellipsis make a view (one `Slice`). Tensors, lists and masks make a copy (one `IndexGet` on top
of that view), and its assignment is one `IndexPut`. Index tensors next to each other keep their place among the
dimensions; separated by a slice or None they go to the front. A list is one index, also a nested one, as in NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, overload

import numpy as np

from .. import ops
from ..core.context import CONTEXT
from ..core.strides import row_major_strides
from ..core.tensor import Tensor, TensorLike, from_array
from ..core.tensor_methods import method
from ..core.types import Number, as_kind, bool_, check_size, count, int64, normalize_dim, uint8
from ..core.wording import counted
from ..dispatch.dispatcher import apply
from ..dispatch.inplace import write, write_number
from ..errors import DtypeError, IndexRangeError, ShapeError
from ..symbolic.sym_int import SymInt
from .creation import Copy, as_tensor
from .define import deliver, in_rows, inplace_method, numpy_method, refuse_shared
from .found_sizes import columns_of_places, tracer_of
from .index_ops import IndexGet, IndexPut, check_range, indexed_shape
from .shaping import slice_step
from .view import Slice

__all__ = [
    "argwhere",
    "index_put",
    "index_put_",
    "index_select",
    "masked_select",
    "nonzero",
    "nonzero_static",
    "take",
    "unravel_index",
]

# ---- from x[...] to ops

_ALL = slice(None)


def _parse(x: Tensor, key: Any) -> tuple[tuple[Any, ...], list[int], list[tuple[int, Tensor]]]:
    """(spec, starts, [(dimension after slicing, index tensor)]) of an index expression."""
    keys = [_as_key(k) for k in (key if isinstance(key, tuple) else (key,))]
    used = sum(map(_consumes, keys))
    if used > x.ndim:
        raise IndexRangeError(
            f"indexing: {counted(used, 'index', 'indices')} for a tensor with {counted(x.ndim, 'dimension')} "
            f"of shape {tuple(x.shape)}"
        )
    dots = [i for i, k in enumerate(keys) if k is Ellipsis]
    if len(dots) > 1:
        raise IndexRangeError("indexing: an index can have only one Ellipsis (...)")
    if dots:
        keys[dots[0] : dots[0] + 1] = [slice(None)] * (x.ndim - used)
    spec: list[Any] = []
    starts: list[int] = []
    advanced: list[tuple[int, Tensor]] = []
    dim = out_dim = 0
    for k in keys:
        if k is None:
            spec.append(None)
            out_dim += 1
        elif isinstance(k, Tensor):
            for index in _mask_to_indices(k, x, dim) if k.dtype is bool_ else [k]:
                if k.dtype is bool_ and k.ndim == 0:
                    spec.append(None)
                else:
                    spec.append(":")
                    dim += 1
                advanced.append((out_dim, index))
                out_dim += 1
        elif isinstance(k, slice):
            if k == _ALL:
                spec.append(":")
            else:
                first, entry = _sliced(x, dim, k)
                spec.append(entry)
                starts.append(first)
            dim += 1
            out_dim += 1
        else:
            size = x._type.shape[dim]
            if not -size <= k < size:
                raise IndexRangeError(f"indexing: index {k} is out of range for dimension {dim} of size {size}")
            spec.append("i")
            starts.append(k % size)
            dim += 1
    return tuple(spec), starts, advanced


def _sliced(x: Tensor, dim: int, k: slice) -> tuple[int, tuple[int, int]]:
    """How `Slice` writes a slice of a dimension."""
    return slice_step(x._type.shape[dim], k.start, k.stop, 1 if k.step is None else k.step, "indexing")


def _as_key(k: Any) -> Any:
    """None, Ellipsis, a slice, an int, or an index tensor."""
    if k is None or k is Ellipsis or type(k) is int or isinstance(k, slice):
        return k
    if isinstance(k, bool | np.bool_):
        return ops.tensor(bool(k))
    if isinstance(k, Tensor):
        if k.dtype.is_floating_point:
            raise DtypeError(f"indexing: an index tensor must be integer or bool, got {k.dtype}; use .long()")
        if k.ndim == 0 and k.dtype is not bool_ and k._array is not None:  # asked last: it may have to be waited for
            return int(k.item())
        return k.bool() if k.dtype is uint8 else k
    if isinstance(k, list | tuple | range | np.ndarray):
        index = as_tensor(list(k) if isinstance(k, range) else k)
        return _as_key(index if index.numel() or index.dtype is bool_ else index.long())
    if type(k) is SymInt:
        return k
    if hasattr(k, "__index__"):
        return k.__index__()
    raise DtypeError(f"indexing: expected ints, slices, None, ..., lists or tensors, got {type(k).__name__}")


def _consumes(k: Any) -> int:
    if k is None or k is Ellipsis:
        return 0
    return k.ndim if isinstance(k, Tensor) and k.dtype is bool_ else 1


def _mask_to_indices(mask: Tensor, x: Tensor, dim: int) -> list[Tensor]:
    """The integer indices of a mask's true elements, one tensor per dimension it covers."""
    _check_mask(mask, x, dim)
    tracer = tracer_of(mask)
    if tracer is not None:
        return columns_of_places(tracer, mask)
    return [from_array(i) for i in np.nonzero(np.atleast_1d(mask._values_for_size()))]


def _check_mask(mask: Tensor, x: Tensor, dim: int) -> None:
    shape = x._type.shape[dim : dim + mask.ndim]
    if mask._type.shape != shape:
        raise IndexRangeError(
            f"indexing: a mask of shape {mask._type.shape} does not fit the dimensions that it covers, "
            f"which from dim {dim} on have shape {shape}"
        )


def _only_mask(x: Tensor, key: Any) -> Tensor | None:
    """The mask of a key that has one and takes all of the other dimensions, in a shape that broadcasts to x's."""
    keys = key if type(key) is tuple else (key,)
    if all(type(k) is int or type(k) is slice for k in keys):
        return None
    places = [i for i, k in enumerate(keys) if isinstance(k, Tensor) and k.dtype is bool_ and k.ndim]
    if len(places) != 1 or sum(k is Ellipsis for k in keys) > 1:
        return None
    place = places[0]
    if not all(i == place or k is Ellipsis or (type(k) is slice and k == slice(None)) for i, k in enumerate(keys)):
        return None
    mask: Tensor = keys[place]
    if mask.ndim + sum(type(k) is slice for k in keys) > x.ndim:
        return None
    dim = x.ndim - mask.ndim - (len(keys) - 1 - place) if any(k is Ellipsis for k in keys[:place]) else place
    _check_mask(mask, x, dim)
    after = x.ndim - dim - mask.ndim
    return mask.reshape(*mask._type.shape, *(1,) * after) if after else mask


_POINTS = tuple(("i",) * n for n in range(65))  # the spec of an element's place, by the number of its ints


def _places(x: Tensor, key: tuple[Any, ...]) -> tuple[int, ...] | None:
    """Where the ints of x[i, j] point; None for any other key, and for one that is out of range."""
    shape = x._type.shape
    if not key or len(key) > len(shape):
        return None
    below = False
    for k, size in zip(key, shape, strict=False):
        if type(k) is not int or not -size <= k < size:
            return None
        below = below or k < 0
    return tuple([k % size for k, size in zip(key, shape, strict=False)]) if below else key


def _resolve(x: Tensor, key: Any) -> tuple[Tensor, tuple[Tensor, ...], tuple[int, ...]]:
    """The part of x that the ints and slices of a key see, with the index tensors left to apply to its dimensions."""
    if type(key) is tuple:
        places = _places(x, key)
        if places is not None:
            return apply(Slice, (x, *places), {"spec": _POINTS[len(places)]}), (), ()
    elif type(key) is int and x._type.shape:
        size = x._type.shape[0]
        if -size <= key < size:
            return apply(Slice, (x, key % size), {"spec": ("i",)}), (), ()
    elif type(key) is slice and x._type.shape and (key.start is not None or key.stop is not None):
        first, entry = _sliced(x, 0, key)
        return apply(Slice, (x, first), {"spec": (entry,)}), (), ()
    spec, starts, advanced = _parse(x, key)
    plain = advanced and all(entry == ":" for entry in spec)
    seen = x if plain else apply(Slice, (x, *starts), {"spec": spec})
    return seen, tuple(i for _, i in advanced), tuple(d for d, _ in advanced)


@method
def __getitem__(self: Tensor, key: Any) -> Tensor:
    if isinstance(key, TensorLike):
        return apply(IndexGet, (self, key), {"dims": (0,)})
    if type(key) is Tensor and key._type.dtype is int64 and key._type.shape and self._type.shape:
        return apply(IndexGet, (self, key), {"dims": (0,)})  # the commonest index, of which nothing has to be parsed
    seen, indices, dims = _resolve(self, key)
    return apply(IndexGet, (seen, *indices), {"dims": dims}) if dims else seen


@method
def __setitem__(self: Tensor, key: Any, value: Any) -> None:
    if isinstance(value, bool | int | float) or (isinstance(value, Tensor) and not value.ndim):
        mask = _only_mask(self, key)
        if mask is not None:  # one value for all: where the mask holds need not be known
            value = as_tensor(value, self.dtype)
            write(self, ops.where(mask, value, self), "__setitem__", (mask, value, self))
            return
    seen, indices, dims = _resolve(self, key)
    if isinstance(value, bool | int | float) and not dims:
        number = as_number(value, self)
        if not write_number(seen, number):
            write(seen, apply(Copy, (seen, number)), "__setitem__")
        return
    if not isinstance(value, Tensor):
        value = as_tensor(value, dtype=None if isinstance(value, np.ndarray) else self.dtype)
    value = value if value.dtype is self.dtype else value.to(self.dtype)
    n_dims = len(indexed_shape(seen._type.shape, indices, dims)) if dims else seen.ndim
    while value.ndim > n_dims and value._type.shape[0] == 1:
        value = value.squeeze(0)
    if dims:
        write(seen, apply(IndexPut, (seen, value, *indices), {"dims": dims, "accumulate": False}), "__setitem__")
        return
    if not ops.broadcastable(value._type.shape, seen._type.shape):
        raise ShapeError(f"indexing: value of shape {tuple(value.shape)} does not broadcast to {tuple(seen.shape)}")
    write(seen, apply(Copy, (seen, value)), "__setitem__")


@method
def index_put(
    input: Tensor, indices: Sequence[Tensor | None], values: Tensor | Number, accumulate: bool = False
) -> Tensor:
    """A copy with the values written, or added, where a tuple of index tensors points.

    >>> ex.index_put(ex.zeros(3), (ex.tensor([0, 2]),), ex.tensor([1.0, 2.0]))
    tensor([1., 0., 2.])
    """
    values = same_dtype(values, input, "index_put")
    key = tuple(slice(None) if i is None else as_tensor(i) for i in indices)
    _, _, advanced = _parse(input, key)
    if not advanced:
        raise IndexRangeError("index_put: expected at least one index tensor")
    attrs = {"dims": tuple(d for d, _ in advanced), "accumulate": accumulate}
    return apply(IndexPut, (input, values, *(i for _, i in advanced)), attrs)


inplace_method("index_put_", index_put)


def index_put_(
    input: Tensor, indices: Sequence[Tensor | None], values: Tensor | Number, accumulate: bool = False
) -> Tensor:
    """In-place index_put.

    >>> x = ex.zeros(3)
    >>> ex.index_put_(x, (ex.tensor([1, 1]),), ex.tensor([1.0, 2.0]), accumulate=True)
    tensor([0., 3., 0.])
    """
    return input.index_put_(indices, values, accumulate)


# ---- functions


def same_dtype(value: Any, x: Tensor, op: str) -> Tensor:
    """A source of values as a tensor; one with a dtype of its own must have x's."""
    if not isinstance(value, Tensor):
        return as_tensor(value, dtype=x.dtype)
    if value.dtype is not x.dtype:
        raise DtypeError(
            f"{op}: expected values of dtype {x.dtype}, as the input, got {value.dtype}; convert one of them"
        )
    return value


def as_number(value: Any, x: Tensor) -> Number:
    """A number in the kind of x's elements."""
    return as_kind(float if x.dtype.is_floating_point else bool if x.dtype is bool_ else int, value)


def as_index(value: Any, op: str) -> Tensor:
    """Integer indices as a tensor; ints and lists are taken as well."""
    index = as_tensor(value)
    if index.dtype.category != 1 and index._type.numel():
        raise DtypeError(f"{op}: expected an integer index, got {index.dtype}; use .long()")
    return index if index.dtype.category == 1 else index.long()


def row_index(value: Any, op: str) -> Tensor:
    """Indices along one dimension: a vector (or one number)."""
    index = as_index(value, op)
    if index.ndim > 1:
        raise ShapeError(f"{op}: expected a 1-dim index, got shape {tuple(index.shape)}; use gather or x[index]")
    return index if index.ndim else index.reshape(1)


@numpy_method
def index_select(input: Tensor, dim: int, index: Any, *, out: Tensor | None = None) -> Tensor:
    """The slices of a dimension that `index` names, in its order.

    >>> ex.index_select(ex.tensor([[1, 2, 3], [4, 5, 6]]), 1, ex.tensor([2, 0]))
    tensor([[3, 1],
            [6, 4]])
    """
    if out is not None:
        refuse_shared("index_select", out, input, index)
    d = normalize_dim(dim, input.ndim, "index_select")
    rows = row_index(index, "index_select")
    source = input if input.ndim else input.reshape(1)
    picked = apply(IndexGet, (source, rows), {"dims": (d,)})
    return deliver(picked if input.ndim else picked.reshape(()), out)


@method
def take(input: Tensor, index: Any, *, out: Tensor | None = None) -> Tensor:
    """Elements by their number in the flattened tensor, in the shape of `index`.

    >>> ex.take(ex.tensor([[1, 2], [3, 4]]), ex.tensor([0, 3]))
    tensor([1, 4])
    """
    if out is not None:
        refuse_shared("take", out, input, index)
    return deliver(apply(IndexGet, (input.reshape(-1), as_index(index, "take")), {"dims": (0,)}), out)


@method
def masked_select(input: Tensor, mask: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The elements where the mask holds, as a vector; both broadcast.

    >>> ex.masked_select(ex.tensor([1, 2, 3]), ex.tensor([True, False, True]))
    tensor([1, 3])
    """
    if input.is_nested or mask.is_nested:
        from ..ragged_tensors.picking import masked_elements

        return deliver(masked_elements(input, mask), out)
    if mask.dtype is not bool_:
        raise DtypeError(f"masked_select: expected a bool mask, got {mask.dtype}; compare first, e.g. x > 0")
    if out is not None:
        refuse_shared("masked_select", out, input, mask)
    input, mask = ops.broadcast_tensors(input, mask)
    return deliver(input[mask] if input.ndim else input.reshape(1)[mask.reshape(1)], out)


@overload
def nonzero(input: Tensor, *, out: Tensor | None = None, as_tuple: Literal[False] = False) -> Tensor: ...
@overload
def nonzero(input: Tensor, *, as_tuple: Literal[True]) -> tuple[Tensor, ...]: ...
@method
def nonzero(input: Tensor, *, out: Tensor | None = None, as_tuple: bool = False) -> Any:
    """The indices of all elements that are not zero: one row each, or with `as_tuple` one tensor per dimension.

    >>> ex.nonzero(ex.tensor([[0, 5], [7, 0]]))
    tensor([[0, 1],
            [1, 0]])
    """
    tracer = tracer_of(input)
    if tracer is not None:
        columns = columns_of_places(tracer, input)
        return tuple(columns) if as_tuple else deliver(ops.stack(columns, 1)[:, : input.ndim], out)
    values = input._values_for_size()
    if as_tuple:
        return tuple(from_array(i) for i in np.nonzero(np.atleast_1d(values)))
    if not values.ndim:
        return deliver(ops.zeros((int(bool(values)), 0), dtype=int64), out)
    return deliver(from_array(np.argwhere(values).astype(np.int64)), out)


@method
def argwhere(input: Tensor) -> Tensor:
    """The indices of all elements that are not zero, one row each.

    >>> ex.argwhere(ex.tensor([[0, 5], [7, 0]]))
    tensor([[0, 1],
            [1, 0]])
    """
    return nonzero(input)


@method
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1, out: Tensor | None = None) -> Tensor:
    """`size` rows of `nonzero`: cut off, or filled up with `fill_value`.

    >>> ex.nonzero_static(ex.tensor([0, 5, 7]), size=3)
    tensor([[ 1],
            [ 2],
            [-1]])
    """
    if size < 0:
        raise ShapeError(f"nonzero_static: size must not be negative, got {size}")
    found = nonzero(input)._values()[:size]
    rows = np.full((size, input.ndim), fill_value, np.int64)
    rows[: len(found)] = found
    return deliver(from_array(rows), out)


def unravel_index(indices: Tensor, shape: int | Sequence[int]) -> tuple[Tensor, ...]:
    """The coordinates, in a tensor of that shape, of elements given by their number in the flattened one.

    >>> ex.unravel_index(ex.tensor([1, 5]), (2, 3))
    (tensor([0, 1]), tensor([1, 2]))
    """
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    index = as_index(indices, "unravel_index").long()
    total = count(sizes)
    if index._type.numel():
        check_range(index._values(), total, 0, f"unravel_index (shape {sizes} has {total} elements)")
    return tuple(
        ops.remainder(ops.floor_divide(index, step), max(size, 1))
        for size, step in zip(sizes, row_major_strides(sizes), strict=True)
    )


def one_hot(input: Any, num_classes: int = -1) -> Tensor:
    """Class numbers as int64 rows with a single 1; `nn.functional.one_hot`.

    >>> F.one_hot(ex.tensor([0, 2]), num_classes=3)
    tensor([[1, 0, 0],
            [0, 0, 1]])
    """
    index = as_index(input, "one_hot")
    if index.is_nested:
        return in_rows(one_hot, index, num_classes)
    if num_classes != -1 and hasattr(CONTEXT.get().interceptor, "filled") and index._data is None:
        return ops.eq(index.unsqueeze(-1), ops.arange(num_classes)).long()  # a program has no values to look at
    values = index._values()
    n_classes = num_classes
    if n_classes == -1:
        if not values.size:
            raise ShapeError("one_hot: an empty tensor does not tell how many classes there are; pass num_classes")
        n_classes = int(values.max()) + 1
    if values.size and not (values.min() >= 0 and values.max() < n_classes):
        raise IndexRangeError(
            f"one_hot: class numbers must be from 0 to {n_classes - 1}, got {values.min()} to {values.max()}"
        )
    check_size("one_hot", (*index._type.shape, n_classes), 8)
    return ops.eq(index.unsqueeze(-1), from_array(np.arange(n_classes))).long()


def _unsafe_masked_index(input: Tensor, mask: Tensor, indices: Sequence[Any], fill: Number) -> Tensor:
    """input[indices] where the mask holds, `fill` elsewhere; indices outside the mask may be anything."""
    picked = input[_masked_key(mask, indices)]
    return ops.where(mask.reshape(*mask.shape, *(1,) * (picked.ndim - mask.ndim)), picked, fill).to(input.dtype)


def _unsafe_masked_index_put_accumulate(input: Tensor, mask: Tensor, indices: Sequence[Any], values: Tensor) -> Tensor:
    """A copy with the values added at the indices where the mask holds."""
    spread = mask.reshape(*mask.shape, *(1,) * (values.ndim - mask.ndim))
    kept = ops.where(spread, values, 0).to(input.dtype)
    return index_put(input, _masked_key(mask, indices), kept, accumulate=True)


def _masked_key(mask: Tensor, indices: Sequence[Any]) -> Any:
    return tuple(slice(None) if i is None else ops.where(mask, i, 0) for i in indices)


method(_unsafe_masked_index, "_unsafe_masked_index")
method(_unsafe_masked_index_put_accumulate, "_unsafe_masked_index_put_accumulate")
