"""`torch.accelerator`: there is none, and whoever asks is told so. What only one could do is refused."""

from __future__ import annotations

from typing import Any

from ...core.absent_names import explain_absent
from ..accelerators import (
    device_count,
    is_available,
    max_memory_allocated,
    max_memory_reserved,
    memory_allocated,
    memory_reserved,
    memory_stats,
)

__all__ = [
    "current_accelerator", "device_count", "empty_cache", "empty_host_cache", "get_memory_info", "is_available",
    "max_memory_allocated", "max_memory_reserved", "memory_allocated", "memory_reserved", "memory_stats",
    "reset_accumulated_memory_stats", "reset_peak_memory_stats", "synchronize",
]  # fmt: skip


def current_accelerator(check_available: bool = False) -> None:
    """None: Extempo runs on the CPU."""


def synchronize(device: Any = None, /) -> None:
    """Nothing runs elsewhere that could be waited for."""


def empty_cache() -> None:
    """There is none to empty."""


empty_host_cache = empty_cache


def get_memory_info(device: Any = None, /) -> tuple[int, int]:
    """(bytes that are free, bytes that there are) of a device that is not there."""
    return 0, 0


def reset_peak_memory_stats(device: Any = None, /) -> None:
    """Nothing is counted."""


reset_accumulated_memory_stats = reset_peak_memory_stats


_REASON = "Extempo runs on the CPU; guard the line with `if torch.accelerator.is_available():`"
_REFUSED = (
    "current_device_idx current_device_index current_stream device_index get_device_capability set_device_idx "
    "set_device_index set_stream"
)
explain_absent(__name__, dict.fromkeys(_REFUSED.split(), _REASON))
