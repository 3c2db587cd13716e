"""`torch.utils.checkpoint`: the random states of other devices, of which there are none."""

from __future__ import annotations

from typing import Any


def get_device_states(*args: Any) -> tuple[list[int], list[Any]]:
    """(devices of the tensors among `args`, their random states)."""
    return [], []


def set_device_states(devices: list[int], states: list[Any], **kwargs: Any) -> None:
    """Put such states back."""
