"""`torch.accelerator`: there is none, and whoever asks is told so. What only one could do is refused."""

from __future__ import annotations

from typing import Any

from ...core.absent_names import explain_absent
from ..accelerators import device_count, is_available

__all__ = ["current_accelerator", "device_count", "empty_cache", "is_available", "synchronize"]


def current_accelerator(check_available: bool = False) -> None:
    """None: Extempo runs on the CPU."""


def synchronize(device: Any = None, /) -> None:
    """Nothing runs elsewhere that could be waited for."""


def empty_cache() -> None:
    """There is none to empty."""


_REASON = "Extempo runs on the CPU; guard the line with `if torch.accelerator.is_available():`"
_REFUSED = (
    "current_device_idx current_device_index current_stream device_index set_device_idx set_device_index set_stream"
)
explain_absent(__name__, dict.fromkeys(_REFUSED.split(), _REASON))
