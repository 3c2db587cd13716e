"""Tables of objects that they do not keep alive. When an object goes no Python runs.

What Python code a collection calls (`__del__`, callbacks of weak references, so also those of the standard library's
weak dictionaries) Ctrl-C may interrupt, and CPython prints and forgets an exception there: a loop in which objects come
and go could not be stopped reliably. So there is none of that in Extempo; a callback here is `dict.pop`, written in C.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Generic, TypeVar
from weakref import ref

K = TypeVar("K")
V = TypeVar("V")


def forgetting(x: K, table: dict[Any, Any], key: Any = None) -> ref[K]:
    """A weak reference to `x`; with `x` goes what a table has for its id, or for a key."""
    return ref(x, partial(table.pop, id(x) if key is None else key))  # pop(key, reference): no error where nothing is


class WeakTable(Generic[K, V]):
    """Values of objects, which are known by identity, in the order in which these came."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[int, tuple[ref[K], V]] = {}

    def __setitem__(self, x: K, value: V) -> None:
        self._entries[id(x)] = (forgetting(x, self._entries), value)

    def setdefault(self, x: K, default: V) -> V:
        return self._entries.setdefault(id(x), (forgetting(x, self._entries), default))[1]

    def get(self, x: K) -> V | None:
        """What there is for an object; None if there is nothing."""
        found = self._entries.get(id(x))
        return None if found is None else found[1]

    def pop(self, x: K) -> V:
        return self._entries.pop(id(x))[1]

    def discard(self, x: K) -> None:
        self._entries.pop(id(x), None)

    def __contains__(self, x: object) -> bool:
        return id(x) in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def items(self) -> list[tuple[K, V]]:
        """Those that are there now."""
        found = [(known(), value) for known, value in list(self._entries.values())]
        return [(x, value) for x, value in found if x is not None]

    def __iter__(self) -> Iterator[K]:
        return iter([x for x, _ in self.items()])

    def clear(self) -> None:
        self._entries.clear()


class WeakMembers(WeakTable[K, None]):
    """Objects, known by identity, in the order in which they came."""

    __slots__ = ()

    def add(self, x: K) -> None:
        self[x] = None
