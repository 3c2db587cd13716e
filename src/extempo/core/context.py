"""Execution context: whether ops are tracked for backward, and who runs them (eager mode, a trace, an interceptor).

One immutable `ExecutionContext` for each thread, greenlet and task, by a `ContextVar`: a `no_grad()` in one sample or
thread never leaks into another. Entering a block replaces the object; nothing ever changes one.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator
from contextvars import ContextVar, copy_context
from typing import Any, Protocol, Self, TypeVar, cast

from .interrupts import Scope, guarded

F = TypeVar("F", bound=Callable[..., Any])


class Interceptor(Protocol):
    """Who runs ops when they do not simply run: a level of vmap, a sample of a batch, a tracer of graphs."""

    def apply(self, op: Any, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any: ...


class ExecutionContext:
    """grad: track for backward. inference: results are never tracked later. quiet: NumPy's warnings are off.

    `interceptor` is shown every op first; `recording` traces ops that would run now, so that they run later;
    `stepped_aside` keeps compiled functions from tracing.
    """

    __slots__ = ("grad", "inference", "interceptor", "quiet", "recording", "stepped_aside")

    def __init__(
        self,
        grad: bool,
        inference: bool,
        interceptor: Interceptor | None,
        quiet: bool,
        recording: Any = None,
        stepped_aside: bool = False,
    ) -> None:
        self.grad = grad
        self.inference = inference
        self.interceptor = interceptor
        self.quiet = quiet
        self.recording = recording
        self.stepped_aside = stepped_aside

    def but(self, **changes: Any) -> ExecutionContext:
        """This context with some fields changed."""
        made = ExecutionContext(
            self.grad, self.inference, self.interceptor, self.quiet, self.recording, self.stepped_aside
        )
        for name, value in changes.items():
            setattr(made, name, value)
        return made


CONTEXT: ContextVar[ExecutionContext] = ContextVar("extempo_mode", default=ExecutionContext(True, False, None, False))  # noqa: B039 - immutable


@guarded
def set_context(mode: ExecutionContext) -> None:
    """Make this the current context, also if an interrupt comes right now."""
    try:
        held = copy_context()  # see `Scope`
    finally:
        CONTEXT.set(mode)
    del held


def end_trace(mode: ExecutionContext) -> None:
    """An interceptor is about to come: it sees ops as they run, so nothing is traced meanwhile."""
    if mode.recording is not None:
        mode.recording.close("something looks at every op: vmap, checkpoint, saved_tensors_hooks, anomaly mode")


class Swap(Scope[ExecutionContext]):
    """Run a block in another context."""

    _variable = CONTEXT

    def __init__(self, mode: ExecutionContext) -> None:
        self._mode = mode

    def _inner(self, before: ExecutionContext) -> ExecutionContext:
        return self._mode


class switch(Scope[ExecutionContext]):
    """Run a block, or every call of a function, with some fields of the context changed."""

    _variable = CONTEXT

    def __init__(self, **changes: Any) -> None:
        self._changes = changes

    def _inner(self, before: ExecutionContext) -> ExecutionContext:
        return before.but(**self._changes)

    def again(self) -> switch:
        """A fresh block of the same kind, so that one decorator serves recursive and concurrent calls."""
        return switch(**self._changes)

    def __call__(self, fn: F) -> F:
        if inspect.isgeneratorfunction(fn):
            return cast(F, self._around_generator(fn))

        @functools.wraps(fn)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self.again():
                return fn(*args, **kwargs)

        return cast(F, wrapped)

    def _around_generator(self, fn: Callable[..., Generator[Any, Any, Any]]) -> Callable[..., Generator[Any, Any, Any]]:
        """The context holds while the generator runs, not while its consumer does."""

        @functools.wraps(fn)
        def wrapped(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            generator = fn(*args, **kwargs)
            resume: Callable[[], Any] = functools.partial(next, generator)
            try:
                while True:
                    with self.again():
                        item = resume()
                    try:
                        sent = yield item
                        resume = functools.partial(generator.send, sent)
                    except GeneratorExit:
                        raise
                    except BaseException as error:
                        resume = functools.partial(generator.throw, error)
            except StopIteration as stop:
                return stop.value
            finally:
                generator.close()

        return wrapped


class no_grad(switch):
    """Ops inside are not recorded for backward. A context manager and a decorator.

    >>> x = ex.tensor(2.0, requires_grad=True)
    >>> with ex.no_grad():
    ...     y = x * x
    >>> y.requires_grad
    False
    """

    def __init__(self, fn: F | None = None) -> None:
        super().__init__(grad=False)

    def __new__(cls, fn: F | None = None) -> Any:
        return object.__new__(cls) if fn is None else switch(grad=False)(fn)


class enable_grad(switch):
    """Ops inside are recorded again, also within `no_grad`.

    >>> x = ex.tensor(2.0, requires_grad=True)
    >>> with ex.no_grad(), ex.enable_grad():
    ...     y = x * x
    >>> y.requires_grad
    True
    """

    def __init__(self, fn: F | None = None) -> None:
        super().__init__(grad=True)

    def __new__(cls, fn: F | None = None) -> Any:
        return object.__new__(cls) if fn is None else switch(grad=True)(fn)


class inference_mode(switch):
    """Like `no_grad`; results remember it (`is_inference()`). Used later, they are constants, not errors as in PyTorch.

    >>> x = ex.tensor(2.0, requires_grad=True)
    >>> with ex.inference_mode():
    ...     y = x * x
    >>> y.requires_grad, y.is_inference()
    (False, True)
    """

    def __init__(self, mode: bool | Callable[..., Any] = True) -> None:
        super().__init__(**self._fields(mode))

    @staticmethod
    def _fields(mode: Any) -> dict[str, Any]:
        return {"grad": not mode, "inference": bool(mode)}

    def __new__(cls, mode: bool | Callable[..., Any] = True) -> Any:
        return switch(**cls._fields(True))(mode) if callable(mode) else object.__new__(cls)


class _Switched(switch):
    """The block or decorator that a call of `set_grad_enabled` may become; the mode holds already."""

    @guarded
    def __enter__(self) -> Self:
        try:
            return self
        except BaseException:  # the block is never entered, and so never left
            self.__exit__(None, None, None)
            raise

    def __call__(self, fn: F) -> F:
        self.__exit__(None, None, None)  # the mode is for the calls, not for the lines after the decorator
        return super().__call__(fn)


# A function and no class: after a call of a class CPython looks for signals, and the block would not be entered yet.
def set_grad_enabled(mode: bool) -> _Switched:
    """Record ops or not, from here on; as a context manager, until the block ends.

    >>> x = ex.tensor(2.0, requires_grad=True)
    >>> training = False
    >>> with ex.set_grad_enabled(training):
    ...     (x * x).requires_grad
    False
    """
    made = _Switched(grad=bool(mode))
    switch.__enter__(made)
    return made


def is_grad_enabled() -> bool:
    """Whether ops are recorded for backward here.

    >>> with ex.no_grad():
    ...     ex.is_grad_enabled()
    False
    """
    return CONTEXT.get().grad


def is_inference_mode_enabled() -> bool:
    """Whether `inference_mode` holds here.

    >>> with ex.inference_mode():
    ...     ex.is_inference_mode_enabled()
    True
    """
    return CONTEXT.get().inference
