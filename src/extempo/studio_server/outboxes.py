"""What each page has still to get, bounded: a page that is slow misses pictures and steps, and nobody waits for it.

The training thread puts messages in, a task of the server takes them out twenty times a second. Of what shows the
present (a picture, the state) only the newest counts; answers and epochs are kept in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from ..core import locks
from .messages import to_json

MOST_STEPS = 600  # records that wait for one page; of more the oldest are left out, and counted
MOST_WAITING = 400  # other messages
EVENTS = frozenset(("epoch", "mark", "run"))  # short epochs may come by the thousand: they must not displace answers
NEWEST_ONLY = frozenset(("state", "capture", "pipeline", "structure", "program", "metrics"))


class Outbox:
    """The messages that one page has still to get."""

    def __init__(self) -> None:
        self._lock = locks.renewed()
        self._newest: dict[str, str] = {}
        self._events: deque[str] = deque(maxlen=MOST_WAITING)
        self._answers: deque[str] = deque(maxlen=MOST_WAITING)
        self._steps: deque[tuple[int, dict[str, Any]]] = deque(maxlen=MOST_STEPS)
        self._n_skipped = 0

    def put(self, kind: str, text: str) -> None:
        """A message that is JSON already."""
        with self._lock:
            if kind in NEWEST_ONLY:
                self._newest[kind] = text
            else:
                (self._events if kind in EVENTS else self._answers).append(text)

    def answer(self, message: dict[str, Any]) -> None:
        """A message for this page alone, which no later one displaces."""
        with self._lock:
            self._answers.append(to_json(message))

    def put_step(self, run: int, record: dict[str, Any]) -> None:
        with self._lock:
            self._n_skipped += len(self._steps) == MOST_STEPS
            self._steps.append((run, record))

    def take(self) -> list[str]:
        """All that waits, and nothing waits any more."""
        with self._lock:
            found = [*self._newest.values(), *self._events, *self._answers]
            self._newest.clear()
            self._events.clear()
            self._answers.clear()
            steps, skipped = list(self._steps), self._n_skipped
            self._steps.clear()
            self._n_skipped = 0
        for run in dict.fromkeys(run for run, _ in steps):
            records = [record for of, record in steps if of == run]
            found.append(to_json({"type": "steps", "run": run, "skipped": skipped, "records": records}))
        return found


class Outboxes:
    """Those of all pages that look. `n_pages` is what the training thread asks before it does anything."""

    def __init__(self, changed: Callable[[], None]) -> None:
        """`changed()`: called when a page has come or gone."""
        self._all: tuple[Outbox, ...] = ()
        self._changed = changed
        self.n_pages = 0
        self._lock = locks.renewed()

    def add(self) -> Outbox:
        made = Outbox()
        self._set(lambda now: (*now, made))
        return made

    def remove(self, outbox: Outbox) -> None:
        self._set(lambda now: tuple(one for one in now if one is not outbox))

    def _set(self, change: Callable[[tuple[Outbox, ...]], tuple[Outbox, ...]]) -> None:
        with self._lock:
            self._all = change(self._all)
            self.n_pages = len(self._all)
        self._changed()

    def post(self, message: dict[str, Any]) -> None:
        """To every page."""
        if self.n_pages:
            self.post_text(message["type"], to_json(message))

    def post_text(self, kind: str, text: str) -> None:
        for outbox in self._all:
            outbox.put(kind, text)

    def post_step(self, run: int, record: dict[str, Any]) -> None:
        for outbox in self._all:
            outbox.put_step(run, record)
