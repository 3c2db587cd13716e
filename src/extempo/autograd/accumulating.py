"""Adding to `.grad`: the last step of a backward, and the only one that other backwards can meet.

Where it can be, a gradient is added in place; who has recorded reading `.grad` reads it before. Hooks that wait for the
sum run when the lock is free again: they may go backward themselves.
"""

from __future__ import annotations

import numpy as np

from ..core import locks
from ..core.active_traces import before_write
from ..core.graph import Leaf, Node
from ..core.op import REGISTRY
from ..core.storage import Array
from ..core.strides import Order, copied, is_k_ordered
from ..core.tensor import Tensor, wrap
from ..dispatch.dispatcher import apply
from ..errors import ShapeError
from . import native_engine

# Two backward passes in two threads may reach the same leaf; NumPy lets go of the GIL while it adds. In a forked child
# the backward of another thread ends where it was: gradients have a part of it, whole or not.
_accumulating = locks.renewed()


def accumulate(node: Node, g: Tensor, create_graph: bool, is_own: bool) -> None:
    """Add to the `.grad` of a node's tensor, then run its hooks. `is_own`: nobody else sees the memory of `g`.

    A first gradient has the layout of its tensor, if that has no gaps, and is row-major otherwise.
    """
    extra, order = node.need(), node.attrs.get("order")
    with _accumulating:
        if extra.grad is None:
            extra.grad = _clone(g, order) if create_graph else g if is_own and _lies_in(g, order) else _copied(g, order)
        elif create_graph or extra.grad.requires_grad or extra.grad._array is None or g._array is None:
            extra.grad = extra.grad + g
        elif extra.grad._type != g._type:
            raise ShapeError(
                f"backward: .grad is {extra.grad._type}, the gradient to be added is {g._type}; after a change of "
                "x.data set x.grad = None"
            )
        else:
            before_write((extra.grad._storage,))
            _add_in_place(extra.grad._array, g._array)
            extra.grad._storage.version += 1
    tensor = extra.tensor() if extra.post_hooks and extra.tensor is not None else None
    if tensor is not None:
        for hook in list(extra.post_hooks.values()):  # type: ignore[union-attr] # asked for just above
            hook(tensor)


def accumulate_all(gradients: list[tuple[Node, Array]]) -> None:
    """The gradients of leaves, in memory that nobody else sees."""
    for node, g in gradients:
        accumulate(node, wrap(g, node.type), create_graph=False, is_own=True)


def before_adding(nodes: list[Node]) -> None:
    """Gradients of these leaves will be added to in place, by native code: who has recorded reading them reads now."""
    gradients = [node.extra.grad for node in nodes if node.op is Leaf and node.extra is not None]
    storages = [g._storage for g in gradients if g is not None]
    if storages:
        before_write(storages)


def _add_in_place(total: Array, more: Array) -> None:
    """total += more, the way the native walk does it, so that two threads that reach one leaf lose nothing."""
    if not native_engine.add(total, more):
        np.add(total, more, out=total)


def _lies_in(g: Tensor, order: Order | None) -> bool:
    return g._array is None or is_k_ordered(g._array, order)


def _clone(g: Tensor, order: Order | None) -> Tensor:
    """A copy inside the graph."""
    made: Tensor = apply(REGISTRY["arrange"], (g,), {"order": order or tuple(range(g.ndim))})
    return made


def _copied(g: Tensor, order: Order | None) -> Tensor:
    """A gradient that may be added to in place, in the layout of its tensor: a copy, as others may see this memory."""
    return g if g._array is None else wrap(copied(g._array, order), g._type)
