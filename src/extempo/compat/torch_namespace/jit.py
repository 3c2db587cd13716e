"""`torch.jit`: decorators hand the function back, since Extempo runs Python as it is; `trace` makes a program.

A traced function or module is one that runs its program: with PyTorch's sizes of the example, and with the branches and
loops of its Python, which PyTorch would freeze. `save` and `load` keep the program in a file. A scripted module stays
what it is; the program that `save` writes is made from the call that it had last, with every size open that can be.
"""

from __future__ import annotations

import functools
from builtins import isinstance as builtins_isinstance
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any, Dict, Final, List, Optional, Tuple, TypeVar, Union  # noqa: F401, UP035 - of jit.annotations

from ...core.absent_names import refused
from ...core.interrupts import block
from ...core.weak import WeakTable
from ...errors import ExportError, UnsupportedError
from ...nn.module import Module

__all__ = [
    "Final", "annotate", "export", "ignore", "is_scripting", "is_tracing", "load", "save", "script", "trace", "unused"
]  # fmt: skip

_F = TypeVar("_F")
_REASON = "Extempo runs your Python as it is; torch.jit.trace(model, example) makes a program of a model"


_last_calls: WeakTable[Module, Any] = WeakTable()  # of scripted modules: arguments, or None before one


def script(obj: _F, *args: Any, **kwargs: Any) -> _F:
    """The function, class or module itself; a module gets a `save`, and its last call is remembered for that."""
    if builtins_isinstance(obj, Module) and obj not in _last_calls:
        _last_calls[obj] = None
        obj.register_forward_pre_hook(_remember_call, with_kwargs=True)
        vars(obj).setdefault("save", functools.partial(save, obj))
    return obj


def _remember_call(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    _last_calls[module] = args, kwargs


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
    """The program of a function or module as a module, from one call: a tensor, or a tuple of arguments.

    As in PyTorch, it takes other sizes than the example's where the code does.
    """
    from ...exporting.module import ProgramModule

    inputs = () if example_inputs is None else example_inputs
    inputs = tuple(inputs) if builtins_isinstance(inputs, tuple | list) else (inputs,)
    training = builtins_isinstance(func, Module) and func.training
    made = _open_program(func, inputs, example_kwarg_inputs or {}, training)
    return ProgramModule(made).train(training)


def trace_module(mod: Any, inputs: dict[str, Any], *args: Any, **options: Any) -> Any:
    """`trace` of a module's forward, by name; other methods have no program in the same module."""
    if list(inputs) != ["forward"]:
        raise UnsupportedError(
            f"torch.jit.trace_module: a program is of one function, got {', '.join(inputs)}; trace each method by "
            "itself, torch.jit.trace(model.method, example)"
        )
    return trace(mod, inputs["forward"], **options)


def save(m: Any, f: Any, _extra_files: Any = None, **options: Any) -> None:
    """Write what `trace` made, or the program of a scripted module, to a file, with weights as they are now."""
    from ...exporting.module import ProgramModule

    if _extra_files:
        raise UnsupportedError("torch.jit.save: files of programs hold no extra files; write them beside it")
    if builtins_isinstance(m, ProgramModule):
        m.program().save(f)
        return
    call = _last_calls.get(m) if builtins_isinstance(m, Module) else None
    if call is None:
        raise UnsupportedError(
            f"torch.jit.save: a {type(m).__name__} runs as Python, and no call tells what it takes; call it once after "
            "torch.jit.script, or make a program from an example: torch.jit.save(torch.jit.trace(model, example), file)"
        )
    args, kwargs = call
    _open_program(m, args, kwargs, m.training).save(f)


def _open_program(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], training: bool) -> Any:
    """The program of a call, with all sizes open; with the first of each tensor only, or none, where that cannot be."""
    from ...exporting.building import program
    from ...exporting.calls import Dim, bound_call, nest

    call = bound_call(model, args, kwargs)
    found: list[tuple[str, Any]] = []
    for name, value in call.items():
        nest(value, name, found, "the argument")
    every = {name: {d: Dim(f"size_{n}") for d, n in enumerate(t.shape)} for name, t in found if t.ndim}
    for dynamic in (every, {name: {0: dims[0]} for name, dims in every.items()}):
        try:
            return program(model, call, dynamic=dynamic, training=training)
        except ExportError:
            continue
    return program(model, call, training=training)


def load(f: Any, *args: Any, **options: Any) -> Module:
    """The module of a program in a file."""
    from ...exporting.files import load_program

    return load_program(f).module().eval()


class _Scripted(type):
    """Traced and scripted modules count as instances."""

    def __instancecheck__(cls, instance: Any) -> bool:
        from ...exporting.module import ProgramModule

        if type.__instancecheck__(cls, instance) or builtins_isinstance(instance, ProgramModule):
            return True
        return builtins_isinstance(instance, Module) and instance in _last_calls


class ScriptModule(Module, metaclass=_Scripted):
    """A module that is written for TorchScript: it runs as Python."""

    def __init__(self) -> None:
        super().__init__()
        script(self)


RecursiveScriptModule = TracedModule = TopLevelTracedModule = ScriptModule
script_method = export


class TracerWarning(Warning):
    """What PyTorch warns of where tracing freezes a value; programs refuse that."""


@block
def optimized_execution(should_optimize: bool = True) -> Iterator[None]:
    """A block that has no effect."""
    yield


@block
def fuser(name: str) -> Iterator[None]:
    """A block that has no effect."""
    yield


ScriptFunction = refused("torch.jit.ScriptFunction", _REASON)
