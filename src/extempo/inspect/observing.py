"""Seeing every op as it runs, in forward and in backward, with its inputs, results, module and line of the user's code.

A `Watcher` is told of every op of every thread from `watch_ops(watcher)` on until it is removed. While there is one, an
`Observing` stands as interceptor in every execution context, so ops run one by one, when their line does: functions of
`ex.compile` and `ex.batch` run as they are written, backward goes node by node, and each node says which op, line and
module it is the gradient of. Bits are the same in all of these. Where there is no watcher nothing is in any context,
and nothing is asked or paid for.

Breakpoints, `ex.watch` and `ex.record` are watchers.
"""

from __future__ import annotations

import sys
import threading
import weakref
from contextvars import Context
from types import FrameType
from typing import Any, NamedTuple

from ..autograd.engine import BackwardEngine
from ..autograd.observers import Observer, new_node
from ..autograd.saved_values import saved_values
from ..core import locks
from ..core.context import CONTEXT, ExecutionContext, Swap, end_trace
from ..core.graph import Leaf, Node, Where, describe_where
from ..core.live_objects import live_objects
from ..core.op import Op
from ..core.source_location import is_internal
from ..core.tensor import Tensor
from ..core.weak import WeakTable
from ..dispatch.dispatcher import apply
from ..dispatch.inplace import write
from ..nn.module import CODE_OF_CALL, Module

FORWARD, BACKWARD = "forward", "backward"


class Event(NamedTuple):
    """One op that ran, or one node of backward: then inputs are the gradients that came, and what the node had saved.

    In backward the ops of a gradient's formula are events of their own, with the node that they belong to.
    """

    op: type[Op]
    inputs: tuple[Any, ...]
    attrs: dict[str, Any]
    results: tuple[Any, ...]  # of a node of backward: the gradients of its inputs, None where there is none
    phase: str  # "forward" or "backward"
    node: Node | None  # what recorded the op; in backward, the node whose gradient is computed
    module: str  # path of the innermost module that runs, or ran in forward; "" for the outermost and for none
    where: Where | None  # the user's line; of a node of backward that of its forward
    frame: FrameType | None  # the user's frame that is running

    @property
    def line(self) -> str:
        """`train.py:12`, or "" if it is unknown."""
        return describe_where(self.where)

    @property
    def tensors(self) -> list[Tensor]:
        """The inputs that are tensors."""
        return [x for x in self.inputs if isinstance(x, Tensor)]


class Watcher:
    """Somebody who is told of ops. What is not of interest is left out; whatever is raised goes to the user's line."""

    is_idle = False  # it wants to be told of nothing now; where all are idle, ops cost next to nothing more
    watches_backward = True

    def ran(self, event: Event) -> None:
        """An op ran: in forward, or as a part of a gradient's formula in backward."""

    def differentiated(self, event: Event) -> None:
        """A node of backward has handed on the gradients of its inputs."""

    def accumulated(self, leaf: Node, gradient: Tensor) -> None:
        """The gradient of a leaf, as far as it is known; told again for every contribution."""

    def wrote(self, target: Tensor, value: Tensor, event: Event) -> None:
        """Values were written in place; the event is the write, named as its function."""

    def failed(self, event: Event, error: Exception) -> None:
        """An op raised; it has no results."""


class _Running(threading.local):
    """What a thread is at."""

    node: Node | None = None  # the node of backward whose gradient is being computed
    module = ""  # of that node


