"""plan(request): a plan for what has been recorded and not run yet, and for a backward through all of it.

A plan depends on its request only. It reads leaves and kept values and writes nothing but new arrays. What makes plans
is loaded when it is first asked whether there can be plans, because it needs the native backend.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from ..backends.selection import native
from ..core.storage import Array
from ..core.trace_tree import LeafKind, TraceOp, Unplannable
from .saved_reads import reads

__all__ = [
    "BackwardRequest",
    "Plan",
    "Prospect",
    "Request",
    "Unplannable",
    "can_plan",
    "plan",
    "plan_in_pieces",
    "prospect",
    "reads",
]

Run = Callable[[list[Array], list[Any]], list[Array] | int]


class Job(Protocol):
    """Kernels that are being compiled."""

    error: str | None  # why that failed
    is_due: bool  # whoever wants one of them waits for it
    seconds: float  # that LLVM takes, about, for those that nobody else had asked for before

    def wait(self) -> None: ...


class Prospect(Protocol):
    """What planning a request takes."""

    n_steps: int  # that have to be planned
    is_familiar: bool  # whether the loop in it was met before, at whatever length

    def made(self, wait: bool, goes_on: Callable[[], bool]) -> Plan | None: ...


class BackwardRequest(NamedTuple):
    """A backward from one value."""

    root: int  # a place
    seed: int  # the ref of the gradient that comes in, a leaf
    asked: tuple[int, ...] | None = None  # refs whose gradients are wanted; None: those of all leaves


class Request(NamedTuple):
    """What is to be planned."""

    steps: Sequence[TraceOp]  # the trace so far
    start: int  # steps before this one have been run
    leaves: Sequence[LeafKind]
    kept: frozenset[int]  # places of steps before `start` whose arrays are there, their elements in order
    wanted: tuple[int, ...]  # places whose arrays are to be returned
    backward: BackwardRequest | None = None


class Plan:
    """Instructions that are ready to run. `run(arrays of inputs, numbers)` returns `wanted`, then `gradients`.

    It returns an int instead where it could not be finished: the step that is to blame, or -1.
    """

    __slots__ = (
        "_finish",
        "_job",
        "_request",
        "arena_bytes",
        "gradients",
        "inputs",
        "n_fused",
        "n_instructions",
        "run",
    )

    def __init__(
        self,
        inputs: tuple[int, ...],
        gradients: tuple[int, ...],
        finish: Callable[[], Run],
        job: Job | None,
        request: Request,
        n_instructions: int,
        n_fused: int,
        arena_bytes: int,
    ) -> None:
        self.inputs = inputs  # refs: leaves and kept places
        self.gradients = gradients  # of which leaves, by index; of a place: -1 - place
        self.run: Run  # once it is complete
        self.n_instructions = n_instructions
        self.n_fused = n_fused  # elementwise nodes that run within another's kernel
        self.arena_bytes = arena_bytes
        self._finish: Callable[[], Run] | None = finish
        self._job = job  # what compiles the kernels that are not there yet
        self._request = request

    @property
    def is_complete(self) -> bool:
        """Whether it can be run: all its kernels are there."""
        return self._finish is None

    @property
    def waits(self) -> bool:
        """Whether LLVM was asked for kernels that are not due yet."""
        return self._job is not None and not self._job.is_due

    def be_due(self) -> None:
        """From now on whoever wants it, or another plan that shares its kernels, waits for them."""
        if self._job is not None:
            self._job.is_due = True

    def take_llvm_seconds(self) -> float:
        """What LLVM takes for its kernels, about; nothing where a plan that shares them has been asked that."""
        if self._job is None:
            return 0.0
        seconds, self._job.seconds = self._job.seconds, 0.0
        return seconds

    def completed(self, wait: bool = True) -> Plan | Unplannable:
        """The plan, complete if its kernels are there or due or to be waited for; or why they never will be there.

        How far LLVM is does not matter, so that what is done does not depend on the machine.
        """
        if self._finish is not None and (wait or not self.waits):
            if self._job is not None:
                self._job.wait()
                if self._job.error is not None:
                    return Unplannable(self._job.error)
            self.run = self._finish()  # which compiles what is still missing
            self._finish = self._job = None
        return self

    def describe(self) -> str:
        """One line for each instruction."""
        from .pipeline import described

        return described(self._request)


_loaded: list[bool] = []


def can_plan() -> bool:
    """Whether there can be plans: where there is native code. Loads what makes and runs them, so that no plan does."""
    if native() is None:
        return False
    if not _loaded:
        from ..backends.llvm.plans.runtime import runtime
        from . import pipeline  # noqa: F401 # not by the first plan

        runtime()
        _loaded.append(True)
    return True


def prospect(request: Request) -> Prospect:
    """What is known of a request before it is planned."""
    from . import pipeline

    return pipeline.PlanningJob(request)


def plan(request: Request, wait: bool = True) -> Plan | Unplannable:
    """The plan of a request, or why there is none.

    Unless it is to wait for what LLVM has to compile, the plan may have to be `completed` at a later time.
    """
    found = plan_in_pieces(prospect(request), wait, lambda: True)
    assert found is not None
    return found


def plan_in_pieces(known: Prospect, wait: bool, goes_on: Callable[[], bool]) -> Plan | Unplannable | None:
    """The same; None if `goes_on`, which is asked between pieces of the work, said no before it was done."""
    # Nearly all that planning makes is gone when it ends, without the collector, which would go through it, and through
    # all traces, several times.
    collects = gc.isenabled()
    gc.disable()
    try:
        found = known.made(wait, goes_on)
        return None if found is None else found.completed(wait)
    except Unplannable as error:
        return error.with_traceback(None)  # which would keep alive all that was built
    finally:
        if collects:
            gc.enable()


class Resizing(Protocol):
    """The plans of one flush at all sizes."""

    @property
    def n_worked_out(self) -> int:
        """How often a plan did not simply follow from others."""

    @property
    def n_bound(self) -> int:
        """Ranges of sizes whose plans follow from one."""

    @property
    def waits(self) -> bool:
        """Whether there is no plan yet because LLVM has to compile kernels."""

    def plan(self, n: int, request: Request, may_bind: Callable[[], bool]) -> Plan | None: ...


def resizing(resized: Callable[[int, Request], Request]) -> Resizing:
    """What makes plans of other sizes than were met; `resized` says what is to be planned at some size."""
    from .size_ranges import SizeRange as made

    return made(resized)


def forget() -> None:
    """Forget what was planned, where something was."""
    if f"{__package__}.loop_cache" in sys.modules:
        from . import loop_cache

        loop_cache.forget()
