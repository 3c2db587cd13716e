"""`torch.autograd.profiler`: the older names of `torch.profiler`, which are the same things.

Where NVTX or ITT would be told of ops nobody is, and the code runs as it is.
"""

from __future__ import annotations

from contextlib import ContextDecorator
from typing import Any

from . import torch_profiler
from .torch_profiler import kineto_available as kineto_available

_SHARED = ("EventList", "FunctionEventAvg", "profile", "record_function")


def __getattr__(name: str) -> Any:
    if name in _SHARED:
        return getattr(torch_profiler, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class emit_nvtx(ContextDecorator):  # PyTorch's name
    """NVTX is NVIDIA's; the code runs as it is."""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled = enabled

    def __enter__(self) -> emit_nvtx:
        return self

    def __exit__(self, *error: Any) -> None:
        pass


class emit_itt(emit_nvtx):  # PyTorch's name
    """ITT is Intel's; the code runs as it is."""
