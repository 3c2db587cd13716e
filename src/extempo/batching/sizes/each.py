"""Calls that run by themselves, beside others of their op: what no other form fits.

They are one batch all the same, so that what they read and what reads them may be batches, too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...core.op import Op
from ...core.tensor import Tensor
from ...core.types import TensorType
from ..gradients import Group, Layout
from ..op_kinds import OpKind
from ..sharing import row_major
from .forms import SizedBatch, numels
from .tape import TapeRunner, on_tape, recorded


class EachForm(NamedTuple):
    """A call that runs by itself."""

    op: type[Op]
    results: tuple[Any, ...]  # their dtypes, and which of them have a gradient
    inputs: tuple[Any, ...]  # the same of the inputs; types of numbers

    @property
    def family(self) -> Any:
        return tuple(self)

    @classmethod
    def run(cls, batch: SizedBatch) -> Group:
        return run_each(batch)


def each_form(kind: OpKind) -> EachForm:
    results = tuple([(t.dtype, tracked) for t, tracked in zip(kind.results, kind.tracked, strict=True)])
    return EachForm(kind.op, results, tuple([(getattr(i.type, "dtype", i.type), i.tracked) for i in kind.inputs]))


def run_each(batch: SizedBatch) -> Group:
    """Run one call after the other."""
    kind, run = batch.kind, batch.run
    run.notes.one_by_one.add(kind)
    wants_grad = any(kind.tracked)
    columns: list[list[Any]] = [[] for _ in range(batch.refs.shape[1])]
    results: list[list[Tensor]] = [[] for _ in kind.results]

    def body() -> None:
        for call, one in enumerate(batch.kinds):
            for j, i in enumerate(one.inputs):
                if isinstance(i.type, TensorType):
                    columns[j].append(on_tape(batch.whole(call, j), i.tracked and wants_grad))
                else:
                    columns[j].append(run.number(int(batch.refs[call, j])))
            for of_result, y in zip(results, one.fn(*[xs[-1] for xs in columns]), strict=True):
                of_result.append(y)

    recorded(wants_grad, body)
    for i, ys in enumerate(results):
        run.values.add_each((batch.firsts + i).tolist(), row_major([y._values() for y in ys]))
    counts = np.array([numels([y._type.shape for y in ys]) for ys in results])
    layouts: list[Layout | None] = []
    of_inputs: list[list[Tensor] | None] = []
    for xs in columns:
        is_tracked = isinstance(xs[0], Tensor) and xs[0].requires_grad
        of_inputs.append(xs if is_tracked else None)
        layouts.append(Layout(numels([x._type.shape for x in xs])) if is_tracked else None)
    captured = list({id(t): t for one in batch.kinds for t in one.captured}.values())
    return batch.group(TapeRunner(captured), (results, of_inputs), counts, layouts)
