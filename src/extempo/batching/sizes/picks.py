"""Rows by number: x[index], index_select, index_add and their like along the first dimensions of a call's own rows.

The rows of all calls lie end to end; an index counts from the beginning of its call's rows, and must lie in them. With
indices for several dimensions, as in x[ex.arange(n), targets], these count as one.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...core.op import Op
from ...core.tensor import from_array
from ...core.types import TensorType
from ...dispatch.dispatcher import apply
from ..gradients import Group, Layout
from ..op_kinds import OpKind
from .each import run_each
from .forms import SizedBatch
from .tape import TapeRunner, elements, on_tape, recorded
from .views import beginnings

_GET = "index_get"
_RUNNER = TapeRunner()


class PickForm(NamedTuple):
    """A call with indices along the first dimensions of its first input."""

    op: type[Op]
    accumulate: bool | None
    inputs: tuple[Any, ...]  # of what has rows: dtypes, and which of them want a gradient
    index_dtypes: tuple[Any, ...]
    inner: tuple[int, ...]  # of a row
    sizes: tuple[int, ...]  # of the dimensions that are indexed
    n_picked: int

    @property
    def family(self) -> Any:
        return self[:5]

    @classmethod
    def run(cls, batch: SizedBatch) -> Group:
        op, accumulate, inputs, index_dtypes, inner = batch.kind.family
        sizes = np.array([one.form.sizes for one in batch.kinds], np.int64)
        n_rows = sizes.prod(1)
        n_picked = np.array([one.form.n_picked for one in batch.kinds], np.int64)
        counts = [n_rows, n_picked][: len(inputs)]
        wants_grad, width = any(batch.kind.tracked), math.prod(inner)
        given = [
            on_tape(batch.pieces(j, n, TensorType(inner, dtype)), tracked and wants_grad)
            for j, (n, (dtype, tracked)) in enumerate(zip(counts, inputs, strict=True))
        ]
        rows = np.zeros(int(n_picked.sum()), np.int64)  # that are picked, within those of their call
        for k, dtype in enumerate(index_dtypes):
            index = batch.pieces(len(inputs) + k, n_picked, TensorType((), dtype))
            size = np.repeat(sizes[:, k], n_picked)
            if ((index < -size) | (index >= size)).any():
                return run_each(batch)  # which says whose it is, and what
            rows = rows * size + np.where(index < 0, index + size, index)
        places = from_array(rows + np.repeat(beginnings(n_rows), n_picked))
        attrs = {"dims": (0,)} if accumulate is None else {"dims": (0,), "accumulate": accumulate}
        made = recorded(wants_grad, lambda: apply(op, (*given, places), attrs))
        of_results = (n_picked if op.name == _GET else n_rows) * width
        batch.leave(0, of_results, elements(made, batch.kind.results[0].dtype))
        nothing = [None] * len(index_dtypes)
        layouts: list[Layout | None] = [*[Layout(n * width) for n in counts], *nothing]
        saved = ([[made]], [*[[x] if x.requires_grad else None for x in given], *nothing])
        return batch.group(_RUNNER, saved, of_results, layouts)


def pick_form(kind: OpKind) -> PickForm | None:
    dims = kind.attrs["dims"]
    n_rows, n_dims = 1 if kind.op.name == _GET else 2, len(dims)
    if dims != tuple(range(n_dims)) or not len(kind.inputs) == len(kind.slots) == n_rows + n_dims:
        return None
    if not all(isinstance(i.type, TensorType) for i in kind.inputs):
        return None
    rows, indices = kind.inputs[:n_rows], kind.inputs[n_rows:]
    shape, picked = rows[0].type.shape, indices[0].type.shape
    if any(i.type.dtype.category != 1 or i.type.shape != picked for i in indices):
        return None
    if n_rows == 2 and rows[1].type.shape != (*picked, *shape[n_dims:]):
        return None
    inputs = tuple([(i.type.dtype, i.tracked) for i in rows])
    dtypes = tuple([i.type.dtype for i in indices])
    accumulate = kind.attrs.get("accumulate")
    return PickForm(kind.op, accumulate, inputs, dtypes, shape[n_dims:], shape[:n_dims], math.prod(picked))
