"""`ex.breakpoint`: stop at an op, in forward or in backward, in a debugger at the user's line.

A stop comes right after the op ran, or after a node of backward has handed on its gradients; what went in and came out
is `ex.breakpoint.here`, and in pdb also `__op__`. With Python's own `sys.breakpointhook` the debugger is pdb, with the
user's frames alone and two commands more (`Debugger`). Any other hook is called in the user's frame, as if
`breakpoint()` stood behind the op: Extempo's frames are left first, and the interpreter itself calls the hook
(`_stop_in_frame`).
"""

from __future__ import annotations

import builtins
import functools
import itertools
import multiprocessing
import os
import pdb
import sys
from bdb import BdbQuit
from collections.abc import Callable
from types import FrameType, SimpleNamespace, TracebackType
from typing import Any, ClassVar

from ..core import locks
from ..core.interrupts import Undone
from ..core.source_location import is_internal
from ..core.tensor import Tensor
from ..core.wording import counted
from ..errors import DtypeError
from .choosing import Choice, Patterns
from .looking import look
from .observing import BACKWARD, Event, Watcher, watch_ops

_LIBRARIES = {*sys.stdlib_module_names, "numpy"} - {"__main__"}
_WORKER = "breakpoint: a worker process has no terminal for pdb; DataLoader(num_workers=0) stops in the main process"


class Stop:
    """What a breakpoint stopped at.

    op, module, phase, line: as text; of a node of backward, where its forward ran. inputs: what the op got; in backward
    the gradients that came, then what the op had saved. results: what it gave; in backward the gradients of its inputs.
    node: what recorded it, None without gradients. attrs: its other arguments.
    """

    def __init__(self, event: Event) -> None:
        self.op = event.op.name
        self.module = event.module
        self.phase = event.phase
        self.line = event.line
        self.inputs = event.inputs
        self.results = event.results
        self.node = event.node
        self.attrs = event.attrs

    def __str__(self) -> str:
        what = f"gradient of {self.op}" if self.phase == BACKWARD else self.op
        where = [f"module {self.module}"] if self.module else []
        if self.line:
            where.append(f"forward at {self.line}" if self.phase == BACKWARD else self.line)
        told = [f"{what} ({', '.join(where)})" if where else what]
        told += [f"  {name:9} {_shown(x)}" for name, x in zip(self._input_names(), self.inputs, strict=True)]
        told += [f"  {name}={value!r}" for name, value in self.attrs.items()]
        what = "input" if self.phase == BACKWARD else "result"
        told += [f"  {f'{what} {i}':9} {_shown(x)}" for i, x in enumerate(self.results)]
        return "\n".join(told)

    def _input_names(self) -> list[str]:
        if self.phase != BACKWARD or self.node is None:
            return [f"input {i}" for i in range(len(self.inputs))]
        n = len(self.node.type) if type(self.node.type) is tuple else 1
        gradients = ["gradient"] if n == 1 else [f"grad {i}" for i in range(n)]
        return gradients + [f"saved {i}" for i in range(len(self.inputs) - n)]

    __repr__ = __str__


def _shown(x: Any) -> str:
    return str(look(x)) if isinstance(x, Tensor) else repr(x)


class breakpoint(Undone):
    """Stop in a debugger at ops, from now on until `remove()`, or within a block: `with ex.breakpoint(...):`.

    when: called with each tensor that an op gives, or in backward with each gradient; stops if it says True. op,
    module: names or patterns, such as "exp", "log*" or "encoder.*". phase: "forward" or "backward", None for both.
    Without any of them every op is a stop.

    The debugger is pdb, at the line that called the op, with the user's frames only; `op` shows the op with its inputs
    and results, which are `__op__.inputs` and `__op__.results`, and `nextop` runs on to the next op, or node of
    backward. If `sys.breakpointhook` or PYTHONBREAKPOINT names another debugger, it stops behind the op, and
    `ex.breakpoint.here` has the same. Functions of `ex.compile` and `ex.batch` run op by op while there is one.

    >>> with ex.breakpoint(lambda t: t.isnan().any(), op="log") as stops:
    ...     y = ex.tensor([1.0, 2.0]).log()
    >>> stops.hits
    0
    """

    here: ClassVar[Stop | None] = None  # what the last stop stopped at

    def __init__(
        self,
        when: Callable[[Any], Any] | None = None,
        op: Patterns = None,
        module: Patterns = None,
        phase: str | None = None,
    ) -> None:
        if when is not None and not callable(when):
            raise DtypeError(
                "breakpoint: when is a function of a tensor, such as lambda t: t.isnan().any(), "
                f"got {type(when).__name__}"
            )
        self.hits = 0  # stops so far
        self._when = when
        self._choice = Choice("breakpoint", op, module, None, phase)
        _BREAKPOINTS.add(self)

    def remove(self) -> None:
        """Stop no more."""
        _BREAKPOINTS.remove(self)

    _end = remove

    def __repr__(self) -> str:
        return f"<ex.breakpoint at {self._choice}, {counted(self.hits, 'stop')}>"

    def _takes(self, event: Event) -> bool:
        if not self._choice.takes(event):
            return False
        if self._when is None:
            return True
        try:
            return any(bool(self._when(x)) for x in event.results if isinstance(x, Tensor))
        except Exception as error:
            error.add_note(f"in the condition of {self!r}, which was asked about {event.op.name} ({event.line})")
            raise


