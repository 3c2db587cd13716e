"""`torch.autograd.profiler`: names for stretches of code are taken and dropped; profiling is refused in words."""

from __future__ import annotations

from contextlib import ContextDecorator
from typing import Any

from ...core.absent_names import refused

_REASON = "it is not part of this version; cProfile sees Extempo's code, and ex.inspect.trace times layers"


class record_function(ContextDecorator):  # PyTorch's name
    """A named stretch of code, which nobody records."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name

    def __enter__(self) -> record_function:
        return self

    def __exit__(self, *error: Any) -> None:
        pass


profile, emit_nvtx, emit_itt = (
    refused(f"torch.autograd.profiler.{name}", _REASON) for name in ("profile", "emit_nvtx", "emit_itt")
)
