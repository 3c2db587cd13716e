"""`torch.overrides`: Extempo asks no class for its `__torch_function__`, so there is never one to hand over to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any

from ...core.tensor import Tensor


def has_torch_function(relevant: Iterable[Any]) -> bool:
    return False


has_torch_function_unary = has_torch_function_variadic = has_torch_function


def handle_torch_function(function: Callable[..., Any], relevant: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
    """As if nobody had overridden anything."""
    return function(*args, **kwargs)


def is_tensor_like(value: Any) -> bool:
    return isinstance(value, Tensor)


class TorchFunctionMode(nullcontext[None]):
    """A block in which a class would see every call of a function of torch; here it sees none."""


def get_default_nowrap_functions() -> set[Callable[..., Any]]:
    return set()
