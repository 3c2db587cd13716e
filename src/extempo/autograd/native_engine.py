"""The inner loop of backward in native code: one `Walker` for the process, made when it is first asked for."""

from __future__ import annotations

from typing import Any

from ..backends.selection import native
from ..core.graph import Extra, Leaf, Node
from ..core.storage import Storage
from ..core.tensor import Tensor
from .derive import Gradient
from .unbroadcast import sum_apart, sum_array_to

_walkers: list[Any] = []


def walker() -> Any:
    """None where NumPy's kernels run."""
    if not _walkers:
        backend = native()
        classes = {"node": Node, "storage": Storage, "tensor": Tensor, "extra": Extra, "derived": Gradient}
        _walkers.append(None if backend is None else backend.walker(classes, Leaf, sum_array_to, sum_apart))
    return _walkers[0]
