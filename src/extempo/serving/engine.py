"""The engine: one thread that runs the samples of all models, gathered into batches.

    submit -> a model's queue -> gathered until `max_batch` are there or `max_wait` is over -> runner -> futures

While samples of a model run, new ones join with its next step, without waiting. Where a step takes long, a batch waits
a little longer while others keep coming: those who were just answered ask again, and a fuller batch takes less time for
each. Where a model is quicker with its samples one by one (`paces`), nobody waits. Models take turns, a step each. One
thread, because a step uses all cores by itself, and greenlets belong to a thread.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from ..core.locks import awaited_condition
from ..core.tensor import Tensor
from .metrics import Metrics
from .refusals import BadRequest
from .runners import Runner, Ticket
from .settings import Limits

RETRY = {"Retry-After": "1"}
_SHARE = 0.25  # of the time of its last step that a lane waits longer, at most, while samples keep coming


class Lane:
    """The queue of one model, and its runner."""

    def __init__(self, name: str, runner: Runner) -> None:
        self.name = name
        self.runner = runner
        self.waiting: deque[Ticket] = deque()
        self.is_leaving = False  # no new samples; it goes when those that it has are done
        self.stepped_at = 0.0  # when its last step ended
        self.step_seconds = 0.0  # what that took

    @property
    def is_idle(self) -> bool:
        return not self.waiting and not self.runner.running


class Engine:
    """Lanes, and the thread that goes through them."""

    def __init__(self, limits: Limits, metrics: Metrics, log: Callable[[str], None] = print) -> None:
        self.limits = limits
        self._metrics = metrics
        self._log = log
        self._changed = awaited_condition()
        self._lanes: list[Lane] = []
        self._is_closing = False
        self._thread: threading.Thread | None = None

    # ---- in any thread

    def start(self) -> None:
        """Begin to run what is submitted."""
        self._thread = threading.Thread(target=self._serve, name="extempo-engine", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def open_lane(self, name: str, runner: Runner) -> Lane:
        """Take samples of one more model."""
        lane = Lane(name, runner)
        with self._changed:
            self._lanes.append(lane)
        return lane

    def leave(self, lane: Lane) -> None:
        """A model is gone: what it has accepted is done, then its lane goes."""
        with self._changed:
            lane.is_leaving = True
            self._changed.notify_all()

    def submit(self, lane: Lane, samples: list[list[Tensor]], timeout: float | None = None) -> list[Ticket]:
        """Samples of one request: all are accepted, or BadRequest says why none is."""
        with self._changed:
            if self._is_closing or not self.is_alive:
                raise BadRequest(503, "the server is shutting down", RETRY)
            if len(lane.waiting) + len(samples) > self.limits.max_queue:
                raise BadRequest(
                    429, f"{len(lane.waiting)} samples wait, of at most {self.limits.max_queue}; try again later", RETRY
                )
            timeout = self.limits.timeout if timeout is None else timeout
            tickets = [Ticket(tensors, timeout) for tensors in samples]
            lane.waiting.extend(tickets)
            self._changed.notify_all()
        return tickets

    def close(self) -> None:
        """Finish what was accepted, then stop."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def numbers(self) -> dict[str, tuple[int, int]]:
        """By model, how many samples wait and run."""
        with self._changed:
            found: dict[str, tuple[int, int]] = {}
            for lane in self._lanes:
                waiting, running = found.get(lane.name, (0, 0))
                found[lane.name] = (waiting + len(lane.waiting), running + len(lane.runner.running))
            return found

    # ---- in the engine's thread

    def _serve(self) -> None:
        while True:
            due = self._wait()
            if due is None:
                return
            for lane, tickets in due:
                try:
                    self._advance(lane, tickets)
                except Exception as error:  # a mistake of ours must not stop all models
                    self._log(f"serve: {lane.name}: {type(error).__name__}: {error}")
                    for ticket in [*tickets, *lane.runner.running]:
                        ticket.fail(error)

    def _wait(self) -> list[tuple[Lane, list[Ticket]]] | None:
        """Until something is due: lanes that are to go on, each with what joins it. None: nothing is left, stop."""
        with self._changed:
            while True:
                gone = [lane for lane in self._lanes if lane.is_leaving and lane.is_idle]
                for lane in gone:
                    lane.runner.close()
                    self._lanes.remove(lane)
                now = time.monotonic()
                due, next_at = [], None
                for lane in self._lanes:
                    at = self._due_at(lane)
                    if at is not None and at <= now:
                        due.append((lane, self._take(lane)))
                    elif at is not None:
                        next_at = at if next_at is None else min(next_at, at)
                if due:
                    return due
                if self._is_closing and next_at is None:
                    return None
                self._changed.wait(None if next_at is None else next_at - now)

    def _due_at(self, lane: Lane) -> float | None:
        """When a lane is to go on; None: it has nothing to do."""
        if lane.runner.running or self._is_closing or lane.is_leaving:
            return None if lane.is_idle else 0.0
        if not lane.waiting:
            return None
        if len(lane.waiting) >= self.limits.max_batch or not lane.runner.gathers:
            return 0.0
        first, last, wait = lane.waiting[0].arrived, lane.waiting[-1].arrived, self.limits.max_wait
        longest = max(first, lane.stepped_at) + _SHARE * lane.step_seconds
        return max(first + wait, min(longest, max(last, lane.stepped_at) + wait))

    def _take(self, lane: Lane) -> list[Ticket]:
        n = max(0, self.limits.max_batch - len(lane.runner.running))
        return [lane.waiting.popleft() for _ in range(min(n, len(lane.waiting)))]

    def _advance(self, lane: Lane, tickets: list[Ticket]) -> None:
        """One step of a model, with what joins it."""
        now = time.monotonic()
        for ticket in [t for t in lane.runner.running if t.deadline < now]:
            lane.runner.end(ticket, _late(ticket))
        for ticket in [t for t in tickets if t.deadline < now]:
            ticket.fail(_late(ticket))
        joining = [t for t in tickets if t.deadline >= now and not t.future.cancelled()]
        lane.runner.start(joining)
        n_together = lane.runner.step()
        if n_together:
            self._metrics.batches.observe(n_together, lane.name)
        lane.stepped_at = time.monotonic()
        lane.step_seconds = lane.stepped_at - now
        self._metrics.steps.observe(lane.step_seconds, lane.name)


def _late(ticket: Ticket) -> BadRequest:
    return BadRequest(504, f"it took longer than {ticket.deadline - ticket.arrived:g} s")
