"""All objects of a class that live in this process, found without a line of Python for each object of others.

No other thread runs while the collector's list of all objects is there: it refers to what those threads are only
making, and CPython refuses to finish a tuple that somebody else refers to ("bad argument to internal function").
So the list is made, read and freed inside one call of C code each time.
"""

from __future__ import annotations

import collections
import gc
import itertools
import operator
from collections.abc import Iterator
from typing import Any


def live_objects(*kinds: type) -> list[Any]:
    """All objects of these classes that the garbage collector knows; it does not know those of `gc.freeze()`."""
    collects = gc.isenabled()
    gc.disable()  # a collection calls Python, where threads change
    try:
        wanted = {kind for kind in set(map(type, _all_objects())) if issubclass(kind, kinds)}
        return _objects_of(wanted)
    finally:
        if collects:
            gc.enable()


def is_frozen(x: object) -> bool:
    """Whether the garbage collector knows an object no more, since it was there before `gc.freeze()`."""
    return bool(gc.get_freeze_count()) and gc.is_tracked(x) and not operator.countOf(map(id, _all_objects()), id(x))


def _objects_of(kinds: set[type]) -> list[Any]:
    objects: list[Any] = []
    found: list[Any] = []
    chosen = itertools.compress(objects, map(kinds.__contains__, map(type, objects)))
    steps = (
        map(objects.extend, map(gc.get_objects, (None,))),
        map(found.extend, (chosen,)),
        map(list.clear, (objects,)),
    )
    collections.deque(itertools.chain(*steps), maxlen=0)  # takes the steps one after the other, as one call
    return found


def _all_objects() -> Iterator[Any]:
    """All objects that the collector knows, listed when the first is asked for and let go with the last.

    Read to its end, always: the list has this iterator in it, too, so one that is left keeps all that it lists.
    """
    return itertools.chain.from_iterable(map(gc.get_objects, (None,)))
