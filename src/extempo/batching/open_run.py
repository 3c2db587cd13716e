"""A run that stays open: samples are submitted while others run, and leave when they are done (continuous batching).

    submit -> queue -> a greenlet for each sample -> flush of what all have recorded -> those that wait go on -> futures

`ex.batch` starts all samples at once and returns when the last one has ended. Here each has a future. `step` starts
what was submitted, runs what all samples have recorded, in batches, and lets those go on that waited for it; one that
ends leaves at once, and the next takes its place. An error in one sample, also in an op of its own, goes to its future
alone.

A run numbers its values and keeps them all. So the values of an open run come in generations: when there are many, the
next `BatchExecutor` begins with nothing, tensors that are still referred to get memory of their own, and the others are
freed with their generation. Samples run without gradients, for which everything would have to be kept.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextvars import Context, copy_context
from threading import get_ident
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import numpy as np
from greenlet import GreenletExit, getcurrent, greenlet

from ..core.context import CONTEXT, ExecutionContext, end_trace
from ..core.interrupts import certainly
from ..core.locks import awaited_condition
from ..core.storage import Storage
from ..core.tensor import LazySource, Tensor, TensorLike
from ..errors import ArgumentError, AutogradError, DtypeError, GraphError
from ..func.tree import leaves
from ..nn.module import RUNNING_BATCHES
from ..random import _set_current, current_generator, sample_generator
from .agenda import Batches, Calls
from .cells import ask_again
from .greenlets import GreenletHub
from .parts import ROOT, VALUE
from .purity_guards import look_again
from .report import Notes
from .run import BatchExecutor
from .sample_tracer import SampleTracer
from .sharing import SharedInputs

R = TypeVar("R")  # what one sample gives

# When a generation ends. Looking for the tensors that are still referred to takes about as long as a full collection of
# garbage, tens of milliseconds in a large process; making that many values takes many times as long.
MOST_VALUES = 1 << 18
MOST_BYTES = 1 << 26

_CLOSED = "the run was closed before this sample was done"
_STOPPED = "the run was closed because its driving thread was stopped"


class Generation(BatchExecutor):
    """The values of an open run from some flush to another; calls that fail are those of one sample."""

    __slots__ = ("_n_counted", "_new_parts", "failed", "n_bytes")

    def __init__(self, notes: Notes, pause: Callable[[], None]) -> None:
        super().__init__(notes, pause)
        self.failed: dict[int, Exception] = {}  # by sample: the first error of its calls in the last flush
        self.n_bytes = 0  # of the rows that batches have made
        self._n_counted = 0  # arrays of the table that are counted, or are from outside
        self._new_parts: Any = None  # of values that the flush makes

    @property
    def is_full(self) -> bool:
        return self.n_values >= MOST_VALUES or self.n_bytes >= MOST_BYTES

    def flush(self) -> None:
        self.failed = {}
        super().flush()
        self.n_bytes += self.values.bytes_of(self._n_counted)
        self._n_counted = self.values.n_arrays

    def ask_for(self, tensors: Sequence[Tensor]) -> None:
        """The next flush is to give these their values, those of one type at once."""
        self._read += [t for t in tensors if t._data is None]

    def move_out(self) -> list[Tensor]:
        """All tensors that somebody refers to escape; those that the garbage collector does not know keep the rows."""
        held = [t for t in gc.get_referrers(self) if issubclass(type(t), Tensor) and t._source is self]
        if held:
            made = self.values.has([t._value_id for t in held])  # those of samples that failed were not
            held = [t for t, is_made in zip(held, made.tolist(), strict=True) if is_made]
            self.let_go(held)
        return held

    def _take_in(self) -> Sequence[int]:
        met = super()._take_in()
        self._n_counted = self.values.n_arrays
        return met

    def _place_parts(self, parts: Any, first: int) -> Any:
        self._new_parts = super()._place_parts(parts, first)
        return self._new_parts

    def _run_levels(self, batches: list[Batches], shared: list[SharedInputs], schedule: list[tuple[int, int]]) -> int:
        return 0 if self.failed else super()._run_levels(batches, shared, schedule)

    def _run_batch(self, calls: Calls, members: Any, refs: Any, firsts: Any, shared: SharedInputs) -> None:
        """Run calls as one; if that fails, one by one. Those of samples that have failed are left out."""
        if self.failed:
            is_left = np.array([calls.samples[i] not in self.failed for i in members.tolist()], np.bool_)
            self._forget(calls, firsts[~is_left])
            members, refs, firsts = members[is_left], refs[is_left], firsts[is_left]
            if not len(members):
                return
        try:
            self._run(calls, members, refs, firsts, shared)
            return
        except Exception as error:
            if len(members) == 1:
                calls.blame(error, members[0])
                self._forget(calls, firsts)
                # Its frames are those of this run, which would live as long as the error.
                self.failed[calls.samples[members[0]]] = error.with_traceback(None)
                return
        # Not in the `except` block, where errors would get this one, and its frames, as their context.
        for row in range(len(members)):
            one = slice(row, row + 1)
            self._run_batch(calls, members[one], refs[one], firsts[one], shared)

    def _forget(self, calls: Calls, firsts: Any) -> None:
        """What calls were to make is not there; levels that run in common arrays have places before they run."""
        for i in range(len(calls.kind.results)):
            self.values.forget(firsts + i)
            if self._new_parts is not None:
                is_of_these = np.isin(self._new_parts[:, ROOT], firsts + i)
                self.values.forget(self._new_parts[is_of_these, VALUE])

    def _fill_all(self, tensors: Sequence[Tensor]) -> None:
        if self.failed and tensors:
            made = self.values.has([t._value_id for t in tensors]).tolist()
            tensors = [t for t, is_made in zip(tensors, made, strict=True) if is_made]
        super()._fill_all(tensors)


class _Sample:
    """A call that was submitted."""

    __slots__ = ("args", "context", "error", "future", "greenlet", "kwargs", "number", "result", "tracer")

    tracer: SampleTracer

    def __init__(self, number: int, args: tuple[Any, ...], kwargs: dict[str, Any], context: Context) -> None:
        self.number = number
        self.args = args
        self.kwargs = kwargs
        self.context = context
        self.future: Future[Any] = Future()
        self.greenlet: greenlet | None = None  # once it has started
        self.result: Any = None
        self.error: Exception | None = None

    def resolve(self) -> None:
        """Hand over what came out."""
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


class OpenRun(Generic[R]):
    """`fn`, written for one sample, on samples that come and go: `run.submit(x)` gives a future, `run.step()` goes on.

    `submit` may be called in any thread, and cancels like every future until the sample starts. One thread drives: it
    calls `step`, `drain` (until nothing is left) or `serve` (until `close`), and the functions run there, in greenlets.
    It may `end` a sample that takes too long.
    Random draws of a sample depend on how many were submitted before it, and on the seed when the run was made.

    Samples run under `no_grad`. Whoever changes weights, or what else modules and cells read, does so while no sample
    runs: those that do may have read it.

    An interrupt in the driving thread closes the run, as `close` does: what has not started is cancelled, what runs is
    ended, its `finally` blocks included, and the futures of both say so. A `with` block drains the run at its end.
    """

    def __init__(self, fn: Callable[..., R], most_running: int | None = None) -> None:
        """`most_running`: how many samples run at a time, at most; others wait, first come, first served."""
        if not callable(fn):
            raise DtypeError(f"OpenRun: expected a function or a module, got {type(fn).__name__}")
        if most_running is not None and most_running < 1:
            raise ArgumentError(f"OpenRun: most_running must be at least 1, got {most_running}")
        self._fn = fn
        self._most_running = most_running
        parent = current_generator()
        self._draws = (parent, parent.next_batch())
        self._changed = awaited_condition()  # its lock is that of what threads share: the queue, and who drives
        self._submitted: deque[_Sample] = deque()
        self._n_submitted = 0
        self._is_closing = self._is_closed = False
        self._thread: int | None = None  # that drives, now or while samples run
        self._is_stepping = self._is_serving = False
        self._running: dict[int, _Sample] = {}
        self._ended: deque[_Sample] = deque()  # and have not left
        self._hub = GreenletHub()
        self._generation: Generation | None = None
        self._n_generations = 0
        self._totals = {"nodes": 0, "launches": 0, "waves": 0}  # of generations that have ended

    # ---- in any thread

    def submit(self, *args: Any, **kwargs: Any) -> Future[R]:
        """One more sample, `fn(*args, **kwargs)`; it starts with the next step."""
        for t in _tensors(args, kwargs):
            if isinstance(t._source, LazySource):
                t._source.release(t, "it was submitted to a run in another thread")
        context = copy_context()
        with self._changed:
            if self._is_closing:
                raise GraphError("submit: the run is closed, so that nobody would run the sample; make a new OpenRun")
            sample = _Sample(self._n_submitted, args, kwargs, context)
            self._n_submitted += 1
            self._submitted.append(sample)
            self._changed.notify_all()
        return sample.future

    def close(self) -> None:
        """Cancel what has not started and end what runs; if another thread drives, when its step has ended."""
        with self._changed:
            is_driving = self._is_stepping or self._is_serving
            if self._running and not is_driving and self._thread != get_ident():
                raise GraphError(
                    "close: samples of this run have stopped in another thread, where alone they can be ended; call "
                    "close() there"
                )
            self._is_closing = True
            self._changed.notify_all()
            if is_driving:
                while not self._is_closed and self._thread != get_ident():
                    self._changed.wait()
                return
        self._end_all(_CLOSED, None)

    def stats(self) -> dict[str, Any]:
        """Samples submitted, running and waiting to start; calls, batches, flushes and generations of values so far."""
        generation, totals = self._generation, dict(self._totals)
        if generation is not None:
            now = generation.notes.stats()
            totals = {name: n + now[name] for name, n in totals.items()}
        return {
            "samples": self._n_submitted,
            "running": len(self._running),
            "waiting": len(self._submitted),
            "generations": self._n_generations,
            **totals,
        }

    # ---- in the thread that drives

    def step(self) -> bool:
        """Start what was submitted, run what samples have recorded, let them go on. Whether anything is left to do."""
        mode = CONTEXT.get()
        if mode.interceptor is not None:
            raise GraphError(
                "step: a run cannot be driven inside ex.batch, vmap or a function that is being traced; drive it "
                "outside, and wait for futures there"
            )
        is_mine = False
        try:
            with self._changed:
                if self._is_closed:
                    return False
                here = get_ident()
                if self._is_stepping or ((self._running or self._is_serving) and self._thread != here):
                    raise GraphError(
                        "step: this run is driven already: by a step that has not ended (a future's callback is called "
                        "in one), or in another thread, to which its greenlets belong"
                    )
                self._is_stepping = is_mine = True
                self._belong_to(here)
            end_trace(mode)
            RUNNING_BATCHES.append(self)
            self._advance(mode)
        except BaseException as error:
            if is_mine:
                certainly(self._end_all, _STOPPED, error)
            raise
        finally:
            if is_mine:
                certainly(self._stop_stepping)
        if self._is_closing:
            self._end_all(_CLOSED, None)
        return bool(self._running or self._submitted)

    def drain(self) -> None:
        """Step until every sample is done, also those that are submitted meanwhile."""
        try:
            while self.step():
                pass
        except Exception:
            raise
        except BaseException as error:  # it may have come between two steps
            certainly(self._end_all, _STOPPED, error)
            raise

    def end(self, future: Future[R], error: Exception) -> bool:
        """End a sample that runs, between two steps: its future gets `error`. Whether it was running."""
        sample = next((s for s in self._running.values() if s.future is future), None)
        if sample is None or self._is_stepping or self._thread != get_ident():
            return False
        self._drop(sample, error)
        self._resolve()
        return True

    def serve(self) -> None:
        """Step until another thread closes the run; wait while there is nothing to do."""
        with self._changed:
            if self._is_serving or (self._running and self._thread != get_ident()):
                raise GraphError("serve: this run is driven already, in another thread")
            self._belong_to(get_ident())
            self._is_serving = True
        try:
            while True:
                with self._changed:
                    while not (self._submitted or self._running or self._is_closing):
                        self._changed.wait()
                    if self._is_closing:
                        break
                self.step()
        finally:
            self._is_serving = False
            certainly(self._end_all, _CLOSED, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self.drain()
        finally:
            self.close()

    # ---- one step. A sample is in one of queue, running and ended at any time, so that an interrupt finds it.

    def _belong_to(self, thread: int) -> None:
        """Greenlets of this thread come next; there are none."""
        if self._thread != thread:
            self._thread, self._hub = thread, GreenletHub()

    def _stop_stepping(self) -> None:
        self._is_stepping = False
        if self in RUNNING_BATCHES:
            RUNNING_BATCHES.remove(self)

    def _advance(self, mode: ExecutionContext) -> None:
        if self._generation is None:
            if not self._submitted:
                return
            self._begin_generation()
        self._start(mode)
        generation = self._begun()
        generation.flush()
        for number, error in generation.failed.items():
            if number in self._running:  # else it has left, and nobody waits for what it had recorded
                self._drop(self._running[number], error)
        if generation.is_full:
            self._turn(generation)
        self._hub.resume()
        self._resolve()
        if not self._running:
            self._end_generation()

    def _start(self, mode: ExecutionContext) -> None:
        """Those that were submitted run up to the first value that they ask for."""
        to_start: deque[_Sample] = deque()
        with self._changed:
            while self._submitted and (self._most_running is None or len(self._running) < self._most_running):
                sample = self._submitted[0]
                self._running[sample.number] = sample
                self._submitted.popleft()
                if sample.future.set_running_or_notify_cancel():
                    to_start.append(sample)
                else:
                    del self._running[sample.number]

        def work() -> None:
            """One sample after the other, until one waits: making greenlets is dear."""
            while to_start:
                self._run_sample(to_start.popleft(), mode.quiet)

        while to_start:
            greenlet(work).switch()

    def _run_sample(self, sample: _Sample, quiet: bool) -> None:
        sample.greenlet = getcurrent()
        sample.tracer = SampleTracer(self._begun(), sample.number, self._hub)
        try:
            sample.result = sample.context.run(self._body, sample, quiet)
        except GreenletExit:
            sample.error = GraphError("batch: this sample was ended before it was done")
        except Exception as error:
            sample.error = error
        self._ended.append(sample)
        del sample  # which has the error, whose traceback has this frame

    def _body(self, sample: _Sample, quiet: bool) -> Any:
        CONTEXT.set(ExecutionContext(False, False, sample.tracer, quiet))
        _set_current(sample_generator(*self._draws, sample.number))
        try:
            result = self._fn(*sample.args, **sample.kwargs)
            _take_along(result, sample.tracer)
            return result
        finally:
            del sample

    def _drop(self, sample: _Sample, error: Exception) -> None:
        """A call of a sample has failed: it does not go on, and its `finally` blocks run."""
        if sample.greenlet is not None and not sample.greenlet.dead:
            self._hub.end([sample.greenlet])
        sample.error = error

    def _resolve(self) -> None:
        """Samples that have ended leave, in the order in which they did."""
        while self._ended:
            sample = self._ended[0]
            sample.resolve()
            self._running.pop(sample.number, None)
            self._ended.popleft()

    def _end_all(self, why: str, cause: BaseException | None) -> None:
        """End what runs, cancel what has not started, and be closed. Does nothing the second time."""
        with self._changed:
            self._is_closing = True
        self._resolve()
        self._hub.end([s.greenlet for s in self._running.values() if s.greenlet is not None and not s.greenlet.dead])
        for sample in list(self._running.values()):
            error = GraphError(f"batch: {why}")
            error.__cause__ = cause
            sample.error = error
            sample.resolve()
        while self._submitted:
            future = self._submitted[0].future
            future.cancel()
            self._submitted.popleft()
            if future.cancelled():
                future.set_running_or_notify_cancel()  # which tells those who wait for several
        self._running.clear()
        self._ended.clear()
        if self._generation is not None:
            self._end_generation()
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    # ---- generations of values

    def _begun(self) -> Generation:
        assert self._generation is not None
        return self._generation

    def _begin_generation(self) -> None:
        look_again()
        ask_again()
        self._generation = Generation(Notes(), self._hub.pause)
        self._n_generations += 1

    def _end_generation(self) -> None:
        stats = self._begun().notes.stats()
        self._totals = {name: n + stats[name] for name, n in self._totals.items()}
        self._generation = None

    def _turn(self, before: Generation) -> None:
        """The next generation begins while samples wait: what they refer to goes with them as tensors from outside."""
        samples = [sample.tracer for sample in self._running.values()]
        viewed = set().union(*[tracer.viewed() for tracer in samples])
        for t in before.move_out():
            if t._value_id not in viewed and t._memory is not None:
                t._memory.filled_by = self._hub  # so that samples may write to it as before
        self._end_generation()
        self._begin_generation()
        for tracer in samples:
            tracer.move_to(self._begun())


def _tensors(*trees: Any) -> list[Tensor]:
    flat = [x._flat if isinstance(x, TensorLike) else x for x in leaves(trees)]
    return list({id(x): x for x in flat if isinstance(x, Tensor)}.values())


def _take_along(result: Any, tracer: SampleTracer) -> None:
    """The tensors of a result get their values, in memory that no other sample shares."""
    own = [t for t in _tensors(result) if isinstance(t._source, BatchExecutor)]
    if any(t._history is not None for t in own):
        raise AutogradError(
            "OpenRun: a sample returned a tensor that requires grad; samples of an open run have no gradients, so "
            "leave enable_grad() out, return x.detach(), or use ex.batch"
        )
    generation: Any = tracer.run
    generation.ask_for([t for t in own if t._source is generation])
    for t in own:
        if isinstance(t._source, BatchExecutor):  # else it has escaped while another one was waited for
            t._source.release(t, "its sample has ended")
        if type(t._data.base) is np.ndarray and t._data.base.nbytes > t._data.nbytes:
            t._data = t._data.copy()
            t._memory = Storage(t._data)
