"""ex.batch: a function written for one sample, called on many."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from ..autograd.observers import listener
from ..core.context import CONTEXT, ExecutionContext, Swap, end_trace
from ..core.debuggers import has_breakpoint, is_debugged
from ..core.interrupts import certainly
from ..core.tensor import Tensor, TensorLike
from ..errors import DtypeError, ShapeError
from ..func.tree import leaves
from ..nn.module import RUNNING_BATCHES
from ..random import Generator, _set_current, current_generator, sample_generator
from ..tracing.compiled_function import steps_aside
from .cells import ask_again
from .greenlets import GreenletHub
from .lockstep.programs import Outcome, in_lockstep, why_recorded
from .outlining.outlines import for_samples
from .policy import Outlook, outlooks_of
from .purity_guards import look_again
from .report import Explanation, Notes
from .run import BatchExecutor
from .sample_tracer import SampleTracer

R = TypeVar("R")  # what one sample gives
_LISTS = (list, tuple)


class batch(Generic[R]):
    """`fn`, written for one sample, as a function of many: `outputs = ex.batch(fn)(samples, ...)`.

    Positional arguments are taken apart as by `map` (lists, tensors by their first dimension, iterators) and must have
    equal lengths; keyword arguments are the same for all. The outputs come as a list, in order; whatever `fn` returns
    may be nested in tuples, lists and dicts.

    Each sample runs its own Python: loops, recursion, branches on its own values. What samples compute runs together:
    calls of the same op, layer or module that only computes (a cell, see `ex.cell`) are one batch. A function that only
    computes runs once for all samples, in lockstep. A sample that asks
    for a value (`item`, `bool`, `print`) waits until the others wait, too. So lines of samples interleave; what they do
    to shared Python objects happens in no fixed order. Gradients flow through; results equal a plain loop to rounding.

    A function with a `breakpoint()` in it, and one that a debugger follows, runs as a plain loop: sample after sample.
    `debug=True` is the plain loop, with the same random draws, for pdb. `ex.eager()` makes all of them plain loops.
    `stats()` counts what the last call did, `explain()` says line by line how well it was batched and why.

    >>> def norm(x):
    ...     return (x * x).sum().sqrt()
    >>> ex.batch(norm)([ex.tensor([3.0, 4.0]), ex.tensor([1.0])])
    [tensor(5.), tensor(1.)]
    """

    def __init__(self, fn: Callable[..., R], debug: bool = False) -> None:
        if not callable(fn):
            raise DtypeError(f"batch: expected a function or a module, got {type(fn).__name__}")
        self._fn = fn
        self._debug = debug
        self._notes = Notes()
        self._outlooks = outlooks_of(fn)
        self._outlook = Outlook()  # for as many samples as there were last time
        functools.update_wrapper(self, fn, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> list[R]:
        samples = _zipped(args)
        call = functools.partial(self._fn, **kwargs) if kwargs else self._fn
        mode = CONTEXT.get()
        outer = mode.interceptor
        parent = current_generator()
        draws = (parent, parent.next_batch())
        if isinstance(outer, SampleTracer) and not self._debug:
            return _inside(outer, call, samples, draws)
        # A static function that is being recorded has to see every op.
        if self._debug or steps_aside(mode) or listener(mode) is not None or is_debugged() or has_breakpoint(self._fn):
            return _loop(call, samples, draws)
        n_bits = len(samples).bit_length()
        outlook = self._outlooks.get(n_bits)
        if outlook is None:
            outlook = self._outlooks.setdefault(n_bits, Outlook())
        self._outlook = outlook
        self._notes = notes = Notes()
        notes.n_samples = len(samples)
        if outlook.loops_next():
            return _loop(call, samples, draws)
        done = self._in_lockstep(kwargs, samples, mode)
        if done is None:
            return self._recorded(call, samples, range(len(samples)), draws, mode)
        if done.loops:
            outlook.loop_is_better()
            return _loop(call, samples, draws)
        left = done.left.tolist()
        if left:
            rest = self._recorded(call, [samples[i] for i in left], left, draws, mode)
            for number, result in zip(left, rest, strict=True):
                done.results[number] = result
        return done.results

    def _in_lockstep(
        self, kwargs: dict[str, Any], samples: list[tuple[Any, ...]], mode: ExecutionContext
    ) -> Outcome | None:
        """The results of samples that run in lockstep; None if none does."""
        with Swap(ExecutionContext(mode.grad, mode.inference, None, mode.quiet)):
            done = in_lockstep(self._fn, kwargs, samples, self._outlook.prefers, lambda: _leave_trace(mode))
        if done is not None:
            self._notes.programs.extend(done.programs)
        else:
            self._notes.why_recorded = why_recorded(self._fn)
        return done

    def _recorded(
        self,
        call: Callable[..., Any],
        samples: list[tuple[Any, ...]],
        numbers: Sequence[int],
        draws: Draws,
        mode: ExecutionContext,
    ) -> list[Any]:
        """Samples, with these numbers, recorded side by side, or one after the other where that pays better."""
        notes, outlook = self._notes, self._outlook
        if not outlook.batches_next():
            return _loop(call, samples, draws, numbers)
        _leave_trace(mode)
        ask_again()
        call = for_samples(call, notes.ran_as_function)
        hub = GreenletHub()
        run = BatchExecutor(notes, hub.pause)
        if mode.grad:
            run.own_leaves = _own_leaves(samples)

        def go_on() -> None:
            run.flush_for_reads()
            hub.resume()

        inside = ExecutionContext(mode.grad, mode.inference, None, mode.quiet)
        bodies = [
            _body(call, sample, SampleTracer(run, number, hub), inside, (*draws, number))
            for number, sample in zip(numbers, samples, strict=True)
        ]
        RUNNING_BATCHES.append(run)
        try:
            results = hub.together(bodies, go_on, numbers, functools.partial(_earlier_error, run))
        finally:
            RUNNING_BATCHES.remove(run)
        run.flush()
        ends = [x._flat if isinstance(x, TensorLike) else x for x in leaves(results)]
        mine = {id(t): t for t in ends if isinstance(t, Tensor) and t._source is run}
        run.let_go(list(mine.values()))
        if not notes.is_warming_up:
            outlook.ran(notes.batches, len(samples))
        return results

    def stats(self) -> dict[str, Any]:
        """What the last call did: calls recorded (nodes), batches run (launches), values read, ...

        `aside`: how many of the next calls will be plain loops, because batches did not pay.
        """
        return self._notes.stats() | {"aside": self._outlook.calls_aside}

    def explain(self) -> Explanation:
        """How the last call was batched, line by line: calls, batches, and what kept them from being larger."""
        return self._notes.explain(self._outlook.calls_aside)


def _own_leaves(samples: list[tuple[Any, ...]]) -> set[int]:
    """The ids of leaves that want a gradient and are arguments of one sample alone, or in a list that is one."""
    owners: dict[int, int] = {}
    shared: set[int] = set()
    for column in zip(*samples, strict=True):
        if not _may_hold_tensors(column):
            continue
        for number, argument in enumerate(column):
            if isinstance(argument, Tensor):
                tensors: Sequence[Any] = (argument,)
            elif type(argument) in _LISTS and argument and isinstance(argument[0], Tensor):
                tensors = argument
            else:
                continue
            for t in tensors:
                is_leaf = isinstance(t, Tensor) and t.requires_grad and t.is_leaf
                if is_leaf and owners.setdefault(id(t), number) != number:
                    shared.add(id(t))
    return owners.keys() - shared


def _may_hold_tensors(column: Sequence[Any]) -> bool:
    """Whether an argument of some sample may be a tensor or a list that begins with one, told by types alone."""
    types = set(map(type, column))
    if not types.isdisjoint(_LISTS):
        types |= {type(x[0]) for x in column if type(x) in _LISTS and x}
    return any(issubclass(one, Tensor) for one in types)


def _leave_trace(mode: ExecutionContext) -> None:
    """Samples are about to run together: a plain loop may stay in the trace of a compiled function."""
    end_trace(mode)
    look_again()


def _earlier_error(run: BatchExecutor, number: int) -> None:
    """Raise what a call recorded before would have raised in a plain loop, where this sample has failed."""
    try:
        run.flush()
    except Exception:
        if run.failed_sample <= number:
            raise


def _zipped(args: Sequence[Any]) -> list[tuple[Any, ...]]:
    if not args:
        raise DtypeError("batch: there is nothing to take samples from; pass at least one list of samples")
    columns = []
    for i, arg in enumerate(args):
        if isinstance(arg, Tensor):
            if not arg.ndim:
                raise ShapeError(f"batch: argument {i} is a 0-dim tensor, which holds no samples")
            columns.append(list(arg.unbind(0)))
        else:
            try:
                columns.append(list(arg))
            except TypeError:
                raise DtypeError(
                    f"batch: argument {i} is a {type(arg).__name__}, which cannot be taken apart into samples; pass "
                    "what all samples share as a keyword argument"
                ) from None
    lengths = [len(column) for column in columns]
    if len(set(lengths)) > 1:
        raise ShapeError(
            f"batch: the arguments have {', '.join(map(str, lengths))} samples; they must have equally many, and what "
            "all samples share is passed as a keyword argument"
        )
    return list(zip(*columns, strict=True))


Draws = tuple[Generator, int]  # whose numbers samples draw, and which of its calls of ex.batch this is


def _loop(
    call: Callable[..., Any], samples: list[tuple[Any, ...]], draws: Draws, numbers: Sequence[int] | None = None
) -> list[Any]:
    """One sample after the other; `numbers`: theirs, if not 0, 1, 2, ..."""
    results: list[Any] = []
    before = current_generator()
    numbers = range(len(samples)) if numbers is None else numbers
    try:
        for number, sample in zip(numbers, samples, strict=True):
            _set_current(sample_generator(*draws, number))
            results.append(call(*sample))
    except BaseException as error:
        error.add_note(f"in sample {numbers[len(results)]} of ex.batch")
        raise
    finally:
        certainly(_set_current, before)
    return results


def _body(
    call: Callable[..., Any],
    sample: tuple[Any, ...],
    who: SampleTracer,
    mode: ExecutionContext,
    draws: tuple[Generator, int, int],
) -> Callable[[], Any]:
    """What runs in the greenlet of a sample, whose context is its own.

    A function of Python's own: calling a `partial` takes C's stack, which greenlets copy at every switch.
    """

    def run() -> Any:
        CONTEXT.set(ExecutionContext(mode.grad, mode.inference, who, mode.quiet))
        _set_current(sample_generator(*draws))
        return call(*sample)

    return run


def _inside(outer: SampleTracer, call: Callable[..., Any], samples: list[tuple[Any, ...]], draws: Draws) -> list[Any]:
    """A sample that has samples of its own: they join the run."""
    mode = CONTEXT.get()
    inner = [SampleTracer(outer.run, outer.number, outer.hub) for _ in samples]
    bodies = [_body(call, sample, inner[number], mode, (*draws, number)) for number, sample in enumerate(samples)]
    before, outer.inner = outer.inner, [*outer.inner, *inner]
    try:
        return outer.hub.together(bodies, outer.hub.pause)
    finally:
        outer.inner = before
