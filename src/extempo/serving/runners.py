"""What runs the samples of one model: a `Runner` takes tickets, and its `step` settles those that are done.

    OpenRunner   continuous batching: samples join a run that goes on, and leave when they are done (`OpenRun`)
                 (where a model is quicker with its samples one by one, they are called so)
    OneByOne     one call after another

A ticket is one sample on its way: its tensors, and a future for its results by name.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Protocol

from ..batching.open_run import OpenRun
from ..core.context import no_grad
from ..core.storage import Array
from ..core.tensor import Tensor
from ..exporting.program import Program
from ..func.tree import leaves
from ..ops.control_flow import WhileLoop
from .paces import Paces

Function = Callable[[list[Tensor]], list[Tensor]]  # from the inputs of one sample to its results


class Ticket:
    """One sample that was accepted."""

    __slots__ = ("arrived", "deadline", "future", "tensors")

    def __init__(self, tensors: list[Tensor], timeout: float) -> None:
        self.tensors = tensors
        self.arrived = time.monotonic()
        self.deadline = self.arrived + timeout
        self.future: Future[list[Array]] = Future()

    def give(self, results: Sequence[Tensor]) -> None:
        if self._is_open():
            self.future.set_result([t.numpy() for t in results])

    def fail(self, error: BaseException) -> None:
        if self._is_open():
            self.future.set_exception(error)

    def _is_open(self) -> bool:
        """Whether somebody still waits for it; who waits may have cancelled."""
        return not self.future.done() and self.future.set_running_or_notify_cancel()


class Runner(Protocol):
    """Runs tickets in the engine's thread."""

    running: list[Ticket]  # that have started and are not done

    @property
    def gathers(self) -> bool:
        """Whether samples gain by waiting for others."""

    def start(self, tickets: list[Ticket]) -> None:
        """Take these along from the next step on."""

    def step(self) -> int:
        """Go on; tickets that are done get their results, and are no longer running. How many went on together."""

    def end(self, ticket: Ticket, error: Exception) -> None:
        """A running ticket is not to go on."""

    def close(self) -> None:
        """Nothing runs any more."""


def function_of(program: Program) -> Function:
    """A program as a function of its inputs in order; results in the order of outputs, then states."""

    def call(tensors: list[Tensor]) -> list[Tensor]:
        made = program._run(tensors, program.weights)
        return [x for x in leaves(made) if isinstance(x, Tensor)]

    return call


def may_go_on_for_ever(program: Program) -> bool:
    """Whether values decide how long a program runs, at its top level or in a graph inside."""
    graphs = [program.graph]
    while graphs:
        for node in graphs.pop():
            if node.op is WhileLoop:
                return True
            graphs += [a for a in node.attrs.values() if type(a) is type(program.graph)]
    return False


class OneByOne:
    """One call after another."""

    gathers = False

    def __init__(self, function: Function) -> None:
        self._function = function
        self.running: list[Ticket] = []

    def start(self, tickets: list[Ticket]) -> None:
        self.running += tickets

    def step(self) -> int:
        if not self.running:
            return 0
        run_alone(self._function, self.running.pop(0))
        return 1

    def end(self, ticket: Ticket, error: Exception) -> None:
        self.running.remove(ticket)
        ticket.fail(error)

    def close(self) -> None:
        self.running.clear()


class OpenRunner:
    """Samples of any size in a run that stays open, or one by one where that takes less time."""

    def __init__(self, function: Function, most: int, calls_alone: bool = True) -> None:
        """`calls_alone`: not for programs whose values decide how long they run, which others can join."""
        self._function = function
        self._most = most
        self._paces = Paces() if calls_alone else None
        self._run = OpenRun(function, most)
        self._run_seconds = 0.0  # what the run has taken since its first sample came
        self._n_run = 0  # samples that it was given since
        self._waiting: deque[Ticket] = deque()  # that run, for others, but have not begun
        self._futures: dict[Ticket, Future[list[Tensor]]] = {}
        self.running: list[Ticket] = []

    @property
    def gathers(self) -> bool:
        return self._paces is None or self._paces.may_gain

    def start(self, tickets: list[Ticket]) -> None:
        self._waiting += tickets
        self.running += tickets

    def step(self) -> int:
        if not self.running:
            return 0
        began = time.thread_time()  # not the clock's: the thread of HTTP may have the GIL meanwhile
        if self._paces is not None and not self._futures and self._paces.is_next_alone(len(self._waiting)):
            ticket = self._waiting.popleft()
            self.running.remove(ticket)
            run_alone(self._function, ticket)
            self._paces.note(1, time.thread_time() - began)
            return 1
        n_together = len(self.running)
        self._go_on()
        self._run_seconds += time.thread_time() - began
        if not self._futures:
            if self._paces is not None and self._n_run:
                self._paces.note(self._n_run, self._run_seconds)
            self._run_seconds, self._n_run = 0.0, 0
        return n_together

    def _go_on(self) -> None:
        """One step of the run, with all that wait."""
        self._n_run += len(self._waiting)
        while self._waiting:
            ticket = self._waiting.popleft()
            self._futures[ticket] = self._run.submit(ticket.tensors)
        try:
            self._run.step()
        except Exception as error:  # of the run itself: those of samples are in their futures
            for ticket in self.running:
                ticket.fail(error)
            self._futures.clear()
            self.running = []
            self._run.close()
            self._run = OpenRun(self._function, self._most)
            return
        self._settle()

    def end(self, ticket: Ticket, error: Exception) -> None:
        future = self._futures.pop(ticket, None)
        if future is None:
            self._waiting.remove(ticket)
        elif not future.cancel():
            self._run.end(future, error)
        ticket.fail(error)
        self.running.remove(ticket)

    def close(self) -> None:
        self._run.close()
        self._settle()

    def _settle(self) -> None:
        done = [ticket for ticket, future in self._futures.items() if future.done()]
        if not done:
            return
        for ticket in done:
            future = self._futures.pop(ticket)
            error = future.exception()
            if error is not None:
                ticket.fail(error)
            else:
                ticket.give(future.result())
        self.running = [*self._futures, *self._waiting]


def run_alone(function: Function, ticket: Ticket) -> None:
    """One sample by itself."""
    try:
        with no_grad():
            results = function(ticket.tensors)
    except Exception as error:
        ticket.fail(error)
    else:
        ticket.give(results)
