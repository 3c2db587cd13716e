"""Forks: calls that a sample's function makes of itself, each in a greenlet of its own (`independence` says which).

A fork starts at once and runs until it asks for a value; then whoever has called goes on. So all branches of a sample
ask before anything runs, and one wave has the values for all of them. What forks append to lists is kept, and appended
when all have ended, in the order in which the calls stand in the program; the first error of that order is raised.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from types import FunctionType, MethodType
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet

from ...core.context import CONTEXT
from ..greenlets import GreenletHub
from ..sample_tracer import SampleTracer
from .independence import Forking, is_plain


class ForkingFunction:
    """What runs in place of a function that forks."""

    __slots__ = ("_checked_in", "_forking", "_function", "_holds", "_original")

    def __init__(self, function: FunctionType, forking: Forking, original: FunctionType) -> None:
        self._function = function
        self._forking = forking
        self._original = original
        self._checked_in: Any = None  # notes of the run in which names were last looked at
        self._holds = False

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        function: Callable[..., None] = self._function
        owner = None
        if self._forking.is_method:
            owner, *rest = args
            args, function = tuple(rest), MethodType(function, owner)
        sample = CONTEXT.get().interceptor
        if type(sample) is SampleTracer and self._is_safe(sample, owner, [*args, *kwargs.values()]):
            Forks(sample.hub, function).run(args, kwargs)
        else:
            InOrder(function).start(*args, **kwargs)

    def _is_safe(self, sample: SampleTracer, owner: Any, given: list[Any]) -> bool:
        notes = sample.run.notes
        if self._checked_in is not notes:
            self._checked_in, self._holds = notes, self._forking.holds(self._original, owner)
        lists = [id(x) for x in given if type(x) is list]
        return self._holds and len(set(lists)) == len(lists) and all(map(is_plain, given))


class InOrder:
    """In place of a fork, where calls are not to be forks: everything happens where it stands."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[..., None]) -> None:
        self._function = function

    def start(self, *args: Any, **kwargs: Any) -> None:
        self._function(*args, **kwargs, __fork__=self)

    def append(self, target: list[Any], value: Any) -> None:
        target.append(value)


class Fork:
    """One call: in order, what it appends and the calls that it makes in turn; and the error that has ended it."""

    __slots__ = ("_forks", "error", "log")

    def __init__(self, forks: Forks) -> None:
        self._forks = forks
        self.error: Exception | None = None
        self.log: list[tuple[list[Any], Any] | Fork] = []

    def start(self, *args: Any, **kwargs: Any) -> None:
        """Call the function; returns once that has ended or waits."""
        made = Fork(self._forks)
        self.log.append(made)
        self._forks.start(made, args, kwargs)

    def append(self, target: list[Any], value: Any) -> None:
        self.log.append((target, value))


class Forks:
    """One call of a function that forks, with all that it calls."""

    __slots__ = ("_function", "_greenlets", "_hub", "_n_running", "_waiting")

    def __init__(self, hub: GreenletHub, function: Callable[..., None]) -> None:
        self._hub = hub
        self._function = function
        self._n_running = 0
        self._greenlets: list[greenlet] = []
        self._waiting: greenlet | None = None  # the sample, if it waits for all forks to end

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Returns when all have ended."""
        root = Fork(self)
        try:
            self._call(root, args, kwargs)
            if self._n_running:
                self._waiting = getcurrent()
                self._waiting.parent.switch()
        except BaseException:
            self._waiting = None
            self._hub.end([one for one in self._greenlets if not one.dead])
            raise
        _append_in_order(root)

    def start(self, fork: Fork, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        made = greenlet(self._run_fork)
        made.gr_context = copy_context()
        self._greenlets.append(made)
        made.switch(fork, args, kwargs)

    def _run_fork(self, fork: Fork, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._n_running += 1
        try:
            self._call(fork, args, kwargs)
        except GreenletExit:
            return
        finally:
            self._n_running -= 1
        sample = self._waiting
        if sample is not None and not self._n_running:
            here = getcurrent()
            self._waiting = None
            sample.parent, here.parent = here.parent, sample  # the sample goes on where this ends

    def _call(self, fork: Fork, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        try:
            self._function(*args, **kwargs, __fork__=fork)
        except Exception as error:
            fork.error = error


def _append_in_order(root: Fork) -> None:
    """Do what calls have put off, until the first that has failed."""
    under_way = [(root, iter(root.log))]
    while under_way:
        fork, left = under_way[-1]
        for entry in left:
            if isinstance(entry, Fork):
                under_way.append((entry, iter(entry.log)))
                break
            target, value = entry
            target.append(value)
        else:
            under_way.pop()
            if fork.error is not None:
                raise fork.error
