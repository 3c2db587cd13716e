"""The ops behind x[...]: elements read and written by integer tensors, and the adjoint of reading."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .. import ops
from ..core.op import GRADIENTS_ONLY, IN_GRADIENTS_ONLY, Op, Refuse, Rng, Routine, Sample
from ..core.storage import Array
from ..core.strides import row_major_strides
from ..core.tensor import Tensor, from_array
from ..core.types import TensorType, bool_, broadcast_shapes, count, int64
from ..dispatch.dispatcher import apply
from ..errors import IndexRangeError, ShapeError


def check_range(index: Array, size: int, dim: int, op: str) -> None:
    """Raise unless every index fits a dimension of that size."""
    if index.size and (index.min() < -size or index.max() >= size):
        bad = index[(index < -size) | (index >= size)].reshape(-1)[0]
        raise IndexRangeError(f"{op}: index {bad} is out of range for dimension {dim} of size {size}")


def _place(dims: tuple[int, ...]) -> int:
    """Where the dimensions of the index tensors go: neighbours keep their place, separated ones go to the front."""
    return dims[0] if dims[-1] - dims[0] == len(dims) - 1 else 0


def _key(ndim: int, indices: tuple[Array, ...], dims: tuple[int, ...]) -> tuple[Any, ...]:
    key: list[Any] = [slice(None)] * ndim
    for i, d in zip(indices, dims, strict=True):
        key[d] = i
    return tuple(key)


def indexed_shape(shape: tuple[int, ...], indices: Sequence[Any], dims: tuple[int, ...]) -> tuple[int, ...]:
    try:
        picked = broadcast_shapes(*[i.shape for i in indices])
    except ShapeError as error:
        raise ShapeError(f"indexing: index tensors must broadcast; {error}") from None
    rest = tuple(s for d, s in enumerate(shape) if d not in dims)
    place = _place(dims)
    return (*rest[:place], *picked, *rest[place:])


def _add_at(out: Array, values: Array, indices: tuple[Array, ...], dims: tuple[int, ...]) -> None:
    """out[...] += values where the indices point, repeated ones adding up. `out` is row-major.

    Flat positions: NumPy's add.at is five times as fast on one dimension as on several.
    """
    shape = indexed_shape(out.shape, indices, dims)
    if 0 in shape:
        return
    for i, d in zip(indices, dims, strict=True):
        check_range(i, out.shape[d], d, "indexing")
    strides, place = row_major_strides(out.shape), _place(dims)
    n_picked = len(shape) - out.ndim + len(dims)
    at: Any = 0
    for i, d in zip(indices, dims, strict=True):
        steps = np.where(i < 0, i + out.shape[d], i).astype(np.int64) * strides[d]
        at = at + steps.reshape((1,) * (n_picked - i.ndim) + i.shape + (1,) * (len(shape) - place - n_picked))
    for position, d in enumerate([d for d in range(out.ndim) if d not in dims]):
        after = len(shape) - 1 - (position if position < place else position + n_picked)
        at = at + (np.arange(out.shape[d]) * strides[d]).reshape(-1, *(1,) * after)
    np.add.at(out.reshape(-1), np.broadcast_to(at, shape).reshape(-1), np.broadcast_to(values, shape).reshape(-1))


def _batched(
    size: int, indices: tuple[Tensor, ...], dims: tuple[int, ...]
) -> tuple[tuple[Tensor, ...], tuple[int, ...], int, int]:
    """Indices of a batch of lookups as indices of one: (indices, dims, where the picked dimensions were, how many)."""
    n_picked = max(i.ndim - 1 for i in indices)
    aligned = [i.reshape(size, *(1,) * (n_picked + 1 - i.ndim), *i._type.shape[1:]) for i in indices]
    samples = from_array(np.arange(size).reshape(size, *(1,) * n_picked))
    return (samples, *aligned), (0, *(d + 1 for d in dims)), _place(dims), n_picked


def _move_picked(x: Tensor, place: int, n_picked: int, back: bool) -> Tensor:
    """Batched lookups have the picked dimensions right after the batch dimension, a sample has them at `place`."""
    if place == 0:
        return x
    front, there = tuple(range(1, n_picked + 1)), tuple(range(place + 1, place + 1 + n_picked))
    return x.movedim(there, front) if back else x.movedim(front, there)


class IndexGet(Op):
    """Elements picked by integer tensors along some dimensions."""

    public_name = "x[index] or index_select"
    family = "index"
    quiet = True
    saves = ("indices",)
    lower = Routine("index_get")
    ragged = "picking.index_get"

    @staticmethod
    def infer(x: TensorType, *indices: TensorType, dims: tuple[int, ...]) -> TensorType:
        return TensorType(indexed_shape(x.shape, indices, dims), x.dtype)

    @staticmethod
    def numpy(x: Array, *indices: Array, dims: tuple[int, ...]) -> Any:
        try:
            return x.take(indices[0], axis=dims[0]) if len(dims) == 1 else x[_key(x.ndim, indices, dims)]
        except IndexError:
            for i, d in zip(indices, dims, strict=True):
                check_range(i, x.shape[d], d, "indexing")
            raise

    @staticmethod
    def vjp(g: Tensor, y: Any, x: Any, *indices: Tensor, dims: tuple[int, ...]) -> tuple[Any, ...]:
        return (apply(IndexEmbed, (g, *indices), {"dims": dims, "shape": x.shape}), *(None for _ in indices))

    @classmethod
    def _derive_save_plan(cls, needs: int, types: Any) -> tuple[int, ...]:
        return tuple(range(2, len(types) + 1))

    @staticmethod
    def batch(size: int, x: Tensor, *indices: Tensor, dims: tuple[int, ...]) -> Tensor:
        indices, dims, place, n_picked = _batched(size, indices, dims)
        return _move_picked(apply(IndexGet, (x, *indices), {"dims": dims}), place, n_picked, back=False)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(4, 3)), np.array([0, 2, 2]), dims=(0,))
        yield Sample(rng.normal(size=(2, 3, 2)), np.array([[2, -1], [0, 0]]), dims=(1,))
        yield Sample(rng.normal(size=(4, 3, 2)), np.array([[1], [3]]), np.array([0, 2]), dims=(0, 1))
        yield Sample(rng.normal(size=(4, 3, 2)), np.array([1, 3]), np.array([0, 1]), dims=(0, 2))
        yield Sample(rng.normal(size=(4,)), np.empty(0, np.int64), dims=(0,))
        yield Sample(rng.normal(size=(4,)), np.array(2), dims=(0,))

    @staticmethod
    def onnx(b: Any, x: Any, *indices: Any, dims: tuple[int, ...]) -> Any:
        if len(dims) == 1:
            return b.Gather(x, b.cast(indices[0], int64), axis=dims[0])
        place, order = _place(dims), (*dims, *(d for d in range(x.ndim) if d not in dims))
        picked = b.GatherND(b.Transpose(x, perm=order), b.joined(indices))
        n_picked, n_rest = max(i.ndim for i in indices), x.ndim - len(dims)
        rest = tuple(range(n_picked, n_picked + n_rest))
        return b.Transpose(picked, perm=(*rest[:place], *range(n_picked), *rest[place:]))


class IndexEmbed(Op):
    """Zeros of the given shape with the input added where integer tensors point: the adjoint of `IndexGet`."""

    family = "index"
    quiet = True
    saves = ("indices",)
    lower = Routine("index_embed")
    ragged = IN_GRADIENTS_ONLY
    infer = staticmethod(lambda g, *indices, dims, shape: TensorType(shape, g.dtype))

    @staticmethod
    def numpy(g: Array, *indices: Array, dims: tuple[int, ...], shape: tuple[int, ...]) -> Array:
        out = np.zeros(shape, g.dtype)
        _add_at(out, g, indices, dims)
        return out

    @staticmethod
    def vjp(g: Tensor, y: Any, x: Any, *indices: Tensor, dims: tuple[int, ...], shape: Any) -> tuple[Any, ...]:
        return (apply(IndexGet, (g, *indices), {"dims": dims}), *(None for _ in indices))

    @classmethod
    def _derive_save_plan(cls, needs: int, types: Any) -> tuple[int, ...]:
        return tuple(range(2, len(types) + 1))

    @staticmethod
    def batch(size: int, g: Tensor, *indices: Tensor, dims: tuple[int, ...], shape: tuple[int, ...]) -> Tensor:
        indices, dims, place, n_picked = _batched(size, indices, dims)
        g = _move_picked(g, place, n_picked, back=True)
        return apply(IndexEmbed, (g, *indices), {"dims": dims, "shape": (size, *shape)})

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(3, 3)), np.array([0, 2, 2]), dims=(0,), shape=(4, 3))
        yield Sample(rng.normal(size=(3, 2)), np.array([1, -1]), dims=(1,), shape=(3, 5))
        yield Sample(rng.normal(size=(2, 3)), np.array([1, 1]), np.array([0, 0]), dims=(0, 2), shape=(2, 3, 2))

    onnx = GRADIENTS_ONLY


class LastWritten(Op):
    """Of elements written to places given by integer tensors: which are the last at their place, and so remain."""

    family = "index"
    quiet = True
    saves = ()
    vjp = Refuse("truth values are piecewise constant")
    batch = Refuse("looped over samples")
    ragged = IN_GRADIENTS_ONLY

    @staticmethod
    def infer(*indices: TensorType, sizes: tuple[int, ...]) -> TensorType:
        return TensorType(broadcast_shapes(*[i.shape for i in indices]), bool_)

    @staticmethod
    def numpy(*indices: Array, sizes: tuple[int, ...]) -> Array:
        wrapped = [np.where(i < 0, i + size, i) for i, size in zip(indices, sizes, strict=True)]
        places = np.asarray(sum(i * step for i, step in zip(wrapped, row_major_strides(sizes), strict=True)))
        writers = np.arange(places.size).reshape(places.shape)
        last = np.empty(count(sizes), np.int64)  # read only where it is written
        last[places] = writers
        return last[places] == writers

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(np.array([0, 2, 0, -1]), sizes=(3,))
        yield Sample(np.array([[0], [1]]), np.array([1, 1]), sizes=(2, 3))

    onnx = GRADIENTS_ONLY


class IndexPut(Op):
    """The first input with the values written (or added) where integer tensors point."""

    family = "index"
    quiet = True
    saves = ("indices", "indices")
    lower = Routine("index_put")
    ragged = Refuse("x[...] = value writes to the values")

    @staticmethod
    def infer(
        x: TensorType, values: TensorType, *indices: TensorType, dims: tuple[int, ...], accumulate: bool
    ) -> TensorType:
        target = indexed_shape(x.shape, indices, dims)
        try:
            fits = broadcast_shapes(target, values.shape) == target
        except ShapeError:
            fits = False
        if not fits:
            raise ShapeError(f"indexing: values of shape {values.shape} do not broadcast to the indexed shape {target}")
        return x

    @staticmethod
    def numpy(x: Array, values: Array, *indices: Array, dims: tuple[int, ...], accumulate: bool) -> Array:
        out = np.array(x, order="C")
        if accumulate:
            _add_at(out, values, indices, dims)
            return out
        try:
            out[_key(x.ndim, indices, dims)] = values
        except IndexError:
            for i, d in zip(indices, dims, strict=True):
                check_range(i, x.shape[d], d, "indexing")
            raise
        return out

    @staticmethod
    def vjp(g: Tensor, y: Any, x: Any, values: Any, *indices: Tensor, dims: Any, accumulate: bool) -> tuple[Any, ...]:
        def into_x() -> Tensor:
            if accumulate:
                return g
            nothing = ops.zeros((), dtype=g.dtype)
            return apply(IndexPut, (g, nothing, *indices), {"dims": dims, "accumulate": False})

        def into_values() -> Tensor:
            read = apply(IndexGet, (g, *indices), {"dims": dims})
            if accumulate:
                return read
            remains = apply(LastWritten, indices, {"sizes": tuple(x.shape[d] for d in dims)})
            after = (1,) * (len(x.shape) - len(dims) - _place(dims))
            return ops.where(remains.reshape(remains._type.shape + after), read, 0.0)

        return into_x, into_values, *(None for _ in indices)

    @classmethod
    def _derive_save_plan(cls, needs: int, types: Any) -> tuple[int, ...]:
        return tuple(range(3, len(types) + 1))

    @staticmethod
    def batch(
        size: int, x: Tensor, values: Tensor, *indices: Tensor, dims: tuple[int, ...], accumulate: bool
    ) -> Tensor:
        target = indexed_shape(x._type.shape[1:], [TensorType(i._type.shape[1:], int64) for i in indices], dims)
        indices, dims, place, n_picked = _batched(size, indices, dims)
        values = values.reshape(size, *(1,) * (len(target) + 1 - values.ndim), *values._type.shape[1:])
        values = _move_picked(values, place, n_picked, back=True)
        return apply(IndexPut, (x, values, *indices), {"dims": dims, "accumulate": accumulate})

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(4, 3)), rng.normal(size=(2, 3)), np.array([0, 2]), dims=(0,), accumulate=False)
        yield Sample(rng.normal(size=(4, 3)), rng.normal(size=(3,)), np.array([1, 1]), dims=(0,), accumulate=True)
        yield Sample(rng.normal(size=(2, 5)), rng.normal(size=(2, 2)), np.array([1, -1]), dims=(1,), accumulate=True)

    @staticmethod
    def onnx(b: Any, x: Any, values: Any, *indices: Any, dims: tuple[int, ...], accumulate: bool) -> Any:
        place, order = _place(dims), (*dims, *(d for d in range(x.ndim) if d not in dims))
        n_picked, n_rest = max(i.ndim for i in indices), x.ndim - len(dims)
        moved, joined = b.Transpose(x, perm=order), b.joined(indices)
        target = b.Shape(IndexGet.onnx(b, x, *indices, dims=dims))
        picked = tuple(range(place, place + n_picked))
        others = tuple(d for d in range(n_picked + n_rest) if d not in picked)
        updates = b.Transpose(b.Expand(values, target), perm=(*picked, *others))
        made = b.ScatterND(moved, joined, updates, reduction="add" if accumulate else None)
        return b.Transpose(made, perm=sorted(range(x.ndim), key=order.__getitem__))
