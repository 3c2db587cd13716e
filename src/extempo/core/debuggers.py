"""Whether somebody is looking: a debugger that follows this thread, a `breakpoint()` in a function, a print.

What runs samples together, or repeats a call without its body, asks here, and runs the code as it is written instead: a
breakpoint must stop, in one sample while the others wait, and a value that is looked at is there at once.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from .interrupts import block
from .weak import WeakTable

_NAMES = ("breakpoint", "set_trace")  # functions that stop in a debugger
_PACKAGES = ("pydevd", "_pydevd_bundle", "_pydevd_frame_eval", "debugpy")  # debuggers that are none of the bdb module
_OTHERS = ("extempo", "numpy")  # packages in which nobody leaves one, beside the standard library
_MOST_FUNCTIONS = 2_000  # that are looked through for one

_MONITORING: Any = getattr(sys, "monitoring", None)  # since Python 3.12: debuggers may have no trace function
_n_looking = 0  # prints that are under way, in all threads
_calls: WeakTable[Any, bool] = WeakTable()


def is_looked_at() -> bool:
    """Whether a debugger follows this thread, or greenlet, or a tensor is being printed; coverage does not count."""
    return _n_looking > 0 or is_debugged()


def is_debugged() -> bool:
    """Whether a debugger follows this thread, or greenlet."""
    trace = sys.gettrace()
    if trace is None:
        return _MONITORING is not None and _MONITORING.get_tool(_MONITORING.DEBUGGER_ID) is not None
    owner = type(getattr(trace, "__self__", trace))
    if any(base.__module__ == "bdb" for base in owner.__mro__):
        return True
    return str(getattr(trace, "__module__", owner.__module__)).partition(".")[0] in _PACKAGES


@block
def looking() -> Iterator[None]:
    """A tensor is being printed: its value is wanted now, not when other samples need theirs."""
    global _n_looking
    _n_looking += 1
    try:
        yield
    finally:
        _n_looking -= 1


def has_breakpoint(fn: Any) -> bool:
    """Whether `breakpoint()` or `set_trace()` stands in a function, module or callable object, or in what it calls.

    Looked for once, by names: in its code, in functions and methods of the user's that the code mentions, and in the
    modules below. What cannot be found so (a function out of a table) stops all the same, if its code runs.
    """
    function = fn.__func__ if type(fn) is MethodType else fn
    key = function.__code__ if type(function) is FunctionType else function
    known = _calls.get(key)
    if known is None:
        known = _search(fn)
        with contextlib.suppress(TypeError):  # what cannot be referred to weakly is looked through again
            _calls[key] = known
    return known


def _search(start: Any) -> bool:
    waiting = [start]
    seen: set[int] = set()
    while waiting and len(seen) < _MOST_FUNCTIONS:
        found = waiting.pop()
        if id(found) in seen:
            continue
        seen.add(id(found))
        if isinstance(found, functools.partial):
            waiting += [found.func, *filter(_may_call, found.args)]
        elif isinstance(found, MethodType):
            waiting += [found.__func__, found.__self__]
        elif isinstance(found, FunctionType):
            if not _is_of_user(found.__module__):
                continue
            code_names = set(_names(found.__code__))
            if not code_names.isdisjoint(_NAMES):
                return True
            waiting += _mentioned(found, code_names)
        else:
            waiting += _methods(found)
    return False


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _mentioned(fn: FunctionType, names: set[str]) -> Iterator[Any]:
    """Functions, modules and objects that a function's code names."""
    for name in names:
        value = fn.__globals__.get(name)
        if isinstance(value, ModuleType):
            if _is_of_user(value.__name__):
                yield from (f for f in (vars(value).get(n) for n in names) if isinstance(f, FunctionType))
        elif _may_call(value):
            yield value
    for cell in fn.__closure__ or ():
        try:
            value = cell.cell_contents
        except ValueError:  # it is empty
            continue
        if _may_call(value):
            yield value


def _methods(found: Any) -> Iterator[Any]:
    """The methods of an object's class, and the modules below it."""
    kind = found if isinstance(found, type) else type(found)
    for base in kind.__mro__:
        if _is_of_user(base.__module__):
            yield from (f for f in vars(base).values() if isinstance(f, FunctionType))
    if isinstance(found, type):
        return
    own = _attributes(found)
    yield from filter(_may_call, own.values())
    yield from filter(_may_call, own.get("_modules", {}).values())


def _attributes(found: Any) -> dict[str, Any]:
    """Of an object itself, without a question that its class could answer or note."""
    try:
        own: dict[str, Any] = object.__getattribute__(found, "__dict__")
    except AttributeError:
        return {}
    return own


def _may_call(value: Any) -> bool:
    """Whether the code of a value is looked at: that of functions and modules."""
    return issubclass(type(value), FunctionType | MethodType | functools.partial) or hasattr(type(value), "forward")


def _is_of_user(name: str | None) -> bool:
    package = (name or "").partition(".")[0]
    return package not in _OTHERS and package not in sys.stdlib_module_names
