"""Hooks for effects that are no ops: reading values, drawing random numbers, setting attributes.

These go through a handful of methods, which are patched while `EffectHooks` are active and put back when the last one
ends, so that nothing is paid for them at any other time. A patched method asks the context whether the interceptor is
one that wants to know. Hooks of several threads may overlap in any order. (For what native code replaces see
`backends.entry_points`.)
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

from . import locks
from .context import CONTEXT
from .interrupts import certainly, guarded

Replaced = tuple[Any, str, Any]  # an attribute: whose, its name, what stands there

_lock = locks.renewed()  # see _forget_other_threads
_originals: list[Replaced] = []
_installed: set[EffectHooks] = set()
_on: list[tuple[int, EffectHooks]] = []  # threads, and what they are inside of


def reports_to(interceptor: type, tell: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Wrappers that call `tell(interceptor, method, *args)` where ops are shown to an interceptor of that class."""

    def wrapping(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            listener = CONTEXT.get().interceptor
            if type(listener) is not interceptor:
                return method(*args, **kwargs)
            return tell(listener, method, *args, **kwargs)

        return wrapped

    return wrapping


class EffectHooks:
    """A context manager; inside, attributes stand as `replacements()` says."""

    def __init__(self, replacements: Callable[[], Iterable[Replaced]]) -> None:
        self._replacements = replacements

    def __enter__(self) -> None:
        entry = (threading.get_ident(), self)
        mine: list[tuple[int, EffectHooks]] = []
        try:
            with _lock:
                self._install()
                mine = [entry]  # first: an interrupt may come right after the call
                _on.append(entry)
        except BaseException:  # the block is never entered, and so never left
            _end(mine)
            raise

    def _install(self) -> None:
        if self not in _installed:
            for owner, name, made in self._replacements():
                _originals.append((owner, name, vars(owner)[name]))
                setattr(owner, name, made)
            _installed.add(self)

    @guarded
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            mine = [(threading.get_ident(), self)]
        except BaseException:  # an interrupt on entering
            _end([(threading.get_ident(), self)])
            raise
        certainly(_end, mine)


def _end(ended: list[tuple[int, EffectHooks]]) -> None:
    """Everything as it was, if no watch is on; `ended` has one that is not yet known to have ended."""
    with _lock:
        if ended:
            entry = ended[0]
            del ended[:]
            _on.remove(entry)
        if not _on:
            _put_back()


def _put_back() -> None:
    while _originals:
        owner, name, original = _originals[-1]
        setattr(owner, name, original)  # before it is forgotten: a fork or an interrupt may come in between
        del _originals[-1]
    _installed.clear()


def _forget_other_threads() -> None:
    """A forked child has one thread; others may have been inside of watches, or about to put them on or off."""
    _on[:] = [(thread, watch) for thread, watch in _on if thread == threading.get_ident()]
    _put_back()
    for _, watch in _on:
        watch._install()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_other_threads)
