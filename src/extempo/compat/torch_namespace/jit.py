"""`torch.jit`: decorators hand the function back, since Extempo runs Python as it is; `trace` makes a program.

A traced function or module is one that runs its program: with PyTorch's sizes of the example, and with the branches and
loops of its Python, which PyTorch would freeze. `save` and `load` keep the program in a file.
"""

from __future__ import annotations

from builtins import isinstance as builtins_isinstance
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Dict, Final, List, Optional, Tuple, TypeVar, Union  # noqa: F401, UP035 - of jit.annotations

from ...core.absent_names import refused
from ...errors import UnsupportedError
from ...nn.module import Module

__all__ = [
    "Final", "annotate", "export", "ignore", "is_scripting", "is_tracing", "load", "save", "script", "trace", "unused"
]  # fmt: skip

_F = TypeVar("_F")
_REASON = "Extempo runs your Python as it is; torch.jit.trace(model, example) makes a program of a model"


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
    return builtins_isinstance(obj, target)


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


class Error(RuntimeError):
    """Raised by TorchScript only, which is not here."""


class strict_fusion(nullcontext[None]):  # PyTorch's name
    """A block in which TorchScript would have to fuse everything."""


def enable_onednn_fusion(enabled: bool) -> None:
    """There is none to switch on."""


def onednn_fusion_enabled() -> bool:
    return False


def set_fusion_strategy(strategy: Any) -> list[Any]:
    """There is none; the one before, an empty list."""
    return []


def trace(func: Any, example_inputs: Any = None, *args: Any, example_kwarg_inputs: Any = None, **options: Any) -> Any:
    """The program of a function or module as a module, from one call: a tensor, or a tuple of arguments."""
    from ...exporting.building import program
    from ...exporting.calls import bound_call
    from ...exporting.module import ProgramModule

    inputs = () if example_inputs is None else example_inputs
    inputs = tuple(inputs) if builtins_isinstance(inputs, tuple | list) else (inputs,)
    training = builtins_isinstance(func, Module) and func.training
    made = program(func, bound_call(func, inputs, example_kwarg_inputs or {}), training=training)
    return ProgramModule(made).train(training)


def save(m: Any, f: Any, **options: Any) -> None:
    """Write what `trace` made to a file, with its weights as they are now."""
    from ...exporting.module import ProgramModule

    if not builtins_isinstance(m, ProgramModule):
        raise UnsupportedError(
            f"torch.jit.save: a {type(m).__name__} that was scripted runs as Python and has no program; make one from "
            "an example first: torch.jit.save(torch.jit.trace(model, example), file)"
        )
    m.program().save(f)


def load(f: Any, *args: Any, **options: Any) -> Module:
    """The module of a program in a file."""
    from ...exporting.files import load_program

    return load_program(f).module().eval()


trace_module = refused("torch.jit.trace_module", _REASON)
ScriptModule, ScriptFunction, TracerWarning = (
    refused(f"torch.jit.{name}", _REASON) for name in ("ScriptModule", "ScriptFunction", "TracerWarning")
)
