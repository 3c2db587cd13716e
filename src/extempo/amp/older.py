"""The older spellings of `autocast` and `GradScaler`, with the device in the module's name instead of an argument."""

from __future__ import annotations

from typing import Any, ClassVar

from ..core.types import bfloat16
from .autocasting import autocast
from .scaler import GradScaler


class AutocastOf(autocast):
    """`ex.amp.autocast(device_name, ...)`."""

    device_name: ClassVar[str]

    def __init__(self, enabled: bool = True, dtype: Any = bfloat16, cache_enabled: bool = True) -> None:
        super().__init__(self.device_name, dtype, enabled, cache_enabled)


class GradScalerOf(GradScaler):
    """`ex.amp.GradScaler(device_name, ...)`."""

    device_name: ClassVar[str]

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        super().__init__(self.device_name, init_scale, growth_factor, backoff_factor, growth_interval, enabled)
