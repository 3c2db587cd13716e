"""`torch.multiprocessing`: how tensors would get into memory that processes share. Loaders choose by themselves."""

from __future__ import annotations

_STRATEGY = "file_system"


def get_all_sharing_strategies() -> set[str]:
    return {_STRATEGY}


def get_sharing_strategy() -> str:
    return _STRATEGY


def set_sharing_strategy(new_strategy: str) -> None:
    """There is one."""
