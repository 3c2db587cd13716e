"""What runs the samples of one model: a `Runner` takes tickets, and its `step` settles those that are done.

    OpenRunner   continuous batching: samples join a run that goes on, and leave when they are done (`OpenRun`)
    OneByOne     one call after another

A ticket is one sample on its way: its tensors, and a future for its results by name.
"""

from __future__ import annotations

import time
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

    def start(self, tickets: list[Ticket]) -> None:
        """Take these along from the next step on."""

    def step(self) -> None:
        """Go on; tickets that are done get their results, and are no longer running."""

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

    def __init__(self, function: Function) -> None:
        self._function = function
        self.running: list[Ticket] = []

    def start(self, tickets: list[Ticket]) -> None:
        self.running += tickets

    def step(self) -> None:
        if self.running:
            run_alone(self._function, self.running.pop(0))

    def end(self, ticket: Ticket, error: Exception) -> None:
        self.running.remove(ticket)
        ticket.fail(error)

    def close(self) -> None:
        self.running.clear()


class OpenRunner:
    """Samples of any size in a run that stays open; one that is alone is called as it is, which takes less time."""

    def __init__(self, function: Function, most: int, calls_alone: bool = True) -> None:
        """`calls_alone`: not for programs whose values decide how long they run, which others can join."""
        self._function = function
        self._most = most
        self._calls_alone = calls_alone
        self._run = OpenRun(function, most)
        self._futures: dict[Ticket, Future[list[Tensor]]] = {}
        self.running: list[Ticket] = []

    def start(self, tickets: list[Ticket]) -> None:
        if self._calls_alone and len(tickets) == 1 and not self.running:
            run_alone(self._function, tickets[0])
            return
        for ticket in tickets:
            self._futures[ticket] = self._run.submit(ticket.tensors)
            self.running.append(ticket)

    def step(self) -> None:
        if not self.running:
            return
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
        future = self._futures[ticket]
        if not future.cancel():
            self._run.end(future, error)
        ticket.fail(error)
        del self._futures[ticket]
        self.running.remove(ticket)

    def close(self) -> None:
        self._run.close()
        self._settle()

    def _settle(self) -> None:
        done = [ticket for ticket in self.running if self._futures[ticket].done()]
        if not done:
            return
        for ticket in done:
            future = self._futures.pop(ticket)
            error = future.exception()
            if error is not None:
                ticket.fail(error)
            else:
                ticket.give(future.result())
        self.running = [ticket for ticket in self.running if ticket in self._futures]


def run_alone(function: Function, ticket: Ticket) -> None:
    """One sample by itself."""
    try:
        with no_grad():
            results = function(ticket.tensors)
    except Exception as error:
        ticket.fail(error)
    else:
        ticket.give(results)
