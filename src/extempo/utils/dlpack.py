"""Memory shared with other libraries, under the module name where PyTorch has it."""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor
from ..ops.creation import from_dlpack

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(tensor: Tensor) -> Any:
    """A capsule of the tensor's memory, which can be taken once; libraries of today take the tensor itself.

    >>> type(ex.utils.dlpack.to_dlpack(ex.ones(2))).__name__
    'PyCapsule'
    """
    return tensor.__dlpack__()
