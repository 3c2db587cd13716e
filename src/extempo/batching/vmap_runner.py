"""Running calls of one kind as one, op by op: every op by its batching rule, gradients by the engine.

This serves what no plan can be made for, and runs everything where there is no native code. Random draws, which belong
to each sample, are made one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import ops
from ..autograd.api import grad
from ..core.context import CONTEXT, ExecutionContext
from ..core.storage import Array
from ..core.tensor import Tensor, wrap
from ..core.types import type_of_array
from ..func.levels import Level
from .kinds import CallKind


class VmapRunner:
    """A Runner by vmap."""

    def __init__(self, kind: CallKind, shared: tuple[bool, ...]) -> None:
        self._kind = kind
        self._shared = shared
        self._captured = [t for t in kind.captured if t.requires_grad]

    def forward(self, inputs: Sequence[Any], n: int) -> tuple[list[Array], Any]:
        kind = self._kind
        wants_grad = any(kind.tracked)
        before = CONTEXT.get()
        try:
            CONTEXT.set(ExecutionContext(wants_grad, before.inference, None, before.quiet))
            physical = [self._argument(i, x) for i, x in enumerate(inputs)]
            results = self._results(physical, n)
        finally:
            CONTEXT.set(before)
        arrays = [np.ascontiguousarray(y._values()) for y in results]  # rows are row-major, whatever computes them
        if not wants_grad:
            return arrays, None
        wanted = [x for x, i in zip(physical, kind.inputs, strict=True) if i.tracked]
        return arrays, (results, wanted)

    def _results(self, physical: list[Any], n: int) -> list[Tensor]:
        """Rows of each result, recorded for gradients."""
        level = Level(n, "different")
        mode = CONTEXT.get()
        arguments = [x if s else level.wrap(x) for x, s in zip(physical, self._shared, strict=True)]
        CONTEXT.set(ExecutionContext(mode.grad, mode.inference, level, mode.quiet))
        results = self._kind.fn(*arguments)
        CONTEXT.set(mode)
        made = [level.physical(y) for y in results]
        level.running = False
        return made

    def _argument(self, position: int, x: Any) -> Any:
        """An input as a tensor that begins a graph of its own, where it wants a gradient."""
        if self._shared[position]:
            if not isinstance(x, Tensor) or not self._kind.inputs[position].tracked:
                return x
            return x.detach().requires_grad_()  # the same memory, so that the engine sees when it is written
        if isinstance(x, list):
            return x  # of numbers
        made = wrap(x, type_of_array(x))
        return made.requires_grad_() if self._kind.inputs[position].tracked else made

    def backward(self, saved: Any, gradients: list[Array | None]) -> tuple[list[Array | None], Any]:
        results, wanted = saved
        pairs = [
            (y, wrap(g, y._type)) for y, g in zip(results, gradients, strict=True) if g is not None and y.requires_grad
        ]
        if not pairs:
            return [None] * len(self._kind.inputs), []
        found = grad(
            [y for y, _ in pairs],
            [*wanted, *self._captured],
            [g for _, g in pairs],
            retain_graph=True,
            allow_unused=True,
        )
        of_inputs = iter(found[: len(wanted)])
        gradients_of_inputs = [next(of_inputs) if i.tracked else None for i in self._kind.inputs]
        return [None if g is None else g._values() for g in gradients_of_inputs], found[len(wanted) :]

    def finish(self, deferred: list[Any]) -> list[tuple[Tensor, Array]]:
        return totals_of(self._captured, deferred)


def totals_of(captured: Sequence[Tensor], deferred: list[Any]) -> list[tuple[Tensor, Array]]:
    """Of tensors that batches captured, the sums of the gradients that each has left; a batch may have left none."""
    totals: list[tuple[Tensor, Array]] = []
    for t, *parts in zip(captured, *[of_batch for of_batch in deferred if of_batch], strict=True):
        arrays = [g._values() for g in parts if g is not None]
        if arrays:
            totals.append((t, sum(arrays[1:], start=arrays[0]) if len(arrays) > 1 else arrays[0].copy()))
    return totals


class LoopRunner(VmapRunner):
    """A Runner for calls that cannot run as one."""

    def _results(self, physical: list[Any], n: int) -> list[Tensor]:
        rows = [
            self._kind.fn(*[self._row(x, i, s) for x, s in zip(physical, self._shared, strict=True)]) for i in range(n)
        ]
        return [ops.stack(same) for same in zip(*rows, strict=True)]

    def _row(self, x: Any, i: int, shared: bool) -> Any:
        return x if shared else x[i]
