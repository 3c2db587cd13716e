"""What `torch.accelerator` and `torch.distributed.rpc` answer when they are asked: they are not there."""

from __future__ import annotations


def is_available() -> bool:
    return False


def device_count() -> int:
    return 0


def current_accelerator(check_available: bool = False) -> None:
    """There is none."""


def synchronize(device: object = None) -> None:
    """Everything is done."""


def empty_cache() -> None:
    """There is none."""
