"""Telling an interceptor what is no op: reading values, drawing numbers, setting attributes.

These go through a handful of methods. While a `Watch` is on they stand in wrappers, which ask the mode whether the
interceptor is theirs; at any other time nothing of this is there, and costs nothing. Watches of several threads may
overlap in any order: everything is put back when the last one ends.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

from .interrupts import certainly, guarded
from .modes import MODE

Replaced = tuple[Any, str, Any]  # an attribute: whose, its name, what stands there

_lock = threading.RLock()
_originals: list[Replaced] = []
_installed: set[Watch] = set()
_n_on = 0


def told(interceptor: type, tell: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Wrappers that call `tell(interceptor, method, *args)` where ops are shown to an interceptor of that class."""

    def wrapping(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            listener = MODE.get().interceptor
            if type(listener) is not interceptor:
                return method(*args, **kwargs)
            return tell(listener, method, *args, **kwargs)

        return wrapped

    return wrapping


class Watch:
    """A context manager; inside, attributes stand as `replacements()` says."""

    def __init__(self, replacements: Callable[[], Iterable[Replaced]]) -> None:
        self._replacements = replacements

    def __enter__(self) -> None:
        global _n_on
        mine: list[Watch] = []
        try:
            with _lock:
                if self not in _installed:
                    for owner, name, made in self._replacements():
                        _originals.append((owner, name, vars(owner)[name]))
                        setattr(owner, name, made)
                    _installed.add(self)
                _n_on += 1
                mine = [self]
        except BaseException:  # the block is never entered, and so never left
            _put_back(mine)
            raise

    @guarded
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            mine = [self]
        except BaseException:  # an interrupt on entering
            _put_back([self])
            raise
        certainly(_put_back, mine)


def _put_back(ended: list[Watch]) -> None:
    """Everything as it was, if no watch is on; `ended` has one that is not yet known to have ended."""
    global _n_on
    with _lock:
        if ended:
            del ended[:]
            _n_on -= 1
        if not _n_on:
            while _originals:
                owner, name, original = _originals[-1]
                setattr(owner, name, original)
                del _originals[-1]
            _installed.clear()
