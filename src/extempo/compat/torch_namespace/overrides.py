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


class DisableTorchFunction(nullcontext[None]):
    """A block in which no class is asked: none is asked anywhere."""


DisableTorchFunctionSubclass = DisableTorchFunction


def enable_reentrant_dispatch() -> nullcontext[None]:
    """A block that changes nothing."""
    return nullcontext()


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    return any(value is func for name in dir(Tensor) if (value := getattr(Tensor, name, None)) is not None)


def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """None."""
    return {}


get_testing_overrides = get_overridable_functions


def get_ignored_functions() -> set[Callable[..., Any]]:
    """None is asked for, so none is left out."""
    return set()


def resolve_name(f: Callable[..., Any]) -> str | None:
    """The path of a function, as PyTorch spells it."""
    name = getattr(f, "__qualname__", None)
    return None if name is None else f"torch.{name}"


def wrap_torch_function(dispatcher: Callable[..., Any]) -> Callable[[Any], Any]:
    """A decorator that hands its function back."""
    return lambda function: function


class TorchFunctionMode(nullcontext[None]):
    """A block in which a class would see every call of a function of torch; here it sees none."""


def get_default_nowrap_functions() -> set[Callable[..., Any]]:
    return set()
