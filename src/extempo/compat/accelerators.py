"""What scripts ask an accelerator that is not there: the shared half of `cuda`, `mps` and `xpu`.

Questions get their honest answer (none, zero); seeding and cache calls do nothing, as in PyTorch without the device.
Everything else is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from ..core.absent_names import RefusedName

__all__ = [
    "device_count",
    "empty_cache",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "seed",
    "seed_all",
]


def is_available() -> bool:
    """False: Extempo runs on the CPU."""
    return False


def is_initialized() -> bool:
    """False: Extempo runs on the CPU."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """False: there is no device that could."""
    return False


def device_count() -> int:
    """0: Extempo runs on the CPU."""
    return 0


def manual_seed(seed: int) -> None:
    """Nothing to seed; `ex.manual_seed` seeds the CPU's stream."""


def manual_seed_all(seed: int) -> None:
    """Nothing to seed; `ex.manual_seed` seeds the CPU's stream."""


def seed() -> None:
    """Nothing to seed."""


def seed_all() -> None:
    """Nothing to seed."""


def empty_cache() -> None:
    """Nothing to give back."""


def memory_allocated(device: Any = None) -> int:
    """0 bytes."""
    return 0


def max_memory_allocated(device: Any = None) -> int:
    """0 bytes."""
    return 0


def memory_reserved(device: Any = None) -> int:
    """0 bytes."""
    return 0


def max_memory_reserved(device: Any = None) -> int:
    """0 bytes."""
    return 0


def refuse_rest(device: str) -> Callable[[str], NoReturn]:
    """The `__getattr__` of a device's module."""

    def __getattr__(name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise RefusedName(
            f"extempo.{device}.{name}: Extempo runs on the CPU; guard the line with `if ex.{device}.is_available():`",
            name,
        )

    return __getattr__
