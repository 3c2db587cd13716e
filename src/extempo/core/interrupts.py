"""What a block changes is put back at its end, also if Ctrl-C comes at that very moment.

CPython looks for signals when it enters a function, when it jumps back in a loop and after it has called one written
in C; nowhere else. So `__exit__` may be interrupted before its first line, where no `try` of its own helps, and what it
was to put back would stay. `guarded` closes that gap. Elsewhere it is a matter of order: nothing can come in between
plain assignments, and a single call of a C function that follows `finally:` or `except:` is certain to run.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Generator, Iterator
from contextvars import ContextVar, copy_context
from types import TracebackType
from typing import Any, Generic, ParamSpec, Self, TypeVar, cast

T = TypeVar("T")
P = ParamSpec("P")
F = TypeVar("F", bound=Callable[..., Any])

_FIRST = 0x80  # in CPython's table of exceptions: of the first byte of an entry
_MORE, _BITS = 0x40, 6  # a number in it: six bits a byte, the highest first
_BEFORE_A_STATEMENT = 4  # instructions of a function, at most: for variables of closures, and RESUME


def guarded(fn: F) -> F:
    """A function that begins with `try`, which from now on also covers an interrupt on entering the function.

    There must be something to try: CPython leaves an empty one out.
    """
    table = fn.__code__.co_exceptiontable
    start, at = _number(table, 0)
    size, at = _number(table, at)
    assert start <= _BEFORE_A_STATEMENT, f"{fn.__qualname__} must begin with try"
    from_entry = bytes([_FIRST]) + _written(start + size) + table[at:]
    fn.__code__ = fn.__code__.replace(co_exceptiontable=from_entry)
    return fn


def _number(table: bytes, at: int) -> tuple[int, int]:
    """A number of the table, and where the next one begins."""
    number = 0
    while True:
        number = number << _BITS | table[at] & (_MORE - 1)
        at += 1
        if not table[at - 1] & _MORE:
            return number, at


def _written(number: int) -> bytes:
    groups = [number & (_MORE - 1)]
    while number := number >> _BITS:
        groups.append(number & (_MORE - 1) | _MORE)
    return bytes(reversed(groups))


@guarded
def certainly(put_back: Callable[..., Any], *args: Any) -> None:
    """Call it; if something is raised on the way, such as an interrupt, once more before that goes on."""
    try:
        put_back(*args)
    except BaseException:
        put_back(*args)
        raise


class _Block(contextlib._GeneratorContextManager[T, None, None]):
    """A context manager by a generator, whose `finally` runs before an interrupt goes on."""

    def __enter__(self) -> T:
        try:
            return super().__enter__()
        except BaseException:
            self.gen.close()
            raise

    @guarded
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        try:
            return super().__exit__(kind, error, trace)
        except BaseException:
            self.gen.close()
            raise


def block(fn: Callable[P, Iterator[T]]) -> Callable[P, _Block[T]]:
    """`contextlib.contextmanager`, with a `finally` that an interrupt cannot skip."""

    @functools.wraps(fn)
    def made(*args: P.args, **kwargs: P.kwargs) -> _Block[T]:
        return _Block(cast(Callable[..., Generator[T, None, None]], fn), args, kwargs)

    return made


class Undone:
    """A context manager that does something and undoes it, whatever interrupts it. Undoing may come twice."""

    def _begin(self) -> None:
        """What is done where the block is entered."""

    def _end(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        try:
            self._begin()
            return self
        except BaseException:  # the block is never entered, and so never left
            self._end()
            raise

    @guarded
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._end()
        except BaseException:
            self._end()
            raise


class Scope(Generic[T]):
    """A context manager: inside, a context variable has another value. It may be entered again while it is."""

    _variable: ContextVar[T]
    _outer: tuple[Any, ...] = ()  # the values to go back to: (the last, the same of those before)

    def _inner(self, before: T) -> T:
        """The value inside."""
        raise NotImplementedError

    def __enter__(self) -> Any:
        before = self._variable.get()
        inner = self._inner(before)
        # A copy of the context holds what it was until that is done: setting a variable may make the garbage collector
        # run, and CPython would use freed memory if a finalizer then set one, too.
        held = copy_context()
        self._outer = (before, self._outer)
        try:
            self._variable.set(inner)
            return self
        except BaseException:  # the block is never entered, and so never left
            _, self._outer = self._outer
            self._variable.set(before)
            raise
        finally:
            del held

    @guarded
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            held = copy_context()
        finally:
            before, self._outer = self._outer
            self._variable.set(before)
        del held
