"""`torch._C` and `torch._utils`: the few internals that libraries ask for."""

from __future__ import annotations

from typing import Any


def _log_api_usage_once(event: str) -> None:
    """Nothing is reported to anybody."""


def _get_tracing_state() -> None:
    """No trace of `torch.jit` is being made."""


class ExceptionWrapper:
    """An exception of another thread or process, raised again where its result is asked for."""

    def __init__(self, exc_info: tuple[type[BaseException], BaseException, Any], where: str = "in background") -> None:
        self.error = exc_info[1]
        self.where = where

    def reraise(self) -> None:
        raise self.error
