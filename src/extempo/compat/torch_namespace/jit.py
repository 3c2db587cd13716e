"""`torch.jit`: the decorators hand the function back, since Extempo runs Python as it is. Tracing is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Dict, Final, List, Optional, Tuple, TypeVar, Union  # noqa: F401, UP035 - of jit.annotations

from ...core.absent_names import refused
from ...nn.module import Module

__all__ = ["Final", "annotate", "export", "ignore", "is_scripting", "is_tracing", "script", "trace", "unused"]

_F = TypeVar("_F")
_REASON = "Extempo runs your Python as it is and makes no program of it; call the function or module itself"


def script(obj: _F, *args: Any, **kwargs: Any) -> _F:
    """The function, class or module itself."""
    return obj


def export(fn: _F) -> _F:
    """The function itself."""
    return fn


unused = script_if_tracing = _script_if_tracing = _overload = _overload_method = interface = _copy_to_script_wrapper = (
    export
)


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """The function itself, as `@ignore` or `@ignore(drop=True)`."""
    return drop if callable(drop) else export


def annotate(the_type: Any, the_value: _F) -> _F:
    """The value."""
    return the_value


class _BroadcastingList:
    """In annotations, `BroadcastingList2[int]`: one value or a list of so many."""

    def __class_getitem__(cls, item: Any) -> Any:
        return item | list[item]


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = BroadcastingList4 = _BroadcastingList


def Attribute(value: _F, type: Any) -> _F:
    """A value of a module with its type: the value."""
    return value


class _Enabled:
    """`torch.jit._state._enabled`: whether TorchScript is switched on; it is never."""

    enabled = False

    def __bool__(self) -> bool:
        return False


_enabled = _Enabled()


def is_scripting() -> bool:
    return False


is_tracing = is_scripting


def isinstance(obj: Any, target: Any) -> bool:
    """Python's own."""
    import builtins

    return builtins.isinstance(obj, target)


def freeze(module: Module, *args: Any, **kwargs: Any) -> Module:
    """The module itself."""
    return module


def optimize_for_inference(module: Module, *args: Any, **kwargs: Any) -> Module:
    """The module itself."""
    return module


def fork(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The result: it is computed at once."""
    return function(*args, **kwargs)


def wait(future: _F) -> _F:
    """What `fork` gave."""
    return future


trace, trace_module, load, save = (
    refused(f"torch.jit.{name}", _REASON) for name in ("trace", "trace_module", "load", "save")
)
ScriptModule, ScriptFunction, TracerWarning = (
    refused(f"torch.jit.{name}", _REASON) for name in ("ScriptModule", "ScriptFunction", "TracerWarning")
)
