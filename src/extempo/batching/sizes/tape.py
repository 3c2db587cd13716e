"""Forms that run by ordinary ops, whose gradients the engine finds: what they share.

A forward leaves a graph from tensors that hold the inputs of all calls to tensors that hold their results; backward
goes through it. Results are pieces of single elements, whatever their shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...autograd.api import grad
from ...core.context import CONTEXT, ExecutionContext
from ...core.storage import Array
from ...core.tensor import Tensor, wrap
from ...core.types import TensorType, from_numpy_dtype
from ..vmap_runner import totals_of

Saved = tuple[list[list[Tensor]], list[list[Tensor] | None]]  # results, and inputs that want gradients


class TapeRunner:
    """Gradients by the engine, through the graph that a forward has left."""

    def __init__(self, captured: Sequence[Tensor] = ()) -> None:
        self._captured = [t for t in captured if t.requires_grad]

    def backward(self, saved: Saved, gradients: list[Array | None]) -> tuple[list[Array | None], Any]:
        results, inputs = saved
        pairs = [pair for ys, g in zip(results, gradients, strict=True) if g is not None for pair in _split(ys, g)]
        pairs = [(y, g) for y, g in pairs if y.requires_grad]
        if not pairs:
            return [None] * len(inputs), []
        wanted = [x for xs in inputs if xs is not None for x in xs]
        found = grad(
            [y for y, _ in pairs],
            [*wanted, *self._captured],
            [g for _, g in pairs],
            retain_graph=True,
            allow_unused=True,
        )
        left = iter(found)
        made = [None if xs is None else _joined(xs, [next(left) for _ in xs]) for xs in inputs]
        return made, list(left)

    def finish(self, deferred: list[Any]) -> list[tuple[Tensor, Array]]:
        return totals_of(self._captured, deferred)


def _split(ys: Sequence[Tensor], g: Array) -> list[tuple[Tensor, Tensor]]:
    """Elements of gradients, as those of tensors that have these elements end to end."""
    flat, start, pairs = g.reshape(-1), 0, []
    for y in ys:
        n = y.numel()
        pairs.append((y, wrap(flat[start : start + n].reshape(y._type.shape), y._type)))
        start += n
    return pairs


def _joined(xs: Sequence[Tensor], gradients: Sequence[Tensor | None]) -> Array | None:
    """The gradients of tensors, as elements end to end; zeros for those that have none."""
    if all(g is None for g in gradients):
        return None
    flat = [
        np.zeros(x.numel(), x._type.dtype.numpy) if g is None else g._values().reshape(-1)
        for x, g in zip(xs, gradients, strict=True)
    ]
    return flat[0] if len(flat) == 1 else np.concatenate(flat)


def on_tape(array: Array, tracked: bool) -> Tensor:
    """Values as a tensor that begins a graph, where they want a gradient."""
    made = wrap(array, TensorType(array.shape, from_numpy_dtype(array.dtype)))
    return made.requires_grad_() if tracked else made


def recorded(wants_grad: bool, body: Callable[[], Any]) -> Any:
    """What a function of ordinary ops makes, with their graph if it is wanted."""
    before = CONTEXT.get()
    try:
        CONTEXT.set(ExecutionContext(wants_grad, before.inference, None, before.quiet))
        return body()
    finally:
        CONTEXT.set(before)


def elements(y: Tensor, dtype: Any) -> Array:
    """The values of a result, as elements end to end."""
    return np.ascontiguousarray(y._values(), dtype.numpy).reshape(-1)
