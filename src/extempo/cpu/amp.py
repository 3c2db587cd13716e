"""The older spelling of `ex.amp` for the CPU."""

from __future__ import annotations

from ..amp.older import AutocastOf, GradScalerOf

__all__ = ["GradScaler", "autocast"]


class autocast(AutocastOf):
    """`ex.amp.autocast("cpu", ...)`.

    >>> with ex.cpu.amp.autocast(dtype=ex.bfloat16):
    ...     ex.is_autocast_enabled("cpu")
    True
    """

    device_name = "cpu"


class GradScaler(GradScalerOf):
    """`ex.amp.GradScaler("cpu", ...)`.

    >>> ex.cpu.amp.GradScaler(init_scale=8.0).get_scale()
    8.0
    """

    device_name = "cpu"
