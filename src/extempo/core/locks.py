"""Every lock of Extempo: a child that is forked finds it free, whichever thread had it.

The threads of a process are not in its forked children, so what one of them had locked there would stay locked for
ever. A lock is of one of two kinds:

    renewed()   new in the child. What it guards is as the other thread left it, perhaps in the middle of a change, so
                whoever has such a lock sees to it that this does no harm, or mends it.
    awaited()   a fork waits until it has it, so what it guards is whole in the child. For changes that cannot be
                mended, made by code that waits for nothing but locks of this kind.

Both can be taken again by the thread that has them, which may be the one that forks, and has them in the child, too.

A module that is being imported is locked by Python, and not renewed. Most of Extempo is imported when it is first used,
so a fork also waits until no other thread is about to.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable
from importlib import _bootstrap  # where Python keeps the locks of modules
from typing import Any, Generic, TypeVar, overload

Lock = Any  # threading.RLock, which is a function for type checkers


class _Renewed(weakref.ref[Any]):
    """A lock that is renewed, and what mends what it guards."""

    __slots__ = ("mend",)

    mend: Callable[[], None] | None


# Weak, and without Python code for what is gone: an interrupt would be lost in it.
_RENEWED: set[_Renewed] = set()
_AWAITED: set[weakref.ref[Any]] = set()


def renewed(mend: Callable[[], None] | None = None) -> Lock:
    """A lock that is new in a forked child; `mend` is called there if another thread had it."""
    lock: Lock = threading.RLock()
    known = _Renewed(lock, _RENEWED.discard)
    known.mend = mend
    _RENEWED.add(known)
    return lock


def awaited() -> Lock:
    """A lock that forks wait for."""
    lock: Lock = threading.RLock()
    _AWAITED.add(weakref.ref(lock, _AWAITED.discard))
    return lock


def awaited_condition() -> threading.Condition:
    """A condition with a lock that forks wait for."""
    return threading.Condition(awaited())


_PACKAGE = __name__.partition(".")[0]
_LONGEST_IMPORT = 20.0  # seconds: one that takes longer waits for something, which may be the thread that forks


class _Fork(threading.local):
    """What the thread has taken that is forking."""

    def __init__(self) -> None:
        self.taken: list[Lock] = []


_fork = _Fork()


def _before() -> None:
    """Take all locks that are awaited, at a moment at which no other thread imports."""
    give_up_at = time.monotonic() + _LONGEST_IMPORT
    while True:
        taken = _taken_together()
        if not _others_import() or time.monotonic() > give_up_at:
            _fork.taken = taken
            return
        _release(taken)  # what is imported may need them
        time.sleep(0.001)


def _taken_together() -> list[Lock]:
    """Who has one may wait for another, so none is kept while one is waited for."""
    locks = [lock for known in list(_AWAITED) if (lock := known()) is not None]
    taken: list[Lock] = []
    while len(taken) < len(locks):
        lock = locks[len(taken)]
        if lock.acquire(blocking=not taken):
            taken.append(lock)
        else:
            _release(taken)
            locks.remove(lock)
            locks.insert(0, lock)
    return taken


def _others_import() -> bool:
    """Whether another thread imports a module of Extempo, and does not wait for one that this thread imports."""
    owners = {}
    for name, known in list(getattr(_bootstrap, "_module_locks", {}).items()):
        if (lock := known()) is not None and getattr(lock, "owner", None) is not None:
            owners[name] = lock.owner
    own = threading.get_ident()
    if own in owners.values():
        return False
    return any(name.partition(".")[0] == _PACKAGE for name in owners)


def _release(taken: list[Lock]) -> None:
    while taken:
        taken.pop().release()


def _in_parent() -> None:
    _release(_fork.taken)


def _in_child() -> None:
    _release(_fork.taken)
    for known in list(_RENEWED):
        lock = known()
        if lock is None:
            continue
        if lock.acquire(blocking=False):  # nobody had it, or the thread that forked
            lock.release()
            continue
        lock._at_fork_reinit()
        if known.mend is not None:
            known.mend()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)


T = TypeVar("T")


class cached_property(Generic[T]):
    """An attribute that is computed when it is first asked for.

    Unlike that of functools, which has a lock before Python 3.12, two threads that ask at once both compute it.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, owner: None, kind: type) -> cached_property[T]: ...

    @overload
    def __get__(self, owner: object, kind: type) -> T: ...

    def __get__(self, owner: object | None, kind: type) -> cached_property[T] | T:
        if owner is None:
            return self
        found = owner.__dict__[self._name] = self._compute(owner)
        return found
