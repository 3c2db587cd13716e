"""x[...] for reading and writing: ints, slices, None, Ellipsis, masks, integer tensors and lists, mixed.

Ints, slices, None and Ellipsis make a view (one `Slice`). Tensors, lists and masks make a copy (one `IndexGet` on top of
that view), and its assignment is one `IndexPut`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import ops
from .._methods import method
from .._tensor import Tensor, apply, write
from ..errors import DtypeError, IndexRangeError, ShapeError
from ..op import Op, Refuse, Rng, Sample
from ..storage import Array
from ..types import TensorType, bool_, broadcast_shapes
from .creation import Copy, as_tensor
from .view import Slice

__all__: list[str] = []


def _check_range(index: Array, size: int, dim: int, op: str) -> None:
    if index.size and (index.min() < -size or index.max() >= size):
        bad = index[(index < -size) | (index >= size)].reshape(-1)[0]
        raise IndexRangeError(f"{op}: index {bad} is out of range for dimension {dim} of size {size}")


def _full_index(ndim: int, indices: tuple[Array, ...], dims: tuple[int, ...]) -> tuple[Any, ...]:
    index: list[Any] = [slice(None)] * ndim
    for i, d in zip(indices, dims, strict=True):
        index[d] = i
    return tuple(index)


def _checked_index(x: Array, indices: tuple[Array, ...], dims: tuple[int, ...], op: str) -> tuple[Any, ...]:
    for i, d in zip(indices, dims, strict=True):
        _check_range(i, x.shape[d], d, op)
    return _full_index(x.ndim, indices, dims)


class IndexGet(Op):
    """Elements picked by integer tensors along some dimensions."""

    family = "index"
    quiet = True
    saves = ("indices",)
    batch = Refuse("looped over samples")

    @staticmethod
    def infer(x: TensorType, *indices: TensorType, dims: tuple[int, ...]) -> TensorType:
        try:
            picked = broadcast_shapes(*[i.shape for i in indices])
        except ShapeError as error:
            raise ShapeError(f"indexing: index tensors must broadcast; {error}") from None
        rest = tuple(s for d, s in enumerate(x.shape) if d not in dims)
        # Neighbouring indices keep their place; separated ones go to the front (NumPy's rule).
        place = dims[0] if dims[-1] - dims[0] == len(dims) - 1 else 0
        return TensorType((*rest[:place], *picked, *rest[place:]), x.dtype)

    @staticmethod
    def numpy(x: Array, *indices: Array, dims: tuple[int, ...]) -> Array:
        return np.ascontiguousarray(x[_checked_index(x, indices, dims, "indexing")])

    @staticmethod
    def vjp(g: Tensor, y: Any, x: Any, *indices: Tensor, dims: tuple[int, ...]) -> tuple[Any, ...]:
        zeros = ops.zeros(x.shape, dtype=g.dtype)
        return (apply(IndexPut, (zeros, g, *indices), {"dims": dims, "accumulate": True}), *(None for _ in indices))

    @classmethod
    def _derive_save_plan(cls, needs: int, types: Any) -> tuple[int, ...]:
        return tuple(range(2, len(types) + 1))

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(4, 3)), np.array([0, 2, 2]), dims=(0,))
        yield Sample(rng.normal(size=(4, 3, 2)), np.array([[1], [3]]), np.array([0, 2]), dims=(0, 1))
        yield Sample(rng.normal(size=(4, 3, 2)), np.array([1, 3]), np.array([0, 1]), dims=(0, 2))
        yield Sample(rng.normal(size=(4,)), np.empty(0, np.int64), dims=(0,))


class IndexPut(Op):
    """The first input with the values written (or added) where integer tensors point."""

    family = "index"
    quiet = True
    batch = Refuse("looped over samples")
    saves = ("indices", "indices")

    @staticmethod
    def infer(x: TensorType, values: TensorType, *indices: TensorType, dims: tuple[int, ...], accumulate: bool) -> TensorType:
        target = IndexGet.infer(x, *indices, dims=dims).shape
        try:
            fits = broadcast_shapes(target, values.shape) == target
        except ShapeError:
            fits = False
        if not fits:
            raise ShapeError(f"indexing: values of shape {values.shape} do not broadcast to the indexed shape {target}")
        return x

    @staticmethod
    def numpy(x: Array, values: Array, *indices: Array, dims: tuple[int, ...], accumulate: bool) -> Array:
        out = np.array(x, copy=True)
        where = _checked_index(x, indices, dims, "indexing")
        if accumulate:
            np.add.at(out, where, values)
        else:
            out[where] = values
        return out

    @staticmethod
    def vjp(g: Tensor, y: Any, x: Any, values: Any, *indices: Tensor, dims: Any, accumulate: bool) -> tuple[Any, ...]:
        def into_x() -> Tensor:
            if accumulate:
                return g
            nothing = ops.zeros((), dtype=g.dtype)
            return apply(IndexPut, (g, nothing, *indices), {"dims": dims, "accumulate": False})

        return into_x, lambda: apply(IndexGet, (g, *indices), {"dims": dims}), *(None for _ in indices)

    @classmethod
    def _derive_save_plan(cls, needs: int, types: Any) -> tuple[int, ...]:
        return tuple(range(3, len(types) + 1))

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(4, 3)), rng.normal(size=(2, 3)), np.array([0, 2]), dims=(0,), accumulate=False)
        yield Sample(rng.normal(size=(4, 3)), rng.normal(size=(3,)), np.array([1, 1]), dims=(0,), accumulate=True)


# ---- from x[...] to ops


def _parse(x: Tensor, key: Any) -> tuple[tuple[Any, ...], list[int], list[tuple[int, Tensor]]]:
    """(spec, starts, [(dimension after slicing, index tensor)]) of an index expression."""
    keys = list(key) if isinstance(key, tuple) else [key]
    keys = [_as_key(k) for k in keys]
    used = sum(_consumes(k) for k in keys)
    if used > x.ndim:
        raise IndexRangeError(f"indexing: {used} indices for a tensor with {x.ndim} dimensions of shape {tuple(x.shape)}")
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
            _slice(k, x._type.shape[dim], spec, starts)
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


def _as_key(k: Any) -> Any:
    """None, Ellipsis, a slice, an int, or an index tensor."""
    if k is None or k is Ellipsis or isinstance(k, slice):
        return k
    if isinstance(k, bool | np.bool_):
        return ops.tensor(bool(k))
    if isinstance(k, Tensor):
        if k.dtype.is_floating_point:
            raise DtypeError(f"indexing: an index tensor must be integer or bool, got {k.dtype}; use .long()")
        if k._array is not None and k.dtype is not bool_ and k.ndim == 0:
            return int(k.item())
        if k.dtype is ops.types.uint8:
            return k.bool()
        return k
    if hasattr(k, "__index__"):
        return k.__index__()
    if isinstance(k, list | tuple | range | np.ndarray):
        index = as_tensor(list(k) if isinstance(k, range) else k)
        if index.numel() == 0 and index.dtype is not bool_:
            index = index.long()
        return _as_key(index) if index.ndim else index
    raise DtypeError(f"indexing: expected ints, slices, None, ..., lists or tensors, got {type(k).__name__}")


def _consumes(k: Any) -> int:
    if k is None or k is Ellipsis:
        return 0
    return k.ndim if isinstance(k, Tensor) and k.dtype is bool_ else 1


def _slice(k: slice, size: int, spec: list[Any], starts: list[int]) -> None:
    if k.step is not None and k.step.__index__() <= 0:
        raise ShapeError(f"indexing: slice step must be positive, got {k.step}; use flip() to reverse")
    if k == slice(None):
        spec.append(":")
        return
    start, stop, step = k.indices(size)
    spec.append((max(0, -((start - stop) // step)), step))
    starts.append(start)


def _mask_to_indices(mask: Tensor, x: Tensor, dim: int) -> list[Tensor]:
    """The integer indices of a mask's true elements, one tensor per dimension it covers."""
    shape = x._type.shape[dim : dim + mask.ndim]
    if mask._type.shape != shape:
        raise IndexRangeError(
            f"indexing: a mask of shape {tuple(mask.shape)} does not fit the dimensions {shape} that it covers (from dim {dim})"
        )
    found = np.nonzero(np.atleast_1d(mask._values()))
    return [ops.from_numpy(i.astype(np.int64)) for i in found]


