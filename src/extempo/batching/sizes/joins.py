"""cat and stack along the first dimension, of lists of any length: nothing but moving rows.

The elements of a result are those of its inputs, end to end.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...core.op import Op
from ...core.storage import Array
from ...core.tensor import Tensor
from ..gradients import Group, Layout
from ..op_kinds import OpKind
from .forms import SizedBatch, numels


class JoinForm(NamedTuple):
    """A list that becomes one tensor."""

    op: type[Op]
    dtype: Any
    tracked: bool

    @property
    def family(self) -> Any:
        return tuple(self)

    @classmethod
    def run(cls, batch: SizedBatch) -> Group:
        inputs = [i for one in batch.kinds for i in one.inputs]
        values = batch.refs[batch.refs >= 0]  # the rows of short lists are filled up
        counts = numels([i.type.shape for i in inputs])
        t = batch.kind.results[0]
        made = batch.run.values.gather_pieces(values, counts, (), t.dtype.numpy)
        of_results = numels([one.results[0].shape for one in batch.kinds])
        batch.leave(0, of_results, made)
        tracked = np.array([i.tracked for i in inputs], bool)
        layout = Layout(counts[tracked], values=values[tracked])
        which = None if tracked.all() else np.repeat(tracked, counts)
        return batch.group(_RUNNER, which, of_results, [layout])


def join_form(kind: OpKind) -> JoinForm | None:
    if kind.op.name not in ("cat", "stack") or kind.attrs["dim"] != 0 or kind.captured or not kind.inputs:
        return None
    t = kind.results[0]
    if len(kind.inputs) != len(kind.slots) or any(i.type.dtype is not t.dtype for i in kind.inputs):
        return None
    return JoinForm(kind.op, t.dtype, kind.tracked[0])


class _JoinRunner:
    """Gradients of lists."""

    def backward(self, saved: Any, gradients: list[Array | None]) -> tuple[list[Array | None], Any]:
        (g,) = gradients
        assert g is not None  # a batch without gradients is passed over
        return [g if saved is None else g[saved]], []

    def finish(self, deferred: list[Any]) -> list[tuple[Tensor, Array]]:
        return []


_RUNNER = _JoinRunner()
