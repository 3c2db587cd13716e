"""`torch.backends`: what programs ask or tell of libraries that Extempo does not use: an answer, and no effect."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

fp32_precision = "none"
enabled = False  # of opt_einsum
strategy = None


class verbose(nullcontext[None]):  # PyTorch's name
    """A block in which a library would say what it does."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()


flags = verbose


def set_flags(*args: Any, **kwargs: Any) -> tuple[()]:
    """No setting has an effect, and so there is none to go back to."""
    return ()


def disable_global_flags() -> None:
    """Settings may be set all the same."""


def flags_frozen() -> bool:
    return False


def is_available() -> bool:
    return False


is_acl_available = is_available


def is_acceptable(tensor: Any) -> bool:
    """No library but Extempo computes with a tensor."""
    return False


def get_opt_einsum() -> None:
    """Not loaded: einsum orders its products itself."""


def get_core_count() -> int:
    """Of a GPU."""
    return 0


def get_name() -> str:
    """Of a GPU."""
    return ""


def is_macos_or_newer(major: int, minor: int) -> bool:
    return False


def is_macos13_or_newer(minor: int = 0) -> bool:
    return False
