"""The inner loop of backward that native code replaces: collecting nodes, handing gradients on, adding to `.grad`.

The functions here are entry points (`backends.entry_points`), called as attributes of this module. Their native forms
belong to one `Walker` for the process, made when one of them is first called.
"""

from __future__ import annotations

import functools
from typing import Any

from ..backends import entry_points
from ..backends.selection import native
from ..core.graph import Extra, Leaf, Node
from ..core.storage import Array, Storage
from ..core.tensor import Tensor
from .derive import Gradient
from .unbroadcast import sum_apart, sum_array_to


@functools.cache
def walker() -> Any:
    """The native functions; None where NumPy's kernels run."""
    backend = native()
    classes = {"node": Node, "storage": Storage, "tensor": Tensor, "extra": Extra, "derived": Gradient}
    return None if backend is None else backend.walker(classes, Leaf, sum_array_to, sum_apart)


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