@method
def __getitem__(self: Tensor, key: Any) -> Tensor:
    spec, starts, advanced = _parse(self, key)
    seen = apply(Slice, (self, *starts), {"spec": spec})
    if not advanced:
        return seen
    return apply(IndexGet, (seen, *(i for _, i in advanced)), {"dims": tuple(d for d, _ in advanced)})


@method
def __setitem__(self: Tensor, key: Any, value: Any) -> None:
    spec, starts, advanced = _parse(self, key)
    seen: Tensor = apply(Slice, (self, *starts), {"spec": spec})
    if not isinstance(value, Tensor):
        value = as_tensor(value, dtype=None if isinstance(value, np.ndarray) else self.dtype)
    value = value if value.dtype is self.dtype else value.to(self.dtype)
    if advanced:
        attrs = {"dims": tuple(d for d, _ in advanced), "accumulate": False}
        write(seen, apply(IndexPut, (seen, value, *(i for _, i in advanced)), attrs), "__setitem__")
        return
    while value.ndim > seen.ndim and value.shape[0] == 1:
        value = value.squeeze(0)
    if not ops.broadcastable(value._type.shape, seen._type.shape):
        raise ShapeError(f"indexing: value of shape {tuple(value.shape)} does not broadcast to {tuple(seen.shape)}")
    write(seen, apply(Copy, (seen, value)), "__setitem__")
