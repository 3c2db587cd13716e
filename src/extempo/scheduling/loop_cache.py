"""Short loops that were planned, and the plans of longer ones that are made from them.

A short loop is known by all that its plan depends on, so a plan for a length that was never met is made from what is
known of others: nothing is planned, operands are moved.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from ..backends.llvm.plans.background import CompileJob
from ..core import locks
from ..core.cache import Cache
from ..core.trace_tree import NUMBER, TraceOp
from .codegen import Unfinished
from .loop_detection import HEAD, Loop
from .request import Plan, Request, Run

Key = tuple[Any, ...]


class ShortLoop:
    """The plan of a short loop, as far as longer ones share it."""

    def __init__(
        self,
        unfinished: Unfinished,
        refs: tuple[int, ...],
        leaves: tuple[int, ...],
        job: CompileJob | None,
        n_instructions: int,
        n_fused: int,
    ) -> None:
        """`refs`: its inputs. `leaves`: those (or the places) that it returns the gradients of, as `Plan` has them."""
        assert unfinished.copies is not None
        self._unfinished = unfinished
        self._copies = unfinished.copies
        self._refs, self._leaves = refs, leaves
        self._job: CompileJob | weakref.ref[CompileJob] | None = job
        self._n_instructions, self._n_fused = n_instructions, n_fused
        self._filled = False

    def plan(self, request: Request, loop: Loop) -> Plan:
        """That of a request whose shortened loop this is, yet to be completed."""
        n, copies = loop.n_left_out, self._copies
        windows = range(HEAD, HEAD + n)
        refs = [ref if ref >= 0 else -1 - loop.leaf(-1 - ref) for ref in self._refs]
        refs += [-1 - loop.first_leaf - window * loop.n_leaves - index for window in windows for index in copies.leaves]
        leaves = tuple([loop.leaf(leaf) if leaf >= 0 else -1 - loop.place(-1 - leaf) for leaf in self._leaves])
        size = (self._n_instructions + n * copies.n_instructions, self._n_fused + n * copies.n_fused, copies.nbytes(n))
        return Plan(tuple(refs), leaves, lambda: self._finished(request, loop), self._shared_job(), request, *size)

    def _shared_job(self) -> CompileJob | None:
        """What plans wait for. The first of them keeps it: when it is gone, so is who knew when the kernels are due."""
        job = self._job
        if isinstance(job, weakref.ref):
            return job()
        self._job = None if job is None else weakref.ref(job)
        return job

    def _finished(self, request: Request, loop: Loop) -> Run:
        unfinished = self._unfinished
        with _filling:
            if not self._filled:
                unfinished.fill()
                self._copies.seal()
                self._filled = True
                self._job = None
        code = self._copies.inserted(loop, number_kinds(request.steps))
        run: Run = unfinished.with_constants(code.finish(self._copies.nbytes(loop.n_left_out), unfinished.keep))
        return run


_filling = locks.awaited()

T = TypeVar("T")


class Work(Generic[T]):
    """Work that is done in pieces, by whoever needs it."""

    def __init__(self, begin: Callable[[], Generator[None, None, T]]) -> None:
        self._begin = begin
        self._begun: list[Generator[None, None, T]] = []  # who takes one out is at it
        self._is_done = False
        self.result: T

    def proceed(self, goes_on: Callable[[], bool]) -> bool:
        """Work for as long as `goes_on` says so; whether it is done. It raises what the work raises."""
        if self._is_done:
            return True
        try:
            pieces = self._begun.pop()
        except IndexError:
            # It is new, or was interrupted, or another thread is at it, which need not be there any more: this process
            # may have been forked. What that one does is not waited for.
            pieces = self._begin()
        try:
            next(pieces)
            while goes_on():
                next(pieces)
        except StopIteration as end:
            if not self._is_done:
                self.result, self._is_done = end.value, True
        else:
            self._begun.append(pieces)
        return self._is_done

    def finish(self) -> T:
        self.proceed(lambda: True)
        return self.result


NOT_ALIKE: Any = object()
_SHORTS: Cache[Key, ShortLoop | Work[ShortLoop | None] | None] = Cache(
    "loops of plans", 200
)  # None: windows are not alike
_MET: Cache[int, None] = Cache("loops that were met", 4_000)  # hashes of their keys
_UNKNOWN: Any = object()


class StretchedLoop:
    """The loop of a request, and what is known of the short one that its plan can be made from."""

    def __init__(self, request: Request, loop: Loop, short: Request) -> None:
        self._request, self._loop, self.short = request, loop, short
        self._key = key = _key(short, loop)
        found = _SHORTS.get(key, _UNKNOWN)
        self.is_even = found is not None  # as far as is known
        self.is_planned = isinstance(found, ShortLoop)
        self.was_met = self.is_planned or hash(key) in _MET
        if not self.was_met:
            _MET.put(hash(key), None)

    def plan(
        self, make: Callable[[Request, Loop], Generator[None, None, ShortLoop | None]], goes_on: Callable[[], bool]
    ) -> Plan | None:
        """Its plan, yet to be completed; NOT_ALIKE if windows are not. None: there was not time enough.

        `make` is asked for that of the short loop.
        """
        found = _SHORTS.get(self._key, _UNKNOWN)
        if found is _UNKNOWN:
            found = _SHORTS.put(self._key, Work(partial(make, self.short, self._loop)))
        if isinstance(found, Work):
            if not found.proceed(goes_on):
                return None
            found = _SHORTS.put(self._key, found.result)
        return NOT_ALIKE if found is None else found.plan(self._request, self._loop)


def forget() -> None:
    """Forget what was planned."""
    _SHORTS.clear()


def _key(short: Request, loop: Loop) -> Key:
    """All that the plan of a shortened request depends on. A signature says what op it is, of which attributes."""
    steps = [(s.signature, s.place, s.refs, s.needs, s.tracked, s.view, s.order, s.baked) for s in short.steps]
    return (tuple(steps), *short[1:2], tuple(short.leaves), *short[3:], *loop._replace(n_windows=0))


def number_kinds(steps: Sequence[TraceOp]) -> tuple[type, ...]:
    """Of the numbers of a recording."""
    kinds: list[Any] = [float] * sum([step.n_numbers for step in steps])
    for step in steps:
        if step.n_numbers:
            for ref, kind in zip(step.refs, step.kinds, strict=True):
                if ref >= NUMBER:
                    kinds[ref - NUMBER] = kind
    return tuple(kinds)
