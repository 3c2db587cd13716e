"""Rows by number: x[index], index_select, index_add and their like along the first dimension, within a call's own rows.

The rows of all calls lie end to end; an index counts from the beginning of its call's rows, and must lie in them.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...core.op import Op
from ...core.tensor import from_array
from ...core.types import TensorType
from ...dispatch.dispatcher import apply
from ...ops.segments import SegmentIndex
from ..gradients import Group, Layout
from ..op_kinds import OpKind
from .forms import SizedBatch
from .tape import TapeRunner, elements, on_tape, recorded

_GET, _PUT = "index_get", "index_put"
_RUNNER = TapeRunner()


class PickForm(NamedTuple):
    """A call with an index along dimension 0 of its first input."""

    op: type[Op]
    accumulate: bool | None
    inputs: tuple[Any, ...]  # of what has rows: dtypes, and which of them want a gradient
    index_dtype: Any
    inner: tuple[int, ...]  # of a row
    n_rows: int
    n_picked: int

    @property
    def family(self) -> Any:
        return self[:5]

    @classmethod
    def run(cls, batch: SizedBatch) -> Group:
        op, accumulate, inputs, index_dtype, inner = batch.kind.family
        n_rows = np.array([one.form.n_rows for one in batch.kinds], np.int64)
        n_picked = np.array([one.form.n_picked for one in batch.kinds], np.int64)
        counts = [n_rows, n_picked][: len(inputs)]
        wants_grad, width = any(batch.kind.tracked), math.prod(inner)
        given = [
            on_tape(batch.pieces(j, n, TensorType(inner, dtype)), tracked and wants_grad)
            for j, (n, (dtype, tracked)) in enumerate(zip(counts, inputs, strict=True))
        ]
        given_index = batch.pieces(len(inputs), n_picked, TensorType((), index_dtype))
        of_rows = np.repeat(n_rows, n_picked)
        index = from_array(np.where(given_index < 0, given_index + of_rows, given_index))
        starts, lengths = from_array(np.repeat(np.cumsum(n_rows) - n_rows, n_picked)), from_array(of_rows)
        attrs = {"dims": (0,)} if accumulate is None else {"dims": (0,), "accumulate": accumulate}

        def body() -> Any:
            places = apply(SegmentIndex, (index, starts, lengths), {"op": "indexing"})
            return apply(op, (*given, places), attrs)

        made = recorded(wants_grad, body)
        of_results = (n_picked if op.name == _GET else n_rows) * width
        batch.leave(0, of_results, elements(made, batch.kind.results[0].dtype))
        layouts: list[Layout | None] = [*[Layout(n * width) for n in counts], None]
        saved = ([[made]], [*[[x] if x.requires_grad else None for x in given], None])
        return batch.group(_RUNNER, saved, of_results, layouts)


def pick_form(kind: OpKind) -> PickForm | None:
    if kind.op.name not in (_GET, _PUT) or kind.attrs["dims"] != (0,) or len(kind.inputs) != len(kind.slots):
        return None
    if not all(isinstance(i.type, TensorType) for i in kind.inputs):
        return None
    *rows, index = kind.inputs
    shape = rows[0].type.shape
    if len(kind.inputs) != (2 if kind.op.name == _GET else 3) or index.type.dtype.category != 1:
        return None
    if len(rows) == 2 and rows[1].type.shape != (*index.type.shape, *shape[1:]):
        return None
    inputs = tuple([(i.type.dtype, i.tracked) for i in rows])
    accumulate = kind.attrs.get("accumulate")
    return PickForm(kind.op, accumulate, inputs, index.type.dtype, shape[1:], shape[0], index.type.numel())
