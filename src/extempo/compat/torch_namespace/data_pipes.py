"""What `torch.utils.data` has of data pipes: classes can be declared as such. The pipes themselves are refused."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, TypeVar

T = TypeVar("T")


def functional_datapipe(name: str, enable_df_api_tracing: bool = False) -> Callable[[T], T]:
    """A decorator that hands its class back."""
    return lambda cls: cls


def argument_validation(fn: T) -> T:
    """A decorator that hands its function back."""
    return fn


runtime_validation = argument_validation


def non_deterministic(cls: Any) -> Any:
    """A decorator that hands its class back, also with an argument."""
    return cls if isinstance(cls, type) else argument_validation


class runtime_validation_disabled(nullcontext[None]):  # PyTorch's name
    """A block in which pipes check no types."""


guaranteed_datapipes_determinism = runtime_validation_disabled
