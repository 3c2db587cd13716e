"""The older spelling of `ex.amp` with the device left out."""

from __future__ import annotations

from typing import Any

from .. import amp
from ..types import bfloat16

__all__ = ["GradScaler", "autocast"]


class autocast(amp.autocast):
    """`ex.amp.autocast("cpu", ...)`.

    >>> with ex.cpu.amp.autocast(dtype=ex.bfloat16):
    ...     ex.is_autocast_enabled("cpu")
    True
    """

    def __init__(self, enabled: bool = True, dtype: Any = bfloat16, cache_enabled: bool = True) -> None:
        super().__init__("cpu", dtype, enabled, cache_enabled)


class GradScaler(amp.GradScaler):
    """`ex.amp.GradScaler("cpu", ...)`.

    >>> ex.cpu.amp.GradScaler(init_scale=8.0).get_scale()
    8.0
    """

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        super().__init__("cpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
