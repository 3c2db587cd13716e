"""What max-pooling is made of: `MaxPool`, `MaxPoolGrad` and `Unpool`, maxima at any places, and where such windows lie.

Dimensions before the spatial ones are carried along, so a batch is optional everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .. import ops
from ..core.op import GRADIENTS_ONLY, IN_GRADIENTS_ONLY, Op, Refuse, Rng, Routine, Sample
from ..core.storage import Array
from ..core.tensor import Tensor
from ..core.types import TensorType, int64
from ..dispatch.dispatcher import apply
from ..errors import IndexRangeError
from .windows import dilated_size, padded, places

Pooled = tuple[Tensor, Tensor]  # values, and their places in the flattened spatial dimensions


class MaxPool(Op):
    """The largest element of each window (of equal ones the first), and its place in the flattened input."""

    family = "reduction"
    quiet = True
    saves = ("y.1",)
    lower = Routine("max_pool")
    ragged = Refuse("its function takes the windows of each row, or runs row by row")
    batch = staticmethod(lambda size, x, **attrs: apply(MaxPool, (x,), attrs))

    @staticmethod
    def infer(
        x: TensorType, *, kernel: tuple[int, ...], counts: tuple[int, ...], **attrs: Any
    ) -> tuple[TensorType, TensorType]:
        shape = (*x.shape[: x.ndim - len(kernel)], *counts)
        return TensorType(shape, x.dtype), TensorType(shape, int64)

    @staticmethod
    def numpy(
        x: Array,
        *,
        kernel: tuple[int, ...],
        stride: tuple[int, ...],
        padding: tuple[int, ...],
        dilation: tuple[int, ...],
        counts: tuple[int, ...],
    ) -> tuple[Array, Array]:
        sizes = x.shape[x.ndim - len(kernel) :]
        shape = (*x.shape[: x.ndim - len(kernel)], *counts)
        ends = [(n - 1) * s + dilated_size(k, d) for n, s, k, d in zip(counts, stride, kernel, dilation, strict=True)]
        pads = tuple((p, max(0, end - size - p)) for p, end, size in zip(padding, ends, sizes, strict=True))
        wide = padded(x, pads, _smallest(x.dtype))
        selections = list(places(kernel, stride, dilation, counts))
        values = wide[selections[0][1]].copy()
        for _, selected in selections[1:]:
            np.maximum(values, wide[selected], out=values)
        indices = np.zeros(shape, np.int64)
        positions = [_flat_positions(k, sizes, stride, padding, dilation, counts) for k, _ in selections]
        for (_, selected), position in zip(reversed(selections), reversed(positions), strict=True):
            np.copyto(indices, position, where=wide[selected] == values)
        if values.dtype.kind not in "iu" and np.isnan(values).any():
            for (_, selected), position in zip(selections, positions, strict=True):
                np.copyto(indices, position, where=np.isnan(wide[selected]))
        return values, indices

    @staticmethod
    def vjp(g: Any, y: Any, x: Any, *, kernel: tuple[int, ...], **attrs: Any) -> tuple[Any, ...]:
        return (scatter_back(g[0], y[1], x.shape[x.ndim - len(kernel) :]),)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        def draw(*shape: int) -> Array:
            return (
                rng.permutation(math.prod(shape)).reshape(shape) * 0.1
            )  # no two so close that a difference crosses them

        yield Sample(draw(2, 3, 7), kernel=(3,), stride=(2,), padding=(1,), dilation=(1,), counts=(4,))
        yield Sample(draw(2, 5, 6), kernel=(2, 3), stride=(1, 2), padding=(0, 1), dilation=(2, 1), counts=(3, 3))
        yield Sample(
            draw(1, 2, 4, 4, 4),
            kernel=(2, 2, 2),
            stride=(2, 2, 2),
            padding=(0,) * 3,
            dilation=(1,) * 3,
            counts=(2,) * 3,
        )
        yield Sample(np.empty((0, 2, 4)), kernel=(2,), stride=(2,), padding=(0,), dilation=(1,), counts=(2,))

    @staticmethod
    def onnx(b: Any, x: Any, *, kernel: Any, stride: Any, padding: Any, dilation: Any, counts: Any) -> tuple[Any, Any]:
        lead, sizes = x.shape[: x.ndim - len(kernel)], x.shape[x.ndim - len(kernel) :]
        planes = b.reshape(x, (b.product(lead), 1, *sizes))
        _, pads = b.window_pads(planes, kernel, stride, padding, dilation, counts, None)
        values, places = b.emit(
            "MaxPool", planes, kernel_shape=kernel, strides=stride, pads=pads, dilations=dilation, n_results=2,
            result=(x.dtype, int64),
        )  # fmt: skip
        # ONNX counts through all planes.
        first = b.Mul(b.range(b.product(lead)), b.size(b.product(sizes)))
        places = b.Sub(places, b.reshape(first, (-1, 1, *(1,) * len(kernel))))
        return b.reshape(values, (*lead, *counts)), b.reshape(places, (*lead, *counts))


class MaxPoolGrad(Op):
    """Zeros, to which each element of g is added at the flat spatial place that its index names."""

    family = "index"
    quiet = True
    saves = ("indices", "")
    lower = Routine("max_pool_grad")
    ragged = IN_GRADIENTS_ONLY

    @staticmethod
    def infer(g: TensorType, indices: TensorType, *, sizes: tuple[int, ...]) -> TensorType:
        return TensorType((*g.shape[: g.ndim - len(sizes)], *sizes), g.dtype)

    @staticmethod
    def numpy(g: Array, indices: Array, *, sizes: tuple[int, ...]) -> Array:
        plane, lead = math.prod(sizes), g.shape[: g.ndim - len(sizes)]
        if indices.size and (indices.min() < 0 or indices.max() >= plane):
            raise IndexRangeError(
                f"max_pool_grad: indices from {indices.min()} to {indices.max()} do not lie in {plane} elements; "
                "pass what max_pool with return_indices=True gave"
            )
        n = math.prod(lead)
        y = np.zeros((n, plane), g.dtype)
        places_ = indices.reshape(n, indices.size // max(n, 1)) + np.arange(n)[:, None] * plane
        np.add.at(y.reshape(-1), places_.reshape(-1), g.reshape(-1))
        return y.reshape(*lead, *sizes)

    @staticmethod
    def vjp(h: Tensor, y: Any, g: Any, indices: Tensor, *, sizes: tuple[int, ...]) -> tuple[Any, ...]:
        lead = tuple(g.shape[: g.ndim - len(sizes)])
        n_windows = math.prod(g.shape[len(lead) :])
        taken = ops.gather(h.reshape(*lead, math.prod(sizes)), -1, indices.reshape(*lead, n_windows))
        return taken.reshape(g.shape), None

    @staticmethod
    def batch(size: int, g: Tensor, indices: Tensor, *, sizes: tuple[int, ...]) -> Tensor:
        return apply(MaxPoolGrad, (g, indices), {"sizes": sizes})

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(2, 3)), np.array([[0, 4, 4], [3, 2, 0]]), sizes=(5,))
        yield Sample(rng.normal(size=(2, 1, 2)), np.array([[[0, 5]], [[5, 5]]]), sizes=(2, 3))
        yield Sample(np.empty((0, 2)), np.empty((0, 2), np.int64), sizes=(3,))

    onnx = GRADIENTS_ONLY


class Unpool(Op):
    """Zeros along a last dimension of `size`, with each element written where its index says.

    Of elements with one index, which overlapping windows of max_pool give the same value, the last is written and each
    gets the gradient, as in PyTorch.
    """

    public_name = "max_unpool"
    family = "index"
    quiet = True
    saves = ("indices", "")
    ragged = Refuse("its function takes the windows of each row, or runs row by row")
    infer = staticmethod(lambda x, indices, *, size: TensorType((*x.shape[:-1], size), x.dtype))
    vjp = staticmethod(lambda g, y, x, indices, *, size: (ops.gather(g, -1, indices), None))
    batch = staticmethod(lambda n_samples, x, indices, *, size: apply(Unpool, (x, indices), {"size": size}))

    @staticmethod
    def numpy(x: Array, indices: Array, *, size: int) -> Array:
        if indices.size and (indices.min() < 0 or indices.max() >= size):
            raise IndexRangeError(
                f"max_unpool: indices from {indices.min()} to {indices.max()} do not lie in an output of {size} "
                "elements; pass output_size"
            )
        y = np.zeros((*x.shape[:-1], size), x.dtype)
        np.put_along_axis(y, indices, x, -1)
        return y

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(2, 3)), np.array([[0, 4, 1], [3, 2, 0]]), size=5)
        yield Sample(np.empty((0, 2)), np.empty((0, 2), np.int64), size=3)

    @staticmethod
    def onnx(b: Any, x: Any, indices: Any, *, size: Any) -> Any:
        return b.scattered(b.full((*x.shape[:-1], size), 0, x.dtype), indices, x, x.ndim - 1, None)


def _smallest(d: np.dtype[Any]) -> Any:
    """What padding counts as: never larger than any element."""
    return np.iinfo(d).min if d.kind in "iu" else -math.inf


def _flat_positions(
    k: tuple[int, ...],
    sizes: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    counts: tuple[int, ...],
) -> Array:
    """Where the k-th element of each window lies in the flattened input; padding counts as the nearest element."""
    flat = np.zeros((1,) * len(k), np.int64)
    for axis, (i, size, s, p, d, n) in enumerate(zip(k, sizes, stride, padding, dilation, counts, strict=True)):
        position = np.clip(np.arange(n) * s + (i * d - p), 0, size - 1)
        flat = flat * size + position.reshape(-1, *(1,) * (len(k) - axis - 1))
    return flat


def scatter_back(g: Tensor, indices: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """Zeros of these spatial sizes, to which g is added at the flat places that `indices` names."""
    y: Tensor = apply(MaxPoolGrad, (g, indices), {"sizes": tuple(sizes)})
    return y


def max_over(x: Tensor, n: int, positions: Array) -> Pooled:
    """The largest of the elements at flat spatial `positions` (*lead or none, *counts, places), and where it was."""
    lead = tuple(x.shape[: x.ndim - n])
    counts, n_places = positions.shape[-n - 1 : -1], positions.shape[-1]
    flat = positions.reshape(*positions.shape[: -n - 1], math.prod(counts) * n_places)
    places_ = ops.from_numpy(flat).expand(*lead, flat.shape[-1])
    seen = ops.gather(x.reshape(*lead, math.prod(x.shape[len(lead) :])), -1, places_).reshape(*lead, *counts, n_places)
    values, which = ops.max(seen, -1)
    indices = ops.gather(places_.reshape(seen.shape), -1, which.unsqueeze(-1)).squeeze(-1)
    return values, indices


def combined(tables: Sequence[Array], sizes: Sequence[int]) -> Array:
    """Positions along each dimension, (*lead, count, places) each, as flat positions (*lead, *counts, all places)."""
    n = len(tables)
    lead = tables[0].ndim - 2
    flat: Any = 0
    for axis, (table, size) in enumerate(zip(tables, sizes, strict=True)):
        shape = [*table.shape[:lead], *(1,) * (2 * n)]
        shape[lead + axis], shape[lead + n + axis] = table.shape[-2:]
        flat = flat * size + table.reshape(shape)
    return flat.reshape(*flat.shape[: lead + n], math.prod(flat.shape[lead + n :]))


def adaptive_windows(size: int, count: int) -> tuple[Array, Array]:
    """Where each of `count` windows that cover `size` starts and how many elements it has."""
    i = np.arange(count)
    starts = i * size // max(count, 1)
    return starts, -(-(i + 1) * size // max(count, 1)) - starts


def fractional_starts(draw: Array, size: int, kernel: int, count: int) -> Array:
    """Starts of `count` windows, whose steps have two neighbouring sizes in an order that `draw` decides."""
    starts = np.full((*draw.shape, count), size - kernel, np.int64)
    if count > 1:
        step = draw.dtype.type(size - kernel) / draw.dtype.type(count - 1)
        i = np.arange(count - 1).astype(draw.dtype)
        u = draw[..., None]
        starts[..., :-1] = ((i + u) * step).astype(np.int64) - (u * step).astype(np.int64)
    return starts
