"""Which traces run now, and which outlive their function; and who must run before memory changes or is handed out.

A trace reads memory when it runs, not when its op was called. So whoever is about to write to memory, or to hand it to
somebody who may, makes the traces that read it run first.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from . import costs, locks


class _Active(threading.local):
    def __init__(self) -> None:
        self.recordings: list[Any] = []


# Recordings of compiled functions that run now in this thread, and those whose tape is still needed after their
# function returned. (A thread that writes what another one reads at the same time is on its own, as ever.)
ACTIVE = _Active()
ESCAPED: set[weakref.ref[Any]] = set()
worked_on = 0  # the id of the one that was changed last, by who had the lock


def _forget_changed() -> None:
    """The tape that another thread was changing when the process was forked is as it was then, and of no use."""
    ESCAPED.difference_update([left for left in ESCAPED if id(left()) == worked_on])


escaped_lock = locks.renewed(_forget_changed)  # any thread may come across one that was left


def note_escaped(recording: Any) -> None:
    """The function returned, and what it recorded is still needed."""
    recording.is_left = True
    ESCAPED.add(weakref.ref(recording, ESCAPED.discard))  # no Python: an interrupt would be lost in a callback


def end_active(recording: Any) -> None:
    """It runs no more in this thread, if that has not been said yet."""
    recordings = ACTIVE.recordings
    if recordings and recordings[-1] is recording:
        recordings.pop()
    elif recording in recordings:
        recordings.remove(recording)


def before_write(storages: Iterable[Any] | None = None) -> None:
    """Memory is about to be written: whoever has recorded reading it reads it now. None: any memory."""
    if ACTIVE.recordings or ESCAPED:
        _tell_all(_run_before, storages)


def before_sharing(storage: Any) -> None:
    """Memory is about to be handed out, and may be written by whoever gets it: what is to be read of it is read now."""
    if ACTIVE.recordings or ESCAPED:
        _tell_all(_run_if_it_looks_at, storage)


def _tell_all(tell: Callable[[Any, Any], None], what: Any) -> None:
    for recording in list(ACTIVE.recordings):
        tell(recording, what)
    if ESCAPED:
        with escaped_lock:
            for left in list(ESCAPED):
                if (recording := left()) is not None:
                    tell(recording, what)


def _run_if_it_looks_at(recording: Any, storage: Any) -> None:
    if recording.looks_at(storage):
        recording.flush()


def _run_before(recording: Any, storages: Iterable[Any] | None) -> None:
    if not recording.leaves and not recording.makers:
        return
    recording.counters.python_seconds += costs.WRITE
    recording.flush()
    recording.forget_leaves(storages)
    if recording.makers and (storages is None or any(map(recording.reads_memory, storages))):
        recording.close("memory that it reads was written to")
