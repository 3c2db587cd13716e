"""The CPU, asked as a device: what scripts look for under `torch.cpu`."""

from __future__ import annotations

from typing import Any

from ..core.absent_names import explain_absent
from . import amp

__all__ = ["amp", "current_device", "device_count", "is_available", "synchronize"]


def is_available() -> bool:
    """True.

    >>> ex.cpu.is_available()
    True
    """
    return True


def device_count() -> int:
    """1: the CPU is one device, whatever its cores.

    >>> ex.cpu.device_count()
    1
    """
    return 1


def current_device() -> str:
    """The name of the device.

    >>> ex.cpu.current_device()
    'cpu'
    """
    return "cpu"


def synchronize(device: Any = None) -> None:
    """Nothing to wait for: an op is done when its line is.

    >>> ex.cpu.synchronize()
    """


explain_absent(__name__)