class Observing(Observer):
    """The interceptor: runs every op, then tells the watchers."""

    steps_aside = True  # functions that are compiled or batched run as they are written

    def __init__(self) -> None:
        self.watchers: tuple[Watcher, ...] = ()
        self._running = _Running()
        self._modules: WeakTable[Node, str] = WeakTable()  # where nodes were recorded
        self._names: dict[tuple[int, int], tuple[weakref.ref[Module], weakref.ref[Module], str]] = {}

    def _outer_mode(self) -> ExecutionContext:
        now = CONTEXT.get()
        mode = ExecutionContext(now.grad, now.inference, None, now.quiet)
        _UNWATCHED[id(mode)] = mode
        return mode

    # ---- as interceptor

    def apply(self, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        mode = self._outer_mode()
        try:
            with Swap(mode):
                if all(watcher.is_idle for watcher in self.watchers):
                    return apply(op, inputs, attrs)
                try:
                    result = apply(op, inputs, attrs)
                except Exception as error:
                    self._tell("failed", self._event(op, inputs, attrs, (), None), error)
                    raise
                results = result if isinstance(result, tuple) else (result,)
                self._tell("ran", self._event(op, inputs, attrs, results, new_node(op, result)))
            return result
        finally:
            _UNWATCHED.pop(id(mode), None)

    def write(self, target: Tensor, value: Tensor, op_name: str, made_from: tuple[Tensor, ...] = ()) -> Tensor:
        mode = self._outer_mode()
        try:
            with Swap(mode):
                written = write(target, value, op_name, made_from)
                maker = value._node.op if type(value._node) is Node else Op
                self._tell("wrote", target, value, self._event(maker, (target, value), {"name": op_name}, (), None))
            return written
        finally:
            _UNWATCHED.pop(id(mode), None)

    def notice(self, node: Node) -> None:
        """A node of a user's Function; the ops of its forward were told of."""
        self._modules[node] = self._path(user_frame())

    def watch_backward(self, engine: BackwardEngine) -> None:
        """A backward is about to begin: tell of its nodes, too."""
        if not any(watcher.watches_backward for watcher in self.watchers):
            return
        differentiate, add = engine._differentiate, engine._add
        found: dict[Node, list[Any]] = {}  # an input may be there twice, and has a gradient each time

        def noting(node: Node, g: Any, owned: bool) -> None:
            found.setdefault(node, []).append(g)
            add(node, g, owned)
            if node.op is Leaf:
                self._tell("accumulated", node, engine.gradients[node])

        def differentiated(node: Node, g: Any) -> None:
            running, outer = self._running, (self._running.node, self._running.module)
            running.node, running.module = node, self._modules.get(node) or ""
            found.clear()
            sources = [i for i in node.inputs if isinstance(i, Node)]  # freed with what is saved
            # What is saved is freed when the node has handed on its gradients.
            y, inputs = saved_values(node, False) if node.saved else ((), [])
            saved = [x for x in (*(y if isinstance(y, tuple) else (y,)), *inputs) if isinstance(x, Tensor)]
            try:
                differentiate(node, g)
                event = Event(
                    node.op,
                    (*(g if isinstance(g, list | tuple) else (g,)), *saved),
                    node.attrs,
                    tuple(found[i].pop(0) if found.get(i) else None for i in sources),
                    BACKWARD,
                    node,
                    running.module,
                    node.where,
                    user_frame(),
                )
                mode = self._outer_mode()
                try:
                    with Swap(mode):
                        self._tell("differentiated", event)
                finally:
                    _UNWATCHED.pop(id(mode), None)
            finally:
                running.node, running.module = outer

        engine._add, engine._differentiate = noting, differentiated  # type: ignore[method-assign] # of this run only

    # ---- events

    def _tell(self, what: str, *args: Any) -> None:
        for watcher in self.watchers:
            getattr(watcher, what)(*args)

    def _event(
        self, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any], results: tuple[Any, ...], node: Node | None
    ) -> Event:
        frame, current = user_frame(), self._running.node
        where = None if frame is None else (frame.f_code, frame.f_lasti)
        if current is not None:
            return Event(op, inputs, attrs, results, BACKWARD, current, self._running.module, where, frame)
        module = self._path(frame)
        if node is not None:
            self._modules[node] = module
        return Event(op, inputs, attrs, results, FORWARD, node, module, where, frame)

    def _path(self, frame: FrameType | None) -> str:
        path = ""
        outer: Module | None = None
        for module in reversed(running_modules()):
            if outer is not None and module is not outer:
                path = ".".join(part for part in (path, self._name(outer, module)) if part)
            outer = module
        return path

    def _name(self, outer: Module, module: Module) -> str:
        """The path from one module to one below it; the name of its class if it is none."""
        known = self._names.get((id(outer), id(module)))
        if known is not None and known[0]() is outer and known[1]() is module:
            return known[2]
        found = next((name for name, part in outer.named_modules() if part is module), type(module).__name__)
        self._names[id(outer), id(module)] = weakref.ref(outer), weakref.ref(module), found
        return found


_UNWATCHED: dict[int, ExecutionContext] = {}  # contexts of ops that are being watched, and of what watchers do
_OBSERVING = Observing()
_registering = locks.renewed()


class watch_ops:
    """Tell a watcher of every op, in every thread, until `remove()` or the end of the block.

    here: of what runs in the context of now and in blocks that are opened from now on: that is enough for one iteration
    of a loop, and costs nothing, where finding the contexts of all threads takes hundredths of a second.
    """

    def __init__(self, watcher: Watcher, here: bool = False) -> None:
        self._watcher = watcher
        self._here: ExecutionContext | None = None
        with _registering:
            now = CONTEXT.get()
            end_trace(now)
            _OBSERVING.watchers = (*_OBSERVING.watchers, watcher)
            if here and now.interceptor is None and id(now) not in _UNWATCHED:
                self._here = now
                now.interceptor = _OBSERVING
            elif now.interceptor is not _OBSERVING:
                _put(None, _OBSERVING)

    def remove(self) -> None:
        """Tell it no more; once is enough, and more do no harm."""
        with _registering:
            known = len(_OBSERVING.watchers)
            _OBSERVING.watchers = tuple(w for w in _OBSERVING.watchers if w is not self._watcher)
            if _OBSERVING.watchers or len(_OBSERVING.watchers) == known:
                return
            here = self._here
            if here is not None and here is CONTEXT.get() and here.interceptor is _OBSERVING:
                here.interceptor = None  # blocks that were opened meanwhile are closed, or this one would not be ours
            else:
                _put(_OBSERVING, None)


def _put(old: Observing | None, new: Observing | None) -> None:
    """Exchange the interceptor of all contexts, which nothing else ever changes: those of other threads, and of blocks
    that are still open, refer to them already."""
    first = Context().run(CONTEXT.get)  # that of a new thread
    for mode in {id(m): m for m in (*live_objects(ExecutionContext), first, CONTEXT.get())}.values():
        if mode.interceptor is old and id(mode) not in _UNWATCHED:
            mode.interceptor = new


# ---- frames


def user_frame() -> FrameType | None:
    """The innermost frame of code that is not Extempo's own."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_internal(frame):
        frame = frame.f_back
    return frame


def running_modules() -> list[Module]:
    """The modules whose calls are running, the innermost first."""
    found = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code is CODE_OF_CALL:
            found.append(frame.f_locals["self"])
        frame = frame.f_back
    return found
