"""Taps: along one dimension, each output is a weighted sum of a few inputs. Below interpolation and adaptive averaging.

A table says which inputs (positions: (outputs, taps), int64) with which weights (same shape). The table of the adjoint,
from inputs back to outputs, travels along, so that the gradient is the same op with both tables exchanged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import ops
from ..core.op import Decomposed, Op, Refuse, Rng, Sample
from ..core.storage import Array
from ..core.tensor import Tensor
from ..core.types import TensorType
from ..dispatch.dispatcher import apply
from .reduce import wide

# A product with a mostly empty matrix is faster than picking elements up to about this many inputs per tap (measured).
_DENSE = 100


class Taps(Op):
    """y[..., o, ...] = sum over k of weights[o, k] * x[..., positions[o, k], ...] along `dim`."""

    public_name = "interpolate or adaptive_avg_pool"
    family = "contraction"
    saves = ("positions weights back_positions back_weights", "", "x positions", "", "")
    batch = Refuse("looped over samples")
    ragged = Refuse("its function takes the windows of each row, or runs row by row")

    @staticmethod
    def infer(
        x: TensorType,
        positions: TensorType,
        weights: TensorType,
        back_positions: TensorType,
        back_weights: TensorType,
        *,
        dim: int,
    ) -> TensorType:
        return TensorType((*x.shape[:dim], positions.shape[0], *x.shape[dim + 1 :]), x.dtype)

    @staticmethod
    def numpy(
        x: Array, positions: Array, weights: Array, back_positions: Array, back_weights: Array, *, dim: int
    ) -> Array:
        dtype: Any = wide(x) or x.dtype
        n_taps = positions.shape[1]
        if (
            n_taps > 1
            and x.size
            and x.shape[dim] <= _DENSE * n_taps
            and x.dtype.kind not in "iu"
            and np.isfinite(x.sum())
        ):
            return _dense(x, positions, weights, dim, dtype).astype(x.dtype, copy=False)
        y = np.zeros((*x.shape[:dim], positions.shape[0], *x.shape[dim + 1 :]), dtype)
        for k in range(n_taps):
            # A tap of weight 0 is no tap: 0 * inf must not reach the sum.
            used = np.flatnonzero(weights[:, k])
            if len(used) == len(weights):
                y += _weighted(x, positions[:, k], weights[:, k], dim, dtype)
            elif len(used):
                y[(slice(None),) * dim + (used,)] += _weighted(x, positions[used, k], weights[used, k], dim, dtype)
        return y.astype(x.dtype, copy=False)

    @staticmethod
    def vjp(
        g: Tensor, y: Any, x: Any, positions: Any, weights: Any, back_positions: Any, back_weights: Any, *, dim: int
    ) -> Any:
        def into_x() -> Tensor:
            return apply(Taps, (g, back_positions, back_weights, positions, weights), {"dim": dim})

        def into_weights() -> Tensor:
            rows = x.transpose(dim, -1)[..., positions]
            return (g.transpose(dim, -1).unsqueeze(-1) * rows).sum(tuple(range(x.ndim - 1)))

        return into_x, None, into_weights, None, None

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        positions = np.array([[0, 1], [1, 1], [3, 0], [2, 3], [0, 0]])
        weights = rng.uniform(0.2, 1.0, size=(5, 2)) * np.array([[1, 1], [1, 0], [1, 1], [1, 1], [0, 0]])
        back = _reversed_table(positions, weights, 4)
        yield Sample(rng.normal(size=(2, 4)), positions, weights, *back, dim=1)
        yield Sample(rng.normal(size=(4, 3)), positions, weights, *back, dim=0)
        yield Sample(np.empty((0, 4, 2)), positions, weights, *back, dim=1)

    @Decomposed
    def onnx(
        x: Tensor, positions: Tensor, weights: Tensor, back_positions: Tensor, back_weights: Tensor, *, dim: int
    ) -> Tensor:
        n_taps = tuple(positions._type.shape)
        picked = x.index_select(dim, positions.flatten()).unflatten(dim, n_taps)
        beside = weights.to(x.dtype).reshape(*n_taps, *(1,) * (x.ndim - 1 - dim))
        return ops.where(ops.eq(beside, 0.0), 0.0, picked * beside).sum(dim + 1)


def _dense(x: Array, positions: Array, weights: Array, dim: int, dtype: Any) -> Array:
    """The table as a matrix with zeros where there is no tap; only for finite x, because 0 * inf is not 0."""
    matrix = np.zeros((len(positions), x.shape[dim]), dtype)
    np.add.at(matrix, (np.arange(len(positions))[:, None], positions), weights)
    if dim == x.ndim - 1:
        return np.matmul(x.astype(dtype, copy=False), matrix.T)
    columns = x.reshape(*x.shape[: dim + 1], math.prod(x.shape[dim + 1 :])).astype(dtype, copy=False)
    return np.matmul(matrix, columns).reshape(*x.shape[:dim], len(positions), *x.shape[dim + 1 :])


def _weighted(x: Array, positions: Array, weights: Array, dim: int, dtype: Any) -> Array:
    part = x.take(positions, axis=dim)
    if (weights == 1).all():
        return part
    return part * weights.astype(dtype).reshape(-1, *(1,) * (x.ndim - dim - 1))


def _reversed_table(positions: Array, weights: Array, n_inputs: int) -> tuple[Array, Array]:
    """The table of the adjoint: for each input, the outputs that it goes into."""
    outputs, taps = np.nonzero(weights)
    sources = positions[outputs, taps]
    order = np.argsort(sources, kind="stable")
    counts = np.bincount(sources, minlength=n_inputs)
    slots = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    shape = (n_inputs, max(1, int(counts.max(initial=0))))
    back_positions, back_weights = np.zeros(shape, np.int64), np.zeros(shape, weights.dtype)
    back_positions[sources[order], slots] = outputs[order]
    back_weights[sources[order], slots] = weights[outputs[order], taps[order]]
    return back_positions, back_weights


def weighted_taps(x: Tensor, dim: int, positions: Array, weights: Array) -> Tensor:
    """Apply a table along one dimension, counted from the front."""
    tables = (positions, weights, *_reversed_table(positions, weights, x.shape[dim]))
    return apply(Taps, (x, *map(ops.from_numpy, tables)), {"dim": dim})
