"""`ex.compile` and `ex.eager`, as users call them: functions and modules to compile, statistics, and stepping aside.

What a compiled function does with a call stands in `compiled_function`; the package's own page has the whole way.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any, TypeVar, overload

from ..backends.selection import native
from ..core.cache import CACHES
from ..core.context import CONTEXT, switch
from ..core.types import DEFAULT_DTYPE_LISTENERS
from ..errors import DtypeError
from .compiled_function import EAGER, FUNCTIONS, CompiledFunction, entry_of
from .report import TOTALS, Stats
from .segment import PLANS

F = TypeVar("F", bound=Callable[..., Any])  # what is compiled keeps its type


class eager(switch):
    """Inside, `ex.compile` and `ex.batch` step aside: every op runs when its line does, for pdb and comparisons.

    A context manager and a decorator: `@ex.eager` keeps a function out of a compiled one that calls it.
    `EXTEMPO_EAGER=1` does the same for a whole process.

    >>> @ex.compile
    ... def double(x):
    ...     return x + x
    >>> with ex.eager():
    ...     double(ex.tensor(2.0))
    tensor(4.)
    """

    def __init__(self, fn: Callable[..., Any] | None = None) -> None:
        super().__init__(recording=None, stepped_aside=True)

    def __new__(cls, fn: Callable[..., Any] | None = None) -> Any:
        made = object.__new__(cls)
        if fn is None:
            return made
        eager.__init__(made)  # used as a decorator without parentheses
        return made(fn)

    def __enter__(self) -> Any:
        recording = CONTEXT.get().recording
        if recording is not None:
            recording.close("ex.eager() was entered")
        return super().__enter__()

    def again(self) -> switch:
        return eager()


class Compile:
    """Make a function or module run as plans: the same results, bit for bit, in less time.

    The Python body always runs, so loops, ifs, printing and changing lengths work as ever; ops are recorded and run
    together, at the end or when a value is asked for. What is recorded for the first time runs op by op; seen again, it
    runs as a plan: fused kernels, one piece of memory, one native call. A whole training step may be inside (forward,
    `loss.backward()`, clipping, `optimizer.step()`), or only the model: `ex.compile(model)` is a module with the same
    parameters and state, and a loss and `backward()` outside are planned, too. A function whose calls do not repeat, or
    that plans do not make faster, runs eagerly.

    `static=True` fixes the structure at the first call and does not run the body again; a call that does not fit is an
    error. PyTorch's `fullgraph`, `dynamic`, `backend`, `mode` and `options` are accepted and needless: there are no
    graph breaks, every size is dynamic, and there is nothing to tune. `disable=True` returns the function as it is.

    `print(ex.compile.stats())` says what was recorded and planned, and why not, `ex.compile.clear()` forgets it.
    `EXTEMPO_LOG=compile` tells as it happens, `EXTEMPO_LOG=plans` with the instructions of each plan. `ex.eager()` and
    `EXTEMPO_EAGER=1` switch compiling off.

    >>> @ex.compile
    ... def scale(x, factor):
    ...     return (x * factor).relu()
    >>> scale(ex.tensor([-1.0, 2.0]), 3)
    tensor([0., 6.])
    """

    __name__ = __qualname__ = "compile"

    @overload
    def __call__(
        self,
        model: None = None,
        *,
        fullgraph: bool = False,
        dynamic: bool | None = None,
        backend: Any = None,
        mode: str | None = None,
        options: Any = None,
        disable: bool = False,
        static: bool = False,
    ) -> Callable[[F], F]: ...
    @overload
    def __call__(
        self,
        model: F,
        *,
        fullgraph: bool = False,
        dynamic: bool | None = None,
        backend: Any = None,
        mode: str | None = None,
        options: Any = None,
        disable: bool = False,
        static: bool = False,
    ) -> F: ...
    def __call__(
        self,
        model: Any = None,
        *,
        fullgraph: bool = False,
        dynamic: bool | None = None,
        backend: Any = None,
        mode: str | None = None,
        options: Any = None,
        disable: bool = False,
        static: bool = False,
    ) -> Any:
        if model is None:
            return functools.partial(self, disable=disable, static=static)
        if not callable(model):
            raise DtypeError(f"compile: expected a function or a module, got {type(model).__name__}")
        if isinstance(model, type):
            raise DtypeError(
                f"compile: {model.__name__} is a class; make an object of it first, ex.compile({model.__name__}(...))"
            )
        if disable:
            return model
        from ..nn import Module

        if isinstance(model, Module):
            return _compiled_module(model, static)
        return functools.wraps(model)(_runner(model, getattr(model, "__qualname__", type(model).__name__), static))

    def stats(self) -> Stats:
        """What was recorded, planned and run, in all and for each function that still exists; `print` it for words."""
        known = sorted(FUNCTIONS, key=lambda f: f.name)
        gone = FUNCTIONS.gone()  # while those that are known cannot go
        functions = [f.stats() for f in known]
        backend = native()
        totals = {name: gone[name] + sum(f[name] for f in functions) for name in TOTALS}
        caches = {name: (len(c), c.limit, c.evicted) for name, c in list(CACHES.items())}
        caches["plans"] = (len(PLANS), PLANS.limit, PLANS.evicted)
        begun = sum(flush.plan is None for flush in PLANS)
        seconds = 0.0 if backend is None else backend.stats()["compile_seconds"]
        where = {"native": backend is not None, "switched_off": EAGER}
        counts = {"compile_seconds": seconds, "plans_begun": begun}
        return Stats(totals, **counts, **where, functions=functions, gone=gone, caches=caches)

    def clear(self) -> None:
        """Forget everything recorded and planned. Results do not depend on it."""
        for f in list(FUNCTIONS):
            f.forget()
        PLANS.clear()


compile = Compile()
DEFAULT_DTYPE_LISTENERS.append(compile.clear)


def _runner(fn: Callable[..., Any], name: str, static: bool) -> Callable[..., Any]:
    """A function of its own, so that it may get the name and the docstring of `fn`."""
    if static:
        from .static import make

        return make(fn, name)
    return entry_of(CompiledFunction(fn, name))


def _compiled_module(module: Any, static: bool) -> Any:
    """A module of the same class that shares everything with `module`, and whose calls are compiled."""
    original = type(module)
    run = _runner(functools.partial(original.__call__, module), original.__name__, static)

    class CompiledModule(original):  # type: ignore[valid-type, misc] # the class is known when it runs
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return run(*args, **kwargs)

        def __reduce_ex__(self, protocol: Any) -> Any:
            return _compiled_module, (module, static)

        def __deepcopy__(self, memo: dict[int, Any]) -> Any:
            return _compiled_module(copy.deepcopy(module, memo), static)

    CompiledModule.__name__, CompiledModule.__qualname__ = original.__name__, original.__qualname__
    CompiledModule.__module__, CompiledModule.__doc__ = original.__module__, original.__doc__
    made = object.__new__(CompiledModule)
    made.__dict__ = module.__dict__
    return made
