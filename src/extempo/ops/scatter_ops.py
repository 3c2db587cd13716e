"""The ops behind gather and scatter: elements read from, or combined at, places along one dimension."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import ops
from ..core.op import GRADIENTS_ONLY, IN_GRADIENTS_ONLY, Op, Rng, Routine, Sample
from ..core.storage import Array
from ..core.strides import row_major_strides
from ..core.tensor import Tensor, from_array
from ..core.types import TensorType, int64
from ..dispatch.dispatcher import apply
from ..errors import IndexRangeError, ShapeError
from .index_ops import LastWritten


def _check_index(x: TensorType, index: TensorType, dim: int, op: str) -> None:
    sizes_fit = all(i <= s for d, (i, s) in enumerate(zip(index.shape, x.shape, strict=False)) if d != dim)
    if index.numel() and (index.ndim != x.ndim or not sizes_fit):
        raise ShapeError(
            f"{op}: index of shape {index.shape} must have as many dimensions as the input of shape {x.shape}, "
            f"and be no larger except along dim {dim}"
        )


def _checked(index: Array, size: int, dim: int, op: str) -> Array:
    # Seen as unsigned, a negative index is too large as well.
    if index.size and index.view(f"u{index.itemsize}").max() >= size:
        bad = index[(index < 0) | (index >= size)].reshape(-1)[0]
        raise IndexRangeError(f"{op}: index {bad} is out of range for dimension {dim} of size {size}")
    return index


def _part(x: Array, index: Array, dim: int) -> Array:
    """The part of x that an index of a smaller shape can reach, as a view."""
    return x[tuple(slice(None) if d == dim else slice(n) for d, n in enumerate(index.shape))]


def _flat_places(shape: tuple[int, ...], index: Array, dim: int) -> Array:
    """Where the index points in the flattened array, as one dimension."""
    strides = row_major_strides(shape)
    places = index * strides[dim]
    for d, n in enumerate(index.shape):
        if d != dim:
            places = places + (np.arange(n) * strides[d]).reshape(-1, *(1,) * (index.ndim - d - 1))
    return places.reshape(-1)


class Gather(Op):
    """result[i][j] = x[index[i][j]][j], for dim 0 of two."""

    family = "index"
    quiet = True
    saves = ("index", "")
    lower = Routine("gather")
    batch = "shift_dim"
    ragged = "picking.gather"

    @staticmethod
    def infer(x: TensorType, index: TensorType, *, dim: int) -> TensorType:
        _check_index(x, index, dim, "gather")
        return TensorType(index.shape, x.dtype)

    @staticmethod
    def numpy(x: Array, index: Array, *, dim: int) -> Array:
        if not index.size:
            return np.empty(index.shape, x.dtype)
        _checked(index, x.shape[dim], dim, "gather")
        if x.flags.c_contiguous:
            return x.reshape(-1).take(_flat_places(x.shape, index, dim)).reshape(index.shape)
        return np.take_along_axis(_part(x, index, dim), index, dim)

    @staticmethod
    def vjp(g: Tensor, y: Any, x: Any, index: Tensor, *, dim: int) -> tuple[Any, ...]:
        return apply(GatherEmbed, (g, index), {"dim": dim, "shape": x.shape}), None

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(3, 4)), rng.integers(0, 3, size=(5, 4)), dim=0)
        yield Sample(rng.normal(size=(3, 4)), rng.integers(0, 4, size=(2, 3)), dim=1)
        yield Sample(rng.normal(size=(3,)), np.empty((0,), np.int64), dim=0)

    @staticmethod
    def onnx(b: Any, x: Any, index: Any, *, dim: int) -> Any:
        if not x.ndim or not index.ndim:
            return b.reshape(b.GatherElements(b.reshape(x, (-1,)), b.reshape(b.cast(index, int64), (-1,))), index.shape)
        return b.GatherElements(x, b.cast(index, int64), axis=dim)


class GatherEmbed(Op):
    """Zeros of the given shape with the input added where the index points along one dimension: `Gather`'s adjoint."""

    family = "index"
    quiet = True
    saves = ("index", "")
    lower = Routine("gather_embed")
    ragged = IN_GRADIENTS_ONLY
    infer = staticmethod(lambda g, index, *, dim, shape: TensorType(shape, g.dtype))
    vjp = staticmethod(lambda g, y, x, index, *, dim, shape: (apply(Gather, (g, index), {"dim": dim}), None))

    @staticmethod
    def numpy(g: Array, index: Array, *, dim: int, shape: tuple[int, ...]) -> Array:
        out = np.zeros(shape, g.dtype)
        if index.size:
            _checked(index, shape[dim], dim, "gather_embed")
            np.add.at(out.reshape(-1), _flat_places(shape, index, dim), g.reshape(-1))
        return out

    @staticmethod
    def batch(size: int, g: Tensor, index: Tensor, *, dim: int, shape: tuple[int, ...]) -> Tensor:
        return apply(GatherEmbed, (g, index), {"dim": dim + 1, "shape": (size, *shape)})

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(5, 4)), rng.integers(0, 3, size=(5, 4)), dim=0, shape=(3, 4))
        yield Sample(rng.normal(size=(2, 3)), rng.integers(0, 4, size=(2, 3)), dim=1, shape=(3, 4))
        yield Sample(rng.normal(size=(0,)), np.empty((0,), np.int64), dim=0, shape=(3,))

    onnx = GRADIENTS_ONLY


