"""One epoch: an iterator that fetches here, and one that lets workers fetch ahead."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ..core.interrupts import guarded
from ..errors import ExtempoError
from .fetching import Exhausted, Fetcher

if TYPE_CHECKING:
    from .pool import WorkerPool

_END = object()


class SerialIterator(Iterator[Any]):
    """Fetches each batch when it is asked for."""

    def __init__(self, indices: Iterator[Any], fetcher: Fetcher) -> None:
        self._indices = indices
        self._fetcher = fetcher

    def __next__(self) -> Any:
        index = next(self._indices)
        try:
            return self._fetcher.fetch(index)
        except Exhausted:
            raise StopIteration from None


class WorkerIterator(Iterator[Any]):
    """Keeps workers `prefetch` batches ahead each.

    In order, everything is decided by the order of batches and nothing by when they arrive, so that an epoch repeats
    exactly. `release` gets the pool back when the epoch is over; after an error the pool is closed at once, since a
    traceback may keep the iterator alive for long. With an iterator that is dropped before, its pool is dropped.
    """

    def __init__(
        self,
        pool: WorkerPool,
        release: Callable[[WorkerPool], None],
        indices: Iterator[Any],
        base_seed: int,
        *,
        prefetch: int,
        timeout: float,
        in_order: bool,
    ) -> None:
        self._pool = pool
        self._release = release
        self._indices = indices
        self._prefetch = prefetch
        self._timeout = timeout
        self._in_order = in_order
        self._active = dict.fromkeys(range(len(pool.workers)))  # workers that may have more; an ordered set
        self._last_worker = -1
        self._n_sent = 0
        self._n_done = 0
        self._arrived: dict[int, tuple[int, str, Any]] = {}  # by number of the batch: worker, outcome, value
        self._failed = False
        self._over = False  # and the pool given back
        with _Guard(self):
            pool.begin(base_seed)
            self._refill()

    def __next__(self) -> Any:
        if self._failed:
            raise ExtempoError("DataLoader: this epoch ended with an error and its workers are gone; start another one")
        with _Guard(self):
            deadline = time.monotonic() + self._timeout if self._timeout else None
            while self._n_done < self._n_sent:
                answer = self._next_answer()
                if answer is None:
                    self._wait(deadline)
                    continue
                worker, outcome, value = answer
                self._n_done += 1
                if outcome == "failure":
                    raise value.exception()
                if outcome == "exhausted":
                    self._active.pop(worker, None)
                self._refill()
                if outcome == "batch":
                    return value
        if not self._over:
            self._over = True
            self._release(self._pool)
        raise StopIteration

    def _next_answer(self) -> tuple[int, str, Any] | None:
        number = self._n_done if self._in_order else next(iter(self._arrived), None)
        return self._arrived.pop(number, None) if number is not None else None

    def _wait(self, deadline: float | None) -> None:
        remaining = None if deadline is None else max(0.0, deadline - time.monotonic())
        heard = False
        for worker, label, value in self._pool.collect(remaining):
            heard = True
            if self._pool.is_current(label):
                self._arrived[label.number] = (worker, label.outcome, value)
        if not heard:
            raise ExtempoError(
                f"DataLoader: no batch came from the workers within timeout={self._timeout} seconds; find what is slow "
                "with num_workers=0, or raise the timeout"
            )

    def _refill(self) -> None:
        while self._active and self._n_sent - self._n_done < self._prefetch * len(self._active):
            index = next(self._indices, _END)
            if index is _END:
                return
            self._pool.assign(self._next_worker(), self._n_sent, index)
            self._n_sent += 1

    def _next_worker(self) -> int:
        if not self._in_order:
            return min(self._active, key=lambda number: self._pool.workers[number].n_waiting)
        n_workers = len(self._pool.workers)
        turns = ((self._last_worker + step) % n_workers for step in range(1, n_workers + 1))
        self._last_worker = next(number for number in turns if number in self._active)
        return self._last_worker

    def fail(self) -> None:
        """End the workers and the epoch."""
        self._failed = True
        self._pool.close()


class _Guard:
    """Ends the workers when an exception, Ctrl-C included, passes through."""

    def __init__(self, iterator: WorkerIterator) -> None:
        self._iterator = iterator

    def __enter__(self) -> None:
        return None

    @guarded
    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            if error is not None:
                self._iterator.fail()
        except BaseException:
            self._iterator.fail()
            raise
