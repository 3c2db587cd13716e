"""Which traces run now, and which outlive their function; and who must run before memory changes or is handed out.

A trace reads memory when it runs, not when its op was called. So whoever is about to write to memory, or to hand it to
somebody who may, makes the traces that read it run first.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable
from typing import Any

from . import locks


class _Active(threading.local):
    def __init__(self) -> None:
        self.recordings: list[Any] = []


# Executors of compiled functions that run now in this thread, and those whose trace is still needed after their
# function returned. (A thread that writes what another one reads at the same time is on its own, as ever.)
ACTIVE = _Active()
ESCAPED: set[weakref.ref[Any]] = set()
worked_on = 0  # the id of the one that was changed last, by who had the lock


def _forget_changed() -> None:
    """The trace that another thread was changing when the process was forked is as it was then, and of no use."""
    ESCAPED.difference_update([escaped for escaped in ESCAPED if id(escaped()) == worked_on])


escaped_lock = locks.renewed(_forget_changed)  # any thread may come across one that has escaped


def note_escaped(executor: Any) -> None:
    """The function returned, and what it traced is still needed."""
    executor.is_left = True
    ESCAPED.add(weakref.ref(executor, ESCAPED.discard))  # no Python: an interrupt would be lost in a callback


def end_active(executor: Any) -> None:
    """It runs no more in this thread, if that has not been said yet."""
    recordings = ACTIVE.recordings
    if recordings and recordings[-1] is executor:
        recordings.pop()
    elif executor in recordings:
        recordings.remove(executor)


def before_write(storages: Iterable[Any] | None = None) -> None:
    """Memory is about to be written: whoever has traced reading it reads it now. None: any memory."""
    for executor in list(ACTIVE.recordings):
        executor.before_write(storages)
    if ESCAPED:
        for executor in _escaped():
            executor.before_write(storages)


def before_sharing(storage: Any) -> None:
    """Memory is about to be handed out, and may be written by whoever gets it: what is to be read of it is read now."""
    for executor in [*ACTIVE.recordings, *_escaped()]:
        executor.before_sharing(storage)


def _escaped() -> list[Any]:
    with escaped_lock:
        return [executor for reference in list(ESCAPED) if (executor := reference()) is not None]
