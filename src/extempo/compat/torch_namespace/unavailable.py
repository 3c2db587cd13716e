"""What `torch.distributed.rpc` answers when it is asked: it is not there."""

from __future__ import annotations

from typing import TypeVar

_F = TypeVar("_F")


def is_available() -> bool:
    return False


def _require_initialized(function: _F) -> _F:
    """A decorator of functions that would talk to other processes: they are handed back."""
    return function
