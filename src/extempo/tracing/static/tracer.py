"""The first call of a static function: its body runs, and everything that it does becomes an action of a script.

The recorder stands in the mode as interceptor, so every op and every in-place write is shown to it; `effects` tells it
of what is no op. Ops go to an ordinary TraceExecutor, whose trace is then known. What a tensor is, is decided when
something reads it: an argument, a result, one that was there before the call (read anew at each call, as it is then),
or one that the body makes from nothing.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...autograd.api import backward
from ...core.context import CONTEXT, ExecutionContext
from ...core.graph import describe_where
from ...core.live_objects import is_frozen, live_objects
from ...core.op import Op
from ...core.source_location import user_line
from ...core.tensor import Tensor, tensors_in
from ...core.trace_tree import TraceNode, TraceOp
from ...dispatch.dispatcher import apply, as_input
from ...dispatch.inplace import write
from ...errors import DtypeError, GraphError, UnsupportedError
from ..executor import TraceExecutor
from ..planner import op_by_op
from ..segment import Counters, Segment
from .backwards import GradientRequest, PlannedBackward
from .guards import Arguments
from .provenance import AskedFor, Provenance
from .python_codegen import ConstantSlot, EagerOp, Move, Result, Source, ValueSlot, eager_op
from .script import Action, Effect, Labels, Renew
from .streams import GeneratorSlots
from .sym_numbers import FOLLOWED, NumberGuards, all_asked, all_plain, asked, holds_followed, plain
from .trace_actions import Close, Extend, FlushNow, LeafSlot, RecordedTrace

_OPAQUE = "leave static=True out, where Python runs at every call"


class StaticTracer:
    """The interceptor of a recorded call."""

    def __init__(self, name: str, counters: Counters) -> None:
        self.name = name
        self.recording = TraceExecutor(TraceNode(), counters, op_by_op)
        self.actions: list[Action] = []
        self.moves: list[Move] = []  # the same op by op
        self.renewals: list[Action] = []  # what every call begins with
        self.slots: list[Any] = []  # as every call finds them: tensors from outside and constants, else None
        self.outside: dict[int, Tensor] = {}  # by slot
        self.modules: dict[int, Any] = {}  # that were called
        self.recorded = RecordedTrace()
        self._at = self.recording.trace.cursor
        self._token = self.recording.trace.token
        self._stretch: Extend | None = None
        self._arguments: set[int] = set()  # their slots
        self._of_ops: set[int] = set()  # slots of results of ops that run eagerly
        self._known: dict[int, Provenance] = {}
        self._before = {id(x): weakref.ref(x) for x in live_objects(Tensor)}
        self._n_effects = 0
        self._asked: dict[int, AskedFor] = {}  # gradients, by tensor
        self._optimizers: dict[int, Any] = {}
        self.streams = GeneratorSlots(self)
        self.numbers = NumberGuards(name, self.new_slot)
        self.labels = Labels(name)

    def new_slot(self) -> int:
        self.slots.append(None)
        return len(self.slots) - 1

    def begin(self, arguments: Arguments, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """What the body is called with."""
        given, named, tensors = arguments.record(args, kwargs, self.new_slot, self.numbers)
        for x, slot in tensors:
            self._known[id(x)] = Provenance(x, slot)
            self._arguments.add(slot)
        return given, named

    # ---- what a tensor is

    def slot_of(self, x: Any, may_change: bool = True) -> int:
        """The slot that a tensor or followed number is read from. `may_change`: it may be written to or kept."""
        if type(x) in FOLLOWED:
            return int(x.slot)
        known = self._what_is(x)
        if known.recorded is not None:
            return known.recorded.handle(known.place, self.new_slot).slot
        if may_change:
            known.numbers = None
        if known.constant and may_change:
            known.constant = False
            self.renewals.append(Renew(known.slot, x))
        return known.slot

    def _what_is(self, x: Tensor) -> Provenance:
        found = self._find(x)
        if found is not None:
            return found
        slot = self.new_slot()
        found = self._known[id(x)] = Provenance(x, slot)
        self.slots[slot] = x
        if self._was_there(x):
            self.outside[slot] = x
        else:
            self._refuse_unseen_view(x)
            found.constant = True
        return found

    def _find(self, x: Tensor) -> Provenance | None:
        found = self._known.get(id(x))
        return found if found is not None and found.ref() is x else None

    def _was_there(self, x: Tensor) -> bool:
        there = self._before.get(id(x))
        return is_frozen(x) if there is None else there() is x

    def _refuse_unseen_view(self, x: Tensor) -> None:
        """A tensor from nothing must not lie in the memory of one that is another at each call."""
        if x._data is None:
            raise self.refusal("a tensor that only a transform (vmap, grad) knows the values of cannot be recorded")
        for known in self._known.values():
            other = known.ref()
            if other is None or other is x or known.constant or type(other._data) is not np.ndarray:
                continue
            if x._data.size and np.may_share_memory(x._data, other._data):
                raise self.refusal("a tensor is made on the memory of another one in a way that cannot be recorded")

    def is_constant(self, x: Tensor) -> bool:
        """Whether the values of x are the same in every call; those that numbers were made into, from now on."""
        if x._data is None:
            return False
        known = self._what_is(x)
        all_asked(known.numbers)
        return known.constant or known.numbers is not None

    def make(self, fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """A tensor that is made of numbers, or filled with one, at each call."""
        reads = next(tensors_in(args), None) is not None
        out = self.effect(fn, args, flushes=reads)
        if not reads:
            self._what_is(out).numbers = args
        return out

    def refusal(self, what: str, advice: str = _OPAQUE) -> GraphError:
        return GraphError(f"{self.name} (static): {what}, at {describe_where(user_line())}; {advice}")

    # ---- ops and writes, as interceptor

    def apply(self, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        now, r = CONTEXT.get(), self.recording
        inner = _inner(now)
        try:
            inputs = tuple([x if type(x) in FOLLOWED else as_input(x) for x in inputs])
        except (DtypeError, UnsupportedError) as error:
            raise type(error)(f"{op.name}: {error}") from None
        if holds_followed(attrs):  # a whole number there is a size or a dimension
            attrs = {k: x if isinstance(x, float) else all_asked(x) for k, x in attrs.items()}
            if holds_followed(attrs):
                return self.effect(apply, (op, inputs, attrs))  # on a trace, attributes are structure
        self.catch_up()
        before = self._at
        try:
            CONTEXT.set(inner)
            out = r.apply(op, tuple(map(plain, inputs)), attrs, inner)
        finally:
            CONTEXT.set(now)
        step = r.trace.cursor.via
        if step is not None and r.trace.cursor.parent is before:
            self._take(step, inputs, out, inner)
        else:
            self.catch_up()
            action = Effect(apply, (op, inputs, attrs), {}, inner)
            sources = [self._source(x, may_change=op.aliases_input) for x in inputs]
            self._log_effect(action, out, may_change=op.aliases_input)
            move = eager_op(action, sources)
            if move is not None:
                self.moves[-1] = move
                self._of_ops.update(slot for _, slot, _ in action.results)
        return out

    def _source(self, x: Any, may_change: bool) -> Source:
        if isinstance(x, Tensor):
            known = self._what_is(x)
            if known.recorded is not None:
                return ValueSlot(known.recorded, known.place)
        return self.slot_of(x, may_change) if isinstance(x, Tensor) or type(x) in FOLLOWED else ConstantSlot(x)

    def write(self, target: Tensor, value: Tensor, op_name: str, made_from: tuple[Tensor, ...] = ()) -> Tensor:
        return self.effect(write, (target, value, op_name, made_from))

    def run_function(self, cls: Any, *rest: Any) -> Any:
        raise self.refusal(f"{cls.__name__} is an autograd.Function, whose Python would not run again")

    def _take(self, step: TraceOp, inputs: tuple[Any, ...], out: Any, mode: ExecutionContext) -> None:
        """The op is on the trace."""
        r, recorded = self.recording, self.recorded
        stretch = self._stretch
        if stretch is None:
            stretch = self._stretch = Extend(self._at, self.labels)
            recorded.stretches.append(stretch)
            self.actions.append(stretch)
        n_new = len(step.new_leaves)
        leaves: list[LeafSlot] = []
        for x, kind in zip(r.trace.leaves[len(r.trace.leaves) - n_new :], step.new_leaves, strict=True):
            slot = self.slot_of(x, may_change=False)
            checked, stays = slot in self._arguments, self.slots[slot] is x
            leaf = LeafSlot(slot, kind, step.where, checked, stays, self.labels)
            stretch.leaves.append(leaf)
            if not checked and slot not in self._of_ops and self._what_is(x).recorded is None:
                leaves.append(leaf)
        for x in inputs:
            if x is None or isinstance(x, Tensor):
                continue
            if step.baked is not None:
                asked(x)
                continue
            if type(x) in FOLLOWED:
                stretch.fed.append((len(stretch.numbers), x.slot))
            stretch.numbers.append(plain(x))
        results = out if type(out) is tuple else (out,)
        stretch.makers += [step] * len(results)
        recorded.makers += [step] * len(results)
        for i, t in enumerate(results):
            known = self._known[id(t)] = Provenance(t, -1, step.where)
            known.recorded, known.place = recorded, step.place + i
        sources = [self._source(x if step.baked is None else plain(x), may_change=False) for x in inputs]
        places: list[Result] = [ValueSlot(recorded, step.place + i) for i in range(len(results))]
        gives = places if type(out) is tuple else places[0]
        self.moves.append(EagerOp(step.op, sources, step.attrs, mode, step.where, gives, leaves))
        self._at = stretch.end = r.trace.cursor

    def catch_up(self) -> None:
        """What the recording did because someone asked for values or nodes becomes actions, too."""
        r = self.recording
        while self._at is not r.trace.position:
            flushes = [e for e in self._at.events.values() if isinstance(e, Segment) and e.backward is None]
            if flushes:
                self.log(FlushNow(self.recorded, self._at))
                self._at = flushes[0].following
            elif "closed" in self._at.events:
                self.log(Close())
                self._at = self._at.events["closed"]
                self.recorded = RecordedTrace()
            else:
                raise self.refusal("the trace ended in a way that cannot be recorded")
        self._token = r.trace.token

    def flush(self) -> None:
        now = CONTEXT.get()
        try:
            CONTEXT.set(_inner(now))
            self.recording.flush()
        finally:
            CONTEXT.set(now)
        self.catch_up()

    # ---- effects

    def heard(self, fn: Callable[..., Any], *args: Any) -> Any:
        """A backward, or gradients: the engine calls this."""
        args = tuple([list(x) if isinstance(x, Iterator) else x for x in args])  # it could be used once only
        asked = self._asked_of(fn, *args)
        if asked is None:
            return self.effect(fn, args)
        self._n_effects += 1
        effect = Effect(fn, args, {}, _inner(CONTEXT.get()))
        effect.fill_from(self.slot_of)
        gradient = None if asked.gradient is None else self.slot_of(asked.gradient)
        action = PlannedBackward(self.recorded, self.recording.trace.cursor, asked, gradient, effect)
        out = self._run(fn, args, {}, effect.mode)
        self._note_results(effect, out)
        self.log(action)
        return out

    def _asked_of(self, fn: Callable[..., Any], outputs: Any, given: Any, *rest: Any) -> GradientRequest | None:
        """What a plan may be asked for; None: the engine has to do it."""
        self.catch_up()
        if fn is backward:
            gradients, (keep, create_graph, inputs) = given, rest
            refused = create_graph or inputs is not None
        else:
            inputs = [given] if isinstance(given, Tensor) else given
            gradients, keep, create_graph, _, _, batched, _ = rest
            refused = create_graph or batched
        return None if refused else GradientRequest.of(self.recording, outputs, gradients, bool(keep), inputs)

    def effect(
        self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, flushes: bool = True
    ) -> Any:
        """Call a function, and again at every later call. `flushes`: it may read or write what is on the trace."""
        args = tuple([list(x) if isinstance(x, Iterator) else x for x in args])  # it could be used once only
        self.catch_up()
        if flushes:
            self.flush()
        self._n_effects += fn is not write
        action = Effect(fn, args, kwargs or {}, _inner(CONTEXT.get()))
        action.fill_from(self.slot_of)
        out = self._run(fn, all_plain(args), all_plain(kwargs or {}), action.mode)
        self._log_effect(action, out, filled=True)
        return out

    def _run(
        self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], inner: ExecutionContext
    ) -> Any:
        now = CONTEXT.get()
        try:
            CONTEXT.set(inner)
            return fn(*args, **kwargs)
        finally:
            CONTEXT.set(now)
            self._at = self.recording.trace.position  # what it did on the trace, it will do again
            if self._token is not self.recording.trace.token:
                self._token, self.recorded = self.recording.trace.token, RecordedTrace()

    def log(self, action: Action) -> None:
        self.actions.append(action)
        if not isinstance(action, FlushNow | Close):
            self.moves.append(action.effect if isinstance(action, PlannedBackward) else action)
        self._stretch = None

    def _log_effect(self, action: Effect, out: Any, may_change: bool = True, filled: bool = False) -> None:
        if not filled:
            action.fill_from(lambda x: self.slot_of(x, may_change))
        self._note_results(action, out)
        self.log(action)

    def _note_results(self, action: Effect, out: Any) -> None:
        action.where, action.labels = user_line(), self.labels
        action.gives_none = out is None
        parts = list(enumerate(out)) if isinstance(out, list | tuple) else [(None, out)]
        action.n_results = len(parts)
        for index, t in parts:
            if isinstance(t, Tensor) and self._find(t) is None:
                if self._was_there(t):
                    continue  # handed on
                known = self._known[id(t)] = Provenance(t, self.new_slot(), action.where)
                action.results.append((index, known.slot, t._type))

    def gradient(self, get: Callable[[Tensor], Any], x: Tensor) -> Any:
        """`x.grad`: whatever it is at this point of each call."""
        out = get(x)
        before = self._asked.get(id(x))
        if before is not None and before.holds(self._n_effects, x, out):
            return out
        self.catch_up()
        action = Effect(get, (x,), {}, _inner(CONTEXT.get()))
        action.fill_from(self.slot_of)
        action.where, action.gives_none, action.labels = user_line(), out is None, self.labels
        action.advice = "call zero_grad() at the same place of every call, or leave static=True out"
        if out is not None:
            known = self._known[id(out)] = Provenance(out, self.new_slot())
            action.results.append((None, known.slot, out._type))
        self.log(action)
        self._asked[id(x)] = AskedFor(self._n_effects, x, out)
        return out

    def set_options(self, optimizer: Any) -> None:
        """What the body has set to followed numbers, as `group["lr"] = lr`, is set at every call."""
        self._optimizers[id(optimizer)] = optimizer
        for group in optimizer.param_groups:
            for key, value in list(group.items()):
                if holds_followed(value):
                    self.effect(group.__setitem__, (key, value), flushes=False)

    def may_stay(self, x: Any) -> None:
        """It is given to something that every call gives it to."""
        known = self._find(x) if isinstance(x, Tensor) else None
        if known is not None:
            known.where = None

    # ---- the end

    def end(self) -> None:
        """The body has returned."""
        for optimizer in list(self._optimizers.values()):
            self.set_options(optimizer)
        self.catch_up()

    def position(self) -> TraceNode:
        """Where the trace ended."""
        return self._at

    def keeps(self, outputs: list[Tensor]) -> str | None:
        """Where a tensor was made that is still held by something other than the results; None if there is none."""
        self._asked.clear()
        allowed = set()
        for x in (*outputs, *self.recording.trace.leaves):  # what is returned may hold on to its trace
            allowed.add(id(x))
            if x._alias is not None:
                allowed.add(id(x._alias.base))
        for collect in (False, True):
            if collect:
                gc.collect()
            kept = [k for k in self._known.values() if k.where is not None and k.ref() is not None]
            kept = [k for k in kept if id(k.ref()) not in allowed]
            if not kept:
                return None
        return describe_where(kept[0].where)


def _inner(mode: ExecutionContext) -> ExecutionContext:
    """The mode in which things are done rather than recorded."""
    return ExecutionContext(mode.grad, mode.inference, None, False)
