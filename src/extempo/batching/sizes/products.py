"""Products of which both sides are a call's own, of any sizes: one after the other, with nothing around them.

Where a vector weighs the rows of a matrix, or of another vector, as in `weights @ x`, they are one sum over the rows of
all calls. A left side that all calls share, as in `weight @ x.T`, is one product with the columns of all of them.
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
from .arranged import MovingRunner, moved
from .forms import SizedBatch, numels
from .tape import TapeRunner, elements, on_tape, recorded
from .views import beginnings, ordered, pieces_of, table_of


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


class SharedLeftForm(NamedTuple):
    """a @ b, where matrices b have columns of their own number, and a is the same for all."""

    dtype: Any
    tracked: tuple[bool, ...]  # of the operands
    weight: int | None  # the id of a, if it is part of the kind
    shape: tuple[int, int]  # of a
    n: int

    @property
    def family(self) -> Any:
        return self[:4]

    def large_columns(self) -> list[int]:
        """Inputs that must be the same tensors in all calls."""
        return [0] if self.weight is None else []

    @classmethod
    def run(cls, batch: SizedBatch) -> Group:
        dtype, tracked, weight, (height, width) = batch.kind.family
        n_columns = np.array([one.form.n for one in batch.kinds], np.int64)
        wants_grad = any(batch.kind.tracked)
        here, there = (_columns(n_columns, n) for n in (width, height))
        given = batch.pieces(len(tracked) - 1, n_columns * width, TensorType((), dtype))
        columns = on_tape(moved(given, here, False).reshape(-1, width), tracked[-1] and wants_grad)
        left = batch.kinds[0].captured[0] if weight else on_tape(batch.whole(0, 0), tracked[0] and wants_grad)
        made = recorded(wants_grad, lambda: columns @ left.T)
        of_results = n_columns * height
        batch.leave(0, of_results, moved(elements(made, dtype), there, True))
        layouts: list[Layout | None] = [Layout(n_columns * width)]
        inputs = [columns]
        moves: list[Array | None] = [here]
        if not weight:
            layouts.insert(0, Layout(np.array([height * width]), values=batch.refs[:1, 0]))
            inputs, moves = [left, columns], [None, here]
        saved = ([[made]], [[x] if x.requires_grad else None for x in inputs])
        return batch.group(MovingRunner(moves, there, batch.kind.captured), saved, of_results, layouts)


def _columns(n_columns: Array, height: int) -> Array:
    """How matrices of this height become rows of their columns: what `copy_views` takes."""
    words = [ordered((height, n), (1, 0)) for n in n_columns.tolist()]
    counts = n_columns * height
    return table_of([one for one in words if one is not None], beginnings(counts), counts)


def shared_left_form(kind: OpKind) -> SharedLeftForm | None:
    if kind.op.name != "matmul" or any(len(t.type.shape) != 2 for t in kind.types) or kind.slots[1] is not None:
        return None
    a, b = (t.type for t in kind.types)
    if a.dtype is not b.dtype or a.dtype not in (float32, float64):
        return None
    weight = None if kind.slots[0] is None else id(kind.slots[0][0])
    return SharedLeftForm(a.dtype, tuple([i.tracked for i in kind.inputs]), weight, a.shape, b.shape[1])


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
