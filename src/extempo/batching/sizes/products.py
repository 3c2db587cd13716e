"""Products of which both sides are a call's own, of any sizes: one after the other, with nothing around them.

Where a vector weighs the rows of a matrix, or of another vector, as in `weights @ x`, they are one sum over the rows of
all calls.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...core.storage import Array
from ...core.tensor import Tensor, wrap
from ...core.types import TensorType, float32, float64
from ...ops.segments import segment_sum
from ...ragged_tensors.rows import Rows
from ..gradients import Group, Layout
from ..op_kinds import OpKind
from ..sharing import row_major
from .forms import SizedBatch, numels
from .tape import TapeRunner, elements, on_tape, recorded
from .views import pieces_of


class ProductForm(NamedTuple):
    """a @ b, matrices with the same leading dimensions, or vectors, which are matrices of one row or column."""

    dtype: Any
    tracked: tuple[bool, bool]

    @property
    def family(self) -> Any:
        return tuple(self)

    @classmethod
    def run(cls, batch: SizedBatch) -> Group:
        dtype, tracked = batch.kind.family
        sides = [
            [wrapped(_as_matrix(batch.whole(call, j), j), dtype) for call in range(len(batch.kinds))] for j in range(2)
        ]
        made = recorded(False, lambda: [a @ b for a, b in zip(*sides, strict=True)])
        batch.run.values.add_each(batch.firsts.tolist(), row_major([y._values() for y in made]))
        of_results = numels([y._type.shape for y in made])
        layouts: list[Layout | None] = [
            Layout(numels([x._type.shape for x in xs])) if t else None for xs, t in zip(sides, tracked, strict=True)
        ]
        return batch.group(_RUNNER, (*sides, of_results, tracked), of_results, layouts)


def _as_matrix(array: Array, side: int) -> Array:
    return array if array.ndim > 1 else array.reshape((1, -1) if side == 0 else (-1, 1))


def wrapped(array: Array, dtype: Any) -> Tensor:
    return wrap(array, TensorType(array.shape, dtype))


def product_form(kind: OpKind) -> ProductForm | None:
    if not _are_own_sides(kind):
        return None
    a, b = kind.inputs
    if a.type.shape[:-2] != b.type.shape[:-2]:
        return None
    return ProductForm(a.type.dtype, (a.tracked, b.tracked))


def _are_own_sides(kind: OpKind) -> bool:
    if kind.op.name != "matmul" or kind.captured or len(kind.inputs) != 2:
        return False
    dtypes = {i.type.dtype for i in kind.inputs}
    return len(dtypes) == 1 and dtypes <= {float32, float64}


class WeightedSumForm(NamedTuple):
    """(n,) @ (n, ...): the sum of rows, or of elements, each times its weight."""

    dtype: Any
    tracked: tuple[bool, bool]
    inner: tuple[int, ...]  # of a row
    n: int

    @property
    def family(self) -> Any:
        return self[:3]

    @classmethod
    def run(cls, batch: SizedBatch) -> Group:
        dtype, tracked, inner = batch.kind.family
        counts = np.array([one.form.n for one in batch.kinds], np.int64)
        wants_grad, width, rows = any(batch.kind.tracked), math.prod(inner), Rows.of_lengths(counts)
        weights, values = (
            on_tape(batch.pieces(j, counts, TensorType(shape, dtype)), t and wants_grad)
            for j, (shape, t) in enumerate(zip(((1,) * len(inner), inner), tracked, strict=True))
        )
        made = recorded(wants_grad, lambda: segment_sum(weights * values, *rows.segments))
        of_results = np.full(len(counts), width, np.int64)
        batch.leave(0, of_results, elements(made, dtype))
        saved = ([[made]], [[x] if x.requires_grad else None for x in (weights, values)])
        return batch.group(_TAPE, saved, of_results, [Layout(counts), Layout(counts * width)])


def weighted_sum_form(kind: OpKind) -> WeightedSumForm | None:
    if not _are_own_sides(kind):
        return None
    a, b = kind.inputs
    if len(a.type.shape) != 1 or len(b.type.shape) > 2:
        return None
    return WeightedSumForm(a.type.dtype, (a.tracked, b.tracked), b.type.shape[1:], a.type.shape[0])


class _ProductRunner:
    """Gradients of products."""

    def backward(self, saved: Any, gradients: list[Array | None]) -> tuple[list[Array | None], Any]:
        left, right, counts, tracked = saved
        (g,) = gradients
        assert g is not None  # a batch without gradients is passed over
        return recorded(False, lambda: _gradients(left, right, pieces_of(g.reshape(-1), counts), tracked)), []

    def finish(self, deferred: list[Any]) -> list[tuple[Tensor, Array]]:
        return []


def _gradients(left: list[Tensor], right: list[Tensor], gradients: list[Array], tracked: Any) -> list[Array | None]:
    dtype = left[0].dtype
    of_each = [
        wrapped(g.reshape(*a._type.shape[:-1], b._type.shape[-1]), dtype)
        for a, b, g in zip(left, right, gradients, strict=True)
    ]
    made: list[Array | None] = [None, None]
    if tracked[0]:
        made[0] = _joined([g @ b.mT for g, b in zip(of_each, right, strict=True)])
    if tracked[1]:
        made[1] = _joined([a.mT @ g for a, g in zip(left, of_each, strict=True)])
    return made


def _joined(parts: list[Tensor]) -> Array:
    return np.concatenate([part._values().reshape(-1) for part in parts])


_RUNNER = _ProductRunner()
_TAPE = TapeRunner()
