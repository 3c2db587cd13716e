"""Replay: a segment that has no plan runs op by op, by the kernels that eager mode runs, in the same order."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
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
    from .trace import Trace


def replay(
    found: Segment,
    trace: Trace,
    state: TraceNode,
    fail: Callable[[Trace, int, TraceOp, dict[int, Any], Exception], None],
) -> list[Any]:
    """The values that a segment is to keep, by eager's kernels; what is not needed any more is dropped on the way.

    An error is raised as it is, after `fail` has been called with the trace, where the segment begins, the op,
    the values before it and the error.
    """
    values, makers = dict(trace.values), trace.makers
    steps = [makers[p] for p in range(state.n_run, state.n_places) if makers[p].place == p]
    if found.last_uses is None:
        found.last_uses = _last_uses(steps, set(found.wanted))
    for step, done in zip(steps, found.last_uses, strict=True):
        try:
            _run_step(trace, step, values)
        except Exception as error:
            fail(trace, state.n_run, step, values, error)
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


def _run_step(trace: Trace, step: TraceOp, values: dict[int, Any]) -> None:
    arguments = arguments_of(trace, step, values)
    if step.view is not None or step.signature.kernel is None:
        out = numpy_kernel(step.op, arguments, step.attrs, step.signature.compute, CONTEXT.get())
    else:
        out = step.signature.kernel(*arguments)
    if type(step.type) is tuple:
        for i, (array, t) in enumerate(zip(out, step.type, strict=True)):
            values[step.place + i] = np.asarray(array, t.dtype.numpy)
    else:
        values[step.place] = np.asarray(out, step.type.dtype.numpy)


def arguments_of(trace: Trace, step: TraceOp, values: dict[int, Any]) -> list[Any]:
    arguments: list[Any] = []
    baked = iter(step.baked or ())
    for ref, kind in zip(step.refs, step.kinds, strict=True):
        if ref >= NUMBER:
            arguments.append(trace.numbers[ref - NUMBER])
        elif ref >= 0:
            arguments.append(array_at(trace, ref, values))
        elif ref > NONE:
            arguments.append(trace.arrays[-1 - ref])
        else:
            arguments.append(None if kind is NoneType else next(baked))
    return arguments


def array_at(trace: Trace, place: int, values: dict[int, Any]) -> Any:
    """The array of a value; that of a view is made from its base's."""
    array = values.get(place)
    if array is None:
        step = trace.makers[place]
        array = step.op.numpy(*arguments_of(trace, step, values), **step.attrs)
    return array


class FailedOp:
    """What stands behind a tensor whose op failed when it ran."""

    def __init__(self, error: Exception) -> None:
        self.error = copy.copy(error)  # without the traceback, whose frames hold tensors

    def read(self, t: Tensor) -> Array:
        raise copy.copy(self.error)
