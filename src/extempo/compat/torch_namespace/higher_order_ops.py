"""`torch._higher_order_ops`: the functions for branches and loops that PyTorch has there."""

from __future__ import annotations

from typing import Any

_NAMES = ("cond", "map", "scan", "while_loop")


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'torch._higher_order_ops' has no attribute {name!r}", name=name)
    from ...exporting import control_flow

    return getattr(control_flow, name)
