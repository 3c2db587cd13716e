"""`torch.cpu`: queues of work of the CPU as a device. There are none: an op is done when its line is."""

from __future__ import annotations

import platform
from typing import Any

from .toplevel import Event as Event
from .toplevel import Stream as Stream


def current_stream(device: Any = None) -> Stream:
    return Stream()


def stream(stream: Any) -> Stream:
    """A block that runs as any other."""
    return Stream()


StreamContext = stream


def set_device(device: Any) -> None:
    """It is the CPU already."""


def is_initialized() -> bool:
    return True


def get_capabilities() -> dict[str, Any]:
    return {"architecture": platform.machine()}
