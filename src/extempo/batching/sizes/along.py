"""Ops along one dimension whose size is a call's own: sums, softmaxes, maxima and scans over rows of any length.

A call is `outer` rows of `length` elements, each of the shape `inner`. The rows of all calls lie end to end, and the op
runs by what it states for such rows as its `ragged` aspect: the rule that ragged tensors have.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...core.op import Op
from ...core.types import TensorType
from ...ragged_tensors.rows import Rows
from ..gradients import Group, Layout
from ..op_kinds import OpKind
from .forms import SizedBatch
from .tape import TapeRunner, elements, on_tape, recorded

_RUNNER = TapeRunner()


class AlongForm(NamedTuple):
    """A call along one dimension."""

    op: type[Op]
    attrs: tuple[tuple[str, Any], ...]  # but for the dimension
    inputs: tuple[Any, ...]  # dtypes, and which of them want a gradient
    inner: tuple[int, ...]
    outer: int
    length: int

    @property
    def family(self) -> Any:
        return self[:4]

    @classmethod
    def run(cls, batch: SizedBatch) -> Group:
        op, others, inputs, inner = batch.kind.family
        outer = np.array([one.form.outer for one in batch.kinds], np.int64)
        lengths = np.array([one.form.length for one in batch.kinds], np.int64)
        counts = outer * lengths
        wants_grad = any(batch.kind.tracked)
        rows = Rows.of_lengths(np.repeat(lengths, outer))
        given = [
            on_tape(batch.pieces(j, counts, TensorType(inner, dtype)), tracked and wants_grad)
            for j, (dtype, tracked) in enumerate(inputs)
        ]
        attrs = {name: value for name, value in others if name != "keepdim"}
        made = recorded(wants_grad, lambda: op.ragged(rows, *given, **attrs))
        results = made if isinstance(made, tuple) else (made,)
        is_reduced = any(name == "keepdim" for name, _ in others)
        width = math.prod(inner)
        of_results = (outer if is_reduced else counts) * width
        for i, (y, t) in enumerate(zip(results, batch.kind.results, strict=True)):
            batch.leave(i, of_results, elements(y, t.dtype))
        layouts: list[Layout | None] = [Layout(counts * width) for _ in given]
        saved = ([[y] for y in results], [[x] if x.requires_grad else None for x in given])
        return batch.group(_RUNNER, saved, of_results, layouts)


def along_form(kind: OpKind) -> AlongForm | None:
    """A call as one along a dimension, of rows of any length but 0; None if it is not."""
    dim = kind.attrs.get("dim")
    if isinstance(dim, tuple) and len(dim) == 1:
        dim = dim[0]
    if type(dim) is not int or isinstance(kind.op.ragged, str) or not callable(kind.op.ragged):
        return None
    types = [i.type for i in kind.inputs if isinstance(i.type, TensorType)]
    if len(types) != len(kind.slots) or len({t.shape for t in types}) != 1 or not types[0].shape:
        return None
    shape = types[0].shape
    if not shape[dim]:
        return None  # of which some ops make nothing, and others an error
    others = tuple([(name, value) for name, value in kind.attrs.items() if name != "dim"])
    inputs = tuple([(i.type.dtype, i.tracked) for i in kind.inputs])
    return AlongForm(kind.op, others, inputs, shape[dim + 1 :], math.prod(shape[:dim]), shape[dim])
