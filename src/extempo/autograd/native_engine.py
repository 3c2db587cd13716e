"""The inner loop of backward that native code replaces: collecting nodes, handing gradients on, adding to `.grad`.

The functions here are entry points (`backends.entry_points`), called as attributes of this module. Their native forms
belong to one `Walker` for the process, made when one of them is first called.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..backends import entry_points
from ..backends.selection import native
from ..core.graph import Extra, Leaf, Node
from ..core.storage import Array, Storage
from ..core.tensor import Tensor
from .derive import Gradient
from .unbroadcast import sum_apart, sum_array_to

_KNOWN = (np.dtype(np.float32), np.dtype(np.float64))


@functools.cache
def walker(is_timed: bool = False) -> Any:
    """The native functions; None where NumPy's kernels run. `is_timed`: they write records for a profile."""
    backend = native()
    classes = {"node": Node, "storage": Storage, "tensor": Tensor, "extra": Extra, "derived": Gradient}
    return None if backend is None else backend.walker(classes, Leaf, sum_array_to, sum_apart, is_timed)


@entry_points.REACH.function(lambda: walker().reach)
def reach(roots: list[Node]) -> list[Node] | Node:
    """Every node that can be reached from these, in no order; or one of them that was freed."""
    found = set(roots)
    stack = list(found)
    while stack:
        node = stack.pop()
        if node.saved is None:
            return node
        for i in node.inputs:
            if type(i) is Node and i not in found:
                found.add(i)
                stack.append(i)
    return list(found)


@entry_points.WALK.function(lambda: walker().walk)
def walk(order: list[Node], left: int, gradients: dict[Node, Any], owned: set[Node], keep: bool) -> int:
    """Visit the first `left` nodes from the last one on, up to one that only the engine can visit; how many are left.

    In Python the engine visits them all.
    """
    return left


@entry_points.ADD.function(lambda: walker().add)
def add(total: Array, more: Array) -> bool:
    """total += more without letting go of the GIL, if that is possible: whether it was."""
    return False


@entry_points.ALL_FINITE.function(lambda: walker().all_finite)
def all_finite(arrays: list[Array]) -> bool:
    """Whether all elements are known to be finite; of dtypes and layouts that are seldom met it may not be known."""
    return all(_is_finite(array) for array in arrays)


@entry_points.SETTLE.function(lambda: walker().settle)
def settle(order: list[Node]) -> bool:
    """Free the nodes of a backward that has freed none, if the gradients of its leaves are known to be finite."""
    extras = [node.extra for node in order if node.op is Leaf and node.extra is not None]
    if not all(extra.grad is None or _is_finite(extra.grad._data) for extra in extras):
        return False
    for node in order:
        if node.saved:
            node.saved, node.inputs = None, ()
    return True


def _is_finite(array: Any) -> bool:
    known = isinstance(array, np.ndarray) and array.flags.c_contiguous and array.dtype in _KNOWN
    return known and bool(np.isfinite(array).all())