class _Breakpoints(Watcher):
    """All that there are, and a step to the next op."""

    def __init__(self) -> None:
        self._all: list[breakpoint] = []
        self._stops_next = False
        self._watching: watch_ops | None = None
        self._lock = locks.renewed()

    def add(self, one: breakpoint) -> None:
        with self._lock:
            self._all.append(one)
            self._watch()

    def remove(self, one: breakpoint) -> None:
        with self._lock:
            self._all = [b for b in self._all if b is not one]
            self._watch()

    def stop_next(self, stops: bool) -> None:
        """Stop at the next op, whatever it is."""
        with self._lock:
            self._stops_next = stops
            self._watch()

    def _watch(self) -> None:
        if not self._all and not self._stops_next:
            breakpoint.here = None
            if self._watching is not None:
                watching, self._watching = self._watching, None
                watching.remove()
        elif self._watching is None:
            self._watching = watch_ops(self)

    def ran(self, event: Event) -> None:
        if event.phase != BACKWARD:  # the ops of a gradient's formula are no ops of the user's
            self._look(event)

    def differentiated(self, event: Event) -> None:
        self._look(event)

    def _look(self, event: Event) -> None:
        hit = [b for b in self._all if b._takes(event)]
        for b in hit:
            b.hits += 1
        if hit or self._stops_next:
            self._stops_next = False
            stop_at(event)
            with self._lock:
                self._watch()


_BREAKPOINTS = _Breakpoints()
_prompting = locks.renewed()  # one thread at a time talks to the user


def stop_at(event: Event) -> None:
    """Stop in the debugger that there is, in the user's frame."""
    breakpoint.here = stop = Stop(event)
    frame = event.frame
    named = os.environ.get("PYTHONBREAKPOINT", "")
    if sys.breakpointhook is sys.__breakpointhook__ and named in ("", "0", "pdb.set_trace"):
        if named != "0":
            with _prompting:
                _debugger().stop(frame or sys._getframe(), stop)
    elif frame is None:
        sys.breakpointhook()
    else:
        _stop_in_frame(frame)


# ---- pdb


def _debugger() -> Debugger:
    """The one that follows this thread already, or a new one."""
    owner = getattr(sys.gettrace(), "__self__", None)
    return owner if isinstance(owner, Debugger) else Debugger()


class Debugger(pdb.Pdb):
    """pdb with the user's frames only, and with the op that it stopped at."""

    def __init__(self) -> None:
        super().__init__(nosigint=True)  # Ctrl-C goes on to interrupt the program
        self._stop: Stop | None = None
        self._continues = False

    def stop(self, frame: FrameType, stop: Stop) -> None:
        """Talk to the user, who is in `frame`, then go on as told."""
        before, traces = sys.gettrace(), []
        sys.settrace(None)
        self.reset()
        self._stop, self._continues = stop, False
        above: FrameType | None = frame
        while above is not None:
            traces.append((above, above.f_trace))
            above.f_trace = self.trace_dispatch
            self.botframe = above
            above = above.f_back
        self.message(str(stop))
        builtins.__op__ = stop  # type: ignore[attr-defined] # for all frames, and in none
        try:
            self.interaction(frame, None)
        finally:
            del builtins.__op__  # type: ignore[attr-defined] # as above
            own = before is not None and getattr(before, "__self__", None) is self
            if self.quitting or (self._continues and not self.breaks):
                for above, trace in traces:
                    above.f_trace = None if own else trace
                sys.settrace(None if own else before)
            else:
                sys.settrace(self.trace_dispatch)
        if self.quitting:
            raise BdbQuit(_WORKER if multiprocessing.parent_process() is not None else "")

    def set_continue(self) -> None:
        self._continues = True
        super().set_continue()

    def get_stack(self, f: FrameType | None, t: TracebackType | None) -> tuple[list[tuple[FrameType, int]], int]:
        stack, at = super().get_stack(f, t)
        users = [entry for i, entry in enumerate(stack) if _is_of_user(entry[0]) or i == at]
        return users, users.index(stack[at])

    def stop_here(self, frame: FrameType) -> bool:
        return _is_of_user(frame) and super().stop_here(frame)

    def do_op(self, arg: str) -> None:
        """op

        Show the op that this is a stop at, with its inputs and results: `__op__.inputs`, `__op__.results`.
        """
        self.message(str(self._stop))

    def do_nextop(self, arg: str) -> int:
        """nextop

        Run on to the next op, or in backward to the next node.
        """
        _BREAKPOINTS.stop_next(True)
        self.set_continue()
        return 1

    do_no = do_nextop


def _is_of_user(frame: FrameType) -> bool:
    """Not of Extempo, nor of a library that it calls."""
    at: FrameType | None = frame
    while at is not None and _is_library(at):
        at = at.f_back
    return at is None or not is_internal(at)


def _is_library(frame: FrameType) -> bool:
    """Of the standard library or NumPy, or generated code, such as the constructor of a named tuple."""
    names = frame.f_globals
    return "__spec__" not in names or str(names.get("__name__")).partition(".")[0] in _LIBRARIES


# ---- other debuggers


def _stop_in_frame(frame: FrameType) -> None:
    """Call `sys.breakpointhook` in a frame that is running, before its next instruction.

    Such hooks stop in the frame that called them. So no frame may stand between: a trace function made of C functions
    alone takes itself away and then calls the hook. It is `print`, which calls `write` for the first of its arguments,
    for a space, ...; each takes the next of two calls from an iterator.
    """
    before, own, by_instruction = sys.gettrace(), frame.f_trace, frame.f_trace_opcodes

    def take_away() -> None:
        frame.f_trace = own
        frame.f_trace_opcodes = by_instruction
        sys.settrace(before)

    calls = itertools.chain(itertools.starmap(take_away, [()]), itertools.starmap(sys.breakpointhook, [()]))
    frame.f_trace = functools.partial(print, file=SimpleNamespace(write=functools.partial(next, calls)))
    frame.f_trace_opcodes = True
    sys.settrace(_ignore)


def _ignore(frame: FrameType, event: str, arg: Any) -> None:
    """The trace function of frames that begin meanwhile."""