class Scatter(Op):
    """x with src written (or added) to where the index points along one dimension."""

    family = "index"
    quiet = True
    saves = ("index", "", "index")
    lower = Routine("scatter")
    batch = "shift_dim"
    ragged = "picking.scatter"

    @staticmethod
    def infer(x: TensorType, index: TensorType, src: Any, *, dim: int, accumulate: bool) -> TensorType:
        _check_index(x, index, dim, "scatter")
        return x

    @staticmethod
    def numpy(x: Array, index: Array, src: Any, *, dim: int, accumulate: bool) -> Array:
        out = np.array(x, order="C")
        if not index.size:
            return out
        _checked(index, x.shape[dim], dim, "scatter")
        if accumulate:
            np.add.at(out.reshape(-1), _flat_places(x.shape, index, dim), np.reshape(src, -1))
        else:
            np.put_along_axis(_part(out, index, dim), index, src, dim)
        return out

    @staticmethod
    def vjp(g: Tensor, y: Any, x: Any, index: Tensor, src: Any, *, dim: int, accumulate: bool) -> tuple[Any, ...]:
        def into_x() -> Tensor:
            return g if accumulate else apply(Scatter, (g, index, 0.0), {"dim": dim, "accumulate": False})

        def into_src() -> Tensor:
            read = apply(Gather, (g, index), {"dim": dim})
            if accumulate:
                return read
            along = [np.arange(n).reshape(-1, *(1,) * (index.ndim - d - 1)) for d, n in enumerate(index._type.shape)]
            places = tuple(index if d == dim else from_array(at) for d, at in enumerate(along))
            return ops.where(apply(LastWritten, places, {"sizes": x.shape}), read, 0.0)

        return into_x, None, into_src

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        x, index = rng.normal(size=(3, 4)), rng.integers(0, 3, size=(5, 4))
        yield Sample(x, index, rng.normal(size=(5, 4)), dim=0, accumulate=True)
        yield Sample(x, np.array([[2, 0], [1, 3]]), rng.normal(size=(2, 2)), dim=1, accumulate=False)
        yield Sample(x, np.array([[2, 0], [1, 3]]), 1.5, dim=1, accumulate=False)
        yield Sample(x, np.empty((0, 0), np.int64), rng.normal(size=(0, 0)), dim=0, accumulate=True)

    @staticmethod
    def onnx(b: Any, x: Any, index: Any, src: Any, *, dim: int, accumulate: bool) -> Any:
        return b.scattered(x, index, src, dim, "add" if accumulate else None)


UFUNCS: dict[str, Any] = {"prod": np.multiply, "amax": np.maximum, "amin": np.minimum}


def _identity(reduce: str, dtype: np.dtype[Any]) -> Any:
    """The value that leaves the other one as it is."""
    if reduce == "prod":
        return 1
    if dtype.kind in "iu":
        return np.iinfo(dtype).min if reduce == "amax" else np.iinfo(dtype).max
    return (reduce == "amin") if dtype.kind == "b" else (-np.inf if reduce == "amax" else np.inf)


