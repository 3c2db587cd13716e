"""Ops along dimensions that are not next to each other, or with sizes of the call's own behind them.

The elements of all calls are copied so that these dimensions come last. Then every call is rows of single elements,
and the op runs along them as in `along`; what keeps its shape is copied back.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...core.op import Op
from ...core.storage import Array
from ...core.tensor import Tensor
from ...core.types import TensorType
from ..gradients import Group, Layout
from ..op_kinds import OpKind
from .along import dims_of, inputs_of, of_rows, others_of
from .forms import SizedBatch, numels
from .tape import TapeRunner, elements, on_tape, recorded
from .views import Words, beginnings, copy_views, ordered, table_of


class ArrangedForm(NamedTuple):
    """A call whose rows are made by copying. All its tensors are of one shape."""

    op: type[Op]
    attrs: tuple[tuple[str, Any], ...]  # but for the dimensions
    inputs: tuple[Any, ...]  # dtypes, and which of them want a gradient; a number as itself
    words: Words
    outer: int
    length: int

    @property
    def family(self) -> Any:
        return self[:3]

    @classmethod
    def run(cls, batch: SizedBatch) -> Group:
        op, others, inputs = batch.kind.family
        outer = np.array([one.form.outer for one in batch.kinds], np.int64)
        lengths = np.array([one.form.length for one in batch.kinds], np.int64)
        counts = outer * lengths
        moves = table_of([one.form.words for one in batch.kinds], beginnings(counts), counts)
        wants_grad = any(batch.kind.tracked)
        filled: list[Any] = []
        given: list[Tensor] = []
        for dtype, tracked in inputs:
            if tracked is None:
                filled.append(dtype)
                continue
            values = moved(batch.pieces(len(given), counts, TensorType((), dtype)), moves, False)
            given.append(on_tape(values, tracked and wants_grad))
            filled.append(given[-1])
        columns = np.repeat(lengths[:, None], len(given), 1)
        results = recorded(wants_grad, lambda: of_rows(op, dict(others), filled, outer, columns))
        is_reduced = any(name == "keepdim" for name, _ in others)
        of_results = numels([one.results[0].shape for one in batch.kinds])
        for i, (y, t) in enumerate(zip(results, batch.kind.results, strict=True)):
            made = elements(y, t.dtype)
            batch.leave(i, of_results, made if is_reduced else moved(made, moves, True))
        saved = ([[y] for y in results], [[x] if x.requires_grad else None for x in given])
        runner = MovingRunner([moves] * len(given), None if is_reduced else moves)
        return batch.group(runner, saved, of_results, [Layout(counts) for _ in given])


def arranged_form(kind: OpKind) -> ArrangedForm | None:
    dims = dims_of(kind)
    if dims is None or len({i.type.shape for i in kind.inputs}) != 1:
        return None
    shape = kind.inputs[0].type.shape
    kept = [d for d in range(len(shape)) if d not in dims]
    words, length = ordered(shape, [*kept, *dims]), math.prod([shape[d] for d in dims])
    results = {t.numel() for t in kind.results}
    outer = math.prod([shape[d] for d in kept])
    # Results have one element for each row, or one for each element.
    if words is None or not length or results != {outer if "keepdim" in kind.attrs else outer * length}:
        return None
    return ArrangedForm(kind.op, others_of(kind), inputs_of(kind), words, outer, length)


def moved(array: Array, moves: Array, back: bool) -> Array:
    """Elements with the dimensions in question last, or `back` where they were."""
    array = np.ascontiguousarray(array).reshape(-1)
    made = np.empty(array.size, array.dtype)
    if back:
        copy_views(made, array, moves, True)
    else:
        copy_views(array, made, moves, False)
    return made


class MovingRunner:
    """Gradients by a tape, moved as their values were."""

    def __init__(self, inputs: list[Array | None], results: Array | None, captured: Sequence[Tensor] = ()) -> None:
        """How the inputs, and the results, were moved; None for what was not."""
        self._inputs = inputs
        self._results = results
        self._tape = TapeRunner(captured)

    def backward(self, saved: Any, gradients: list[Array | None]) -> tuple[list[Array | None], Any]:
        moves = self._results
        if moves is not None:
            gradients = [None if g is None else moved(g, moves, False) for g in gradients]
        made, left = self._tape.backward(saved, gradients)
        pairs = zip(made, self._inputs, strict=True)
        return [g if g is None or moves is None else moved(g, moves, True) for g, moves in pairs], left

    def finish(self, deferred: list[Any]) -> list[tuple[Tensor, Array]]:
        return self._tape.finish(deferred)
