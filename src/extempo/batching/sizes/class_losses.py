"""Cross entropy over a call's own number of targets: each row's loss, then the sum or mean of each call's rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...core.tensor import Tensor, from_array
from ...core.types import TensorType, float32, float64
from ...dispatch.dispatcher import apply
from ...ops.class_loss_ops import CrossEntropy
from ...ops.segments import segment_sum
from ...ragged_tensors.rows import Rows
from ..gradients import Group, Layout
from ..op_kinds import OpKind
from .each import run_each
from .forms import SizedBatch
from .tape import TapeRunner, elements, on_tape, recorded

_RUNNER = TapeRunner()


class ClassLossForm(NamedTuple):
    """Scores (n, classes) and targets (n,)."""

    reduction: str
    dtype: Any
    tracked: bool
    index_dtype: Any
    n_classes: int
    n: int

    @property
    def family(self) -> Any:
        return self[:5]

    @classmethod
    def run(cls, batch: SizedBatch) -> Group:
        reduction, dtype, tracked, index_dtype, n_classes = batch.kind.family
        ignored = {batch.run.number(ref) for ref in batch.refs[:, 2].tolist()}
        if len(ignored) > 1:
            return run_each(batch)
        counts = np.array([one.form.n for one in batch.kinds], np.int64)
        (ignore,) = ignored
        wants_grad, ones = any(batch.kind.tracked), np.ones(len(counts), np.int64)
        scores = on_tape(batch.pieces(0, counts, TensorType((n_classes,), dtype)), tracked and wants_grad)
        target = batch.pieces(1, counts, TensorType((), index_dtype))
        rows = Rows.of_lengths(counts)

        def body() -> Tensor:
            inputs = (scores, from_array(target), ignore)
            of_each = apply(CrossEntropy, inputs, {"dim": 1, "reduction": "none"})
            total = segment_sum(of_each, *rows.segments)
            if reduction == "sum":
                return total
            n_kept = np.bincount(rows.row_of, target != ignore, minlength=rows.n)
            return total / from_array(n_kept.astype(dtype.numpy))

        made = recorded(wants_grad, body)
        batch.leave(0, ones, elements(made, dtype))
        saved = ([[made]], [[scores] if scores.requires_grad else None, None, None])
        return batch.group(_RUNNER, saved, ones, [Layout(counts * n_classes), None, None])


def class_loss_form(kind: OpKind) -> ClassLossForm | None:
    reduction = kind.attrs["reduction"]
    if reduction == "none" or kind.attrs["dim"] != 1 or len(kind.inputs) != 3 or len(kind.slots) != 3:
        return None
    scores, target, ignore = kind.inputs
    if not isinstance(target.type, TensorType) or ignore.type is not int or len(scores.type.shape) != 2:
        return None
    if scores.type.dtype not in (float32, float64):
        return None  # the op adds half precision up in single
    n, n_classes = scores.type.shape
    return ClassLossForm(reduction, scores.type.dtype, scores.tracked, target.type.dtype, n_classes, n)
