"""A tape that has no plan, op by op: the same kernels that eager mode runs, in the same order."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from types import NoneType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.context import CONTEXT
from ..core.storage import Array
from ..core.tensor import Tensor
from ..core.trace_tree import NONE, NUMBER, TraceNode, TraceOp
from ..dispatch.kernel_cache import numpy_kernel
from .segment import Segment

if TYPE_CHECKING:
    from .executor import TraceExecutor
    from .trace import Trace


def replay(r: TraceExecutor, found: Segment, state: TraceNode, first: int) -> list[Any]:
    """Op by op with eager mode's kernels, dropping what is not needed any more."""
    values = dict(r.values)
    places = range(first, state.n_places)
    steps = [r.makers[p] for p in places if r.makers[p].place == p]
    if found.last_uses is None:
        found.last_uses = _last_uses(steps, set(found.wanted))
    for step, done in zip(steps, found.last_uses, strict=True):
        try:
            _run_step(r, step, values)
        except Exception as error:
            r._fail(step, values, first, error)
            raise
        for place in done:
            values.pop(place, None)
    return [values[p] for p in found.wanted]


def _last_uses(steps: list[TraceOp], wanted: set[int]) -> list[Sequence[int]]:
    """For each step the values that may go after it. A view is an array of its own on its base's memory."""
    last: dict[int, int] = {}
    for i, step in enumerate(steps):
        for ref in step.refs:
            if 0 <= ref < NUMBER:
                last[ref] = i
        for result in range(step.n_results):
            last[step.place + result] = i
    done: list[list[int]] = [[] for _ in steps]
    for place, i in last.items():
        if place not in wanted and place >= steps[0].place:
            done[i].append(place)
    return [tuple(places) for places in done]  # () is there once, and the garbage collector leaves tuples of ints alone


def _run_step(r: TraceExecutor, step: TraceOp, values: dict[int, Any]) -> None:
    arguments = arguments_of(r, step, values)
    if step.view is not None or step.signature.kernel is None:
        out = numpy_kernel(step.op, arguments, step.attrs, step.signature.compute, CONTEXT.get())
    else:
        out = step.signature.kernel(*arguments)
    if type(step.type) is tuple:
        for i, (array, t) in enumerate(zip(out, step.type, strict=True)):
            values[step.place + i] = np.asarray(array, t.dtype.numpy)
    else:
        values[step.place] = np.asarray(out, step.type.dtype.numpy)


def arguments_of(r: Trace, step: TraceOp, values: dict[int, Any]) -> list[Any]:
    arguments: list[Any] = []
    baked = iter(step.baked or ())
    for ref, kind in zip(step.refs, step.kinds, strict=True):
        if ref >= NUMBER:
            arguments.append(r.numbers[ref - NUMBER])
        elif ref >= 0:
            arguments.append(array_at(r, ref, values))
        elif ref > NONE:
            arguments.append(r.arrays[-1 - ref])
        else:
            arguments.append(None if kind is NoneType else next(baked))
    return arguments


def array_at(r: Trace, place: int, values: dict[int, Any]) -> Any:
    """The array of a place; views are looked at through their base."""
    array = values.get(place)
    if array is None:
        step = r.makers[place]
        array = step.op.numpy(*arguments_of(r, step, values), **step.attrs)
    return array


class FailedOp:
    """What stands behind a tensor whose op failed when it ran."""

    def __init__(self, error: Exception) -> None:
        self.error = copy.copy(error)  # without the traceback, whose frames hold tensors

    def read(self, t: Tensor) -> Array:
        raise copy.copy(self.error)