class ScatterReduce(Op):
    """Elements of src combined, by product or extreme, where the index points; with those of x, or in their place."""

    family = "index"
    saves = ("y x index src", "", "y x index src")
    lower = Routine("scatter_reduce")
    batch = "shift_dim"
    ragged = "picking.scatter"

    @staticmethod
    def infer(x: TensorType, index: TensorType, src: Any, *, dim: int, reduce: str, include_self: bool) -> TensorType:
        _check_index(x, index, dim, "scatter_reduce")
        return x

    @staticmethod
    def numpy(x: Array, index: Array, src: Array, *, dim: int, reduce: str, include_self: bool) -> Array:
        out = np.array(x, order="C")
        if not index.size:
            return out
        flat, places = out.reshape(-1), _flat_places(x.shape, _checked(index, x.shape[dim], dim, "scatter_reduce"), dim)
        if not include_self:
            flat[places] = _identity(reduce, x.dtype)
        UFUNCS[reduce].at(flat, places, src.reshape(-1))
        return out

    @staticmethod
    def vjp(
        g: Tensor, y: Tensor, x: Tensor, index: Tensor, src: Tensor, *, dim: int, reduce: str, include_self: bool
    ) -> tuple[Any, ...]:
        rule = _product_gradients if reduce == "prod" else _extreme_gradients
        into_x, into_src = rule(g, y, x, index, src, dim, include_self)
        return into_x if include_self else ops.scatter(into_x, dim, index, 0.0), None, into_src

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        x, index, src = rng.normal(size=(3, 4)), rng.integers(0, 3, size=(2, 4)), rng.normal(size=(2, 4))
        for reduce in UFUNCS:
            yield Sample(x, index, src, dim=0, reduce=reduce, include_self=True)
            yield Sample(x, index, src, dim=0, reduce=reduce, include_self=False)

    @staticmethod
    def onnx(b: Any, x: Any, index: Any, src: Any, *, dim: int, reduce: str, include_self: bool) -> Any:
        if reduce != "prod":
            b.require(18, "ScatterElements by extremes")
        if not include_self:
            x = b.scattered(x, index, b.constant(_identity(reduce, x.dtype.numpy), x.dtype), dim, None)
        return b.scattered(x, index, src, dim, {"prod": "mul", "amax": "max", "amin": "min"}[reduce])


def _extreme_gradients(
    g: Tensor, y: Tensor, x: Tensor, index: Tensor, src: Tensor, dim: int, include_self: bool
) -> tuple[Tensor, Tensor]:
    """Elements that equal the extreme share its gradient."""
    from_x = ops.eq(x, y).to(g.dtype)
    if not include_self:
        from_x = ops.scatter(from_x, dim, index, 0.0)
    from_src = ops.eq(src, ops.gather(y, dim, index)).to(g.dtype)
    # Nobody equals a NaN: then there is nothing to share, and no division by zero either.
    share = g / ops.clamp(ops.scatter_add(from_x, dim, index, from_src), min=1.0)
    if not include_self:
        from_x = ops.eq(x, y).to(g.dtype)
    return share * from_x, from_src * ops.gather(share, dim, index)


def _product_gradients(
    g: Tensor, y: Tensor, x: Tensor, index: Tensor, src: Tensor, dim: int, include_self: bool
) -> tuple[Tensor, Tensor]:
    """The product of the other factors, also where one of them is zero."""
    attrs = {"dim": dim, "reduce": "prod", "include_self": include_self}
    nonzero_x = ops.masked_fill(x, ops.eq(x, 0), 1.0)
    into_x = g * apply(ScatterReduce, (nonzero_x, index, src), attrs) / nonzero_x
    zero_src = ops.eq(src, 0)
    n_zeros = ops.gather(ops.scatter_add(ops.zeros_like(x), dim, index, zero_src.to(x.dtype)), dim, index)
    only_zero = ops.logical_and(zero_src, ops.eq(n_zeros, 1))
    others = apply(ScatterReduce, (x, index, ops.masked_fill(src, only_zero, 1.0)), attrs)
    quotient = ops.gather(g * y, dim, index) / ops.masked_fill(src, zero_src, 1.0)
    return into_x, ops.where(only_zero, ops.gather(g * others, dim, index), quotient)
