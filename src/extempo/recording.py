"""A recording: ops become steps on a tape and run later, as a plan where the same tape was met before.

Recorded tensors have a type and no values. Asking for values flushes: a tape that is met for the first time is replayed
op by op with the kernels that eager mode uses; met again, it runs as one plan. The tape is also what backward goes
through, so no nodes are made: a flush keeps, besides what the user still holds, what the gradients of tracked steps
read. Whoever needs real nodes (a hook, `grad_fn`, an op that only eager mode knows, a write into memory that a gradient
reads) closes the tape: it is run, its nodes are linked as eager mode would have linked them, and a new one begins.
A plan never writes to memory from outside, so one that fails has changed nothing, and the replay raises the error.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from time import perf_counter
from types import NoneType
from typing import Any

import numpy as np

from ._tensor import OnTape, Tensor, new
from .accounting import Planning
from .backends.choice import give_back_memory
from .filling import filling
from .flushes import PLANS, Counters, Flush
from .graph import Leaf, Node, Taped, describe_where, next_number
from .lines import user_line
from .linking import link_freed, link_tape
from .modes import MODE, Mode
from .offering import Given, grad_key
from .op import Op
from .planning.building import Backward, Plan, Request, Unplannable, plan, reads
from .replaying import Failed, arguments_of, replay
from .running import NO_ATTRS, alias_of, as_input, cut_reason, run, signature_of
from .storage import Array, Storage
from .tape import LEFT, NONE, NUMBER, LeafKind, State, Step
from .types import TensorType
from .viewing import exact_strides, is_row_major, view_of

_HELD = 3  # references to a result that nobody else holds: the list, the loop's variable, getrefcount's argument
_trie_lock = threading.RLock()
_left_lock = threading.RLock()
_NOBODY_ELSE = nullcontext()
_GATE = State()
_LARGE = 1 << 20


def _flush_known(recording: Recording) -> bool:
    """Whether native code has run what is on the tape."""
    return False


def _backward_known(recording: Recording, place: int, gradient: Array) -> list[tuple[Node, Array]] | None:
    """What native code leaves to do of a backward; None: all."""
    return None


def flush_natively(flush: Callable[..., bool], backward: Callable[..., Any]) -> None:
    """From now on what was met before is run by these functions, which leave to Python what they do not do."""
    global _flush_known, _backward_known
    _flush_known, _backward_known = flush, backward


class Recording(OnTape):
    """One run of a compiled function, as far as it is on the tape."""

    __slots__ = (
        "__weakref__",
        "alive",
        "allowed",
        "arrays",
        "behind",
        "clocks",
        "counters",
        "cursor",
        "decide",
        "given",
        "inside",
        "leaves",
        "makers",
        "memories",
        "nodes",
        "numbers",
        "proxy",
        "results",
        "sweep_at",
        "token",
        "values",
        "versions",
    )

    def __init__(
        self, root: State, counters: Counters, decide: Callable[[Flush, int], bool], new_steps_allowed: int = 1_000_000
    ) -> None:
        self.counters = counters
        self.decide = decide  # whether a flush of so many steps that has no plan gets one now
        self.allowed = new_steps_allowed  # that are still allowed, before this gives up
        self.inside = True  # the compiled function is still running
        self.makers: list[Step] = []  # for each place its step
        self._begin(root)

    def _begin(self, state: State) -> None:
        self.counters.steps += len(self.makers)
        self.cursor = state
        self.behind: State | None = None
        self.results: list[Any] = []  # for each place its tensor; once the function has returned a weak reference
        self.makers = []
        self.leaves: list[Tensor] = []
        self.arrays: list[Array] = []  # of the leaves
        self.nodes: list[Any] = []  # of the leaves, where they are tracked
        self.memories: list[Storage] = []  # of the leaves, with the versions that they had
        self.versions: list[int] = []
        self.numbers: list[Any] = []
        self.values: dict[int, Array] = {}  # what was computed and stays, by place
        self.given: dict[int, Storage] = {}  # the memory of values that someone was given
        self.alive: list[int] = []  # places of tracked tensors that have run and were held then
        self.sweep_at = 1_000
        self.token = object()  # marks leaves; holds nothing
        self.clocks = [(0, next_number())]  # from which place on nodes would have which numbers
        self.proxy = Node(Taped, (), {}, None, (), None)

    # ---- recording

    def apply(self, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any], mode: Mode) -> Any:
        """Put the op on the tape, or run it if that is not possible."""
        with self._alone():
            return self._apply(op, inputs, attrs, mode)

    def _alone(self) -> Any:
        """A tape that was left may be reached by other threads, too."""
        return _NOBODY_ELSE if self.inside else _left_lock

    def _apply(self, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any], mode: Mode) -> Any:
        if self.behind is not None:
            self.cursor, self.behind = self.behind, None
            self.clocks = [(0, next_number())]
        step, state = None, self.cursor
        given = self._inputs(inputs)
        if given is not None:
            step = self._known(state, given, op, attrs, mode)
            if step is None and self.allowed > 0:
                step = self._new_step(state, given, op, attrs, mode)
        if step is None or given is None:
            if self.allowed <= 0:
                self._give_up()
            return self._eagerly(op, inputs, attrs, mode)
        made = self._results(step)  # first: a finalizer that runs here may record, too
        if self.cursor is not state:
            return self._apply(op, inputs, attrs, mode)
        for x in given.fresh:
            self._add_leaf(x)
        if step.baked is None:
            self.numbers += given.numbers
        for place, t in enumerate(made, step.place):
            self._put(step, place, t)
        self.cursor = step.following
        return tuple(made) if type(step.type) is tuple else made[0]

    def _inputs(self, inputs: tuple[Any, ...]) -> Given | None:
        """Where the inputs come from; None if one of them cannot be on a tape."""
        given = Given()
        n_numbers = len(self.numbers)
        for i, x in enumerate(inputs):
            if isinstance(x, Tensor):
                ref = self._ref_of(x, given)
                if ref is None:
                    return None
                given.refs.append(ref)
                given.kinds.append(x._type)
                given.needs |= (type(x._history) is Node) << i
                given.cut = given.cut or x._cut
            elif x is None:
                given.refs.append(NONE)
                given.kinds.append(NoneType)
            elif type(x) in (float, int, bool):
                given.refs.append(NUMBER + n_numbers + len(given.numbers))
                given.kinds.append(type(x))
                given.numbers.append(x)
            else:
                return self._inputs(tuple(map(as_input, inputs)))
        given.inputs = inputs
        return given

    def _ref_of(self, x: Tensor, given: Given) -> int | None:
        if x._pending is self:
            return x._place
        if isinstance(x._pending, OnTape):
            x._pending.close("its result went on in another recording")
        if x._alias is not None:
            x._catch_up()
        if x._pending is self.token:
            place = x._place  # another thread may mark the same tensor at this moment
            k = -1 - place
            if 0 <= k < len(self.arrays) and self.arrays[k] is x._raw and self.nodes[k] is x._history:
                return place
        for k, fresh in enumerate(given.fresh):
            if fresh is x:
                return -1 - len(self.leaves) - k
        array = x._raw
        if type(array) is not np.ndarray or not array.flags.aligned or array.dtype is not x._type.dtype.numpy:
            return None
        given.fresh.append(x)
        given.new_leaves.append(LeafKind(x._type, exact_strides(array), type(x._history) is Node))
        return -len(self.leaves) - len(given.fresh)

    def _known(self, state: State, given: Given, op: type[Op], attrs: dict[str, Any], mode: Mode) -> Step | None:
        """The way from here that is the same op on the same inputs."""
        refs, kinds, new_leaves = tuple(given.refs), tuple(given.kinds), tuple(given.new_leaves)
        for step in state.ways():
            if step.op is not op or step.grad is not grad_key(mode) or step.kinds != kinds or step.attrs != attrs:
                continue
            if step.new_leaves != new_leaves or step.needs != given.needs:
                continue
            if step.baked is None:
                fits = step.refs == refs
            else:
                fits = step.baked == tuple(given.numbers) and step.refs == given.baked_refs()
            if fits:
                with _trie_lock:
                    state.take(step)
                return step
        return None

    def _new_step(self, state: State, given: Given, op: type[Op], attrs: dict[str, Any], mode: Mode) -> Step | None:
        inputs, kinds = given.inputs, tuple(given.kinds)
        if not any(isinstance(k, TensorType) for k in kinds):
            return None
        signature = signature_of(op, inputs, kinds, attrs)
        if signature is None:
            return None
        view, baked, refs = None, None, tuple(given.refs)
        if op.aliases_input:
            if refs[0] < 0 and not (given.needs & 1 and mode.grad):
                return None  # a view of what is there already is made at once
            if not (signature.view is not None or op.name in ("detach", "alias")):
                return None
            varies = bool(given.numbers) and self._has_other_starts(state, given, op, attrs, mode)
            first = len(self.numbers) if varies else None
            view = view_of(op, attrs, kinds[0], self._strides(refs[0], given), given.numbers, first)
            if view is None and signature.kernel is None:
                return None
            if given.numbers and (view is None or not view.starts):
                baked, refs = tuple(given.numbers), given.baked_refs()
        elif signature.kernel is None or (op.keeps_order and not self._in_order(given)):
            return None
        cut = given.cut
        where = user_line()
        if given.needs and op.name == "detach":
            cut = ("detach()", where)
        elif given.needs and not (mode.grad and signature.floating):
            cut = (cut_reason(op, mode), where)
        elif given.needs:
            cut = None
        step = Step(
            op,
            dict(attrs) if attrs else NO_ATTRS,
            refs,
            kinds,
            signature,
            state.n_places,
            given.needs,
            grad_key(mode),
            tuple(given.new_leaves),
            view,
            baked,
            where,
            cut,
        )
        self.counters.new_steps += 1
        self.allowed -= 1
        with _trie_lock:
            return state.add(step)

    def _has_other_starts(self, state: State, given: Given, op: type[Op], attrs: dict[str, Any], mode: Mode) -> bool:
        """Whether the same slice with another start was recorded here before."""
        refs, kinds = given.baked_refs(), tuple(given.kinds)
        return any(
            s.op is op and s.refs == refs and s.kinds == kinds and s.attrs == attrs and s.grad is grad_key(mode)
            for s in state.ways()
        )

    def _strides(self, ref: int, given: Given) -> tuple[int, ...] | None:
        """In bytes; None if the elements lie in order."""
        if ref >= 0:
            return self._strides_at(ref)
        k, known = -1 - ref, len(self.arrays)
        array = self.arrays[k] if k < known else given.fresh[k - known]._raw
        return exact_strides(array)

    def _strides_at(self, place: int) -> tuple[int, ...] | None:
        view = self.makers[place].view
        return None if view is None else view.strides

    def strides_of(self, t: Tensor) -> tuple[int, ...] | None:
        found = self._strides_at(t._place)
        return None if found is None or is_row_major(t._type, found) else found

    def is_view(self, t: Tensor) -> bool:
        return self.makers[t._place].view is not None

    def _in_order(self, given: Given) -> bool:
        tensors = [r for r, k in zip(given.refs, given.kinds, strict=True) if isinstance(k, TensorType)]
        for ref in tensors:
            strides = self._strides(ref, given)
            if strides is not None and not is_row_major(given.kinds[given.refs.index(ref)], strides):
                return False
        return True

    def _add_leaf(self, x: Tensor) -> None:
        self.leaves.append(x)
        self.arrays.append(x._raw)
        self.nodes.append(x._history)
        self.memories.append(x._memory)
        self.versions.append(x._memory.version)
        x._place = -len(self.leaves)
        x._pending = self.token

    def _results(self, step: Step) -> list[Tensor]:
        types = step.type if type(step.type) is tuple else (step.type,)
        return [self._result(step, t, step.place + i) for i, t in enumerate(types)]

    def _result(self, step: Step, type_: TensorType, place: int) -> Tensor:
        t = new(Tensor)
        t._raw = t._memory = t._alias = None
        t._type = type_
        t._history = self.proxy if step.tracked and type_.dtype.is_floating_point else None
        t._cut = step.cut
        t._pending = self
        t._place = place
        return t

    def _put(self, step: Step, place: int, t: Tensor) -> None:
        if self.inside:
            self.results.append(t)
        else:  # nodes that were linked since then come before
            self.results.append(weakref.ref(t))
            self.clocks.append((place, next_number()))
        self.makers.append(step)

    def _give_up(self) -> None:
        """Too much is new to be worth recording: the rest of the function runs eagerly."""
        self.close("too much was new")
        mode = MODE.get()
        if mode.recording is self:
            MODE.set(mode.but(recording=None))

    def _eagerly(self, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any], mode: Mode) -> Any:
        """Run the op now. A node that it links must come after those of everything on the tape."""
        inputs = tuple(map(as_input, inputs))
        if mode.grad and any(isinstance(x, Tensor) and type(x._history) is Node for x in inputs):
            self.close(f"{op.name} runs eagerly")
            self._wait_for_first_step()
        return run(op, inputs, attrs, mode.but(recording=None))

    # ---- running

    def settle(self, t: Tensor) -> None:
        if not _flush_known(self):
            self.flush()

    def read(self, t: Tensor) -> Array:
        if not _flush_known(self):
            self.flush()
        return t._raw

    def held(self, place: int) -> Tensor | None:
        """The tensor at that place, if someone else has it."""
        t = self.results[place]
        if not self.inside:
            return None if t is None else t()
        return t if t is not None and sys.getrefcount(t) > _HELD else None

    def _live(self, first: int) -> bytes:
        """For each place from `first` on, whether someone holds its tensor."""
        if self.inside:
            count = sys.getrefcount
            return bytes([count(t) > _HELD + 1 for t in self.results[first:]])  # the slice holds them, too
        return bytes([t is not None and t() is not None for t in self.results[first:]])

    def flush(self) -> None:
        """Run everything that has not run yet."""
        with self._alone():
            self._flush()

    def _flush(self) -> None:
        if _flush_known(self):
            return
        state = self.cursor
        first = state.n_run
        if first == state.n_places:
            return
        live = self._live(first)[: state.n_places - first]
        found = state.events.get(live)
        if found is None:
            found = state.remember(live, self._first_flush(first, live, state.after_flush(), None))
        values = dict(zip(found.wanted, self._run(found, state, first), strict=True))
        if found.plan is not None and found.filling is None:
            found.filling = filling(found, self.makers, first, state.n_places)
        if self.cursor is not state:  # a finalizer that ran meanwhile has recorded or flushed
            self._flush()
            return
        self.values.update(values)
        self.cursor = found.following
        self._fill(found.held)
        self._let_go(first, live)
        self.alive += found.tracked
        if len(self.makers) > self.sweep_at:
            self._sweep()

    def _first_flush(self, first: int, live: bytes, following: State, backward: Backward | None) -> Flush:
        held = [first + i for i, alive in enumerate(live) if alive]
        tracked = [p for p in held if self.makers[p].tracked]
        stay = {self.base(p) for p in held}
        freed = frozenset() if backward is None else frozenset(s.place for s in self.reached([backward.root]))
        if backward is None:
            for step in self.reached(tracked, first):
                stay.update(self.base(ref) for ref in reads(step) if 0 <= ref < NUMBER)
        return Flush(tuple(sorted(p for p in stay if p >= first)), tracked, held, following, backward, freed)

    def _sweep(self) -> None:
        """In a long run without an end, let go of what only backwards that nobody can ask for any more would read."""
        self.alive = [p for p in self.alive if self.held(p) is not None]
        stay = {self.base(p) for p in self.alive}
        for step in self.reached(self.alive):
            stay.update(self.base(ref) for ref in reads(step))
        self.values = {p: array for p, array in self.values.items() if p in stay}
        self.sweep_at = 2 * len(self.makers)

    def base(self, ref: int) -> int:
        """The place (or leaf) whose memory a value lies in."""
        while ref >= 0 and self.makers[ref].view is not None:
            ref = self.makers[ref].refs[0]
        return ref

    def reached(self, places: Iterable[int], first: int = 0) -> list[Step]:
        """The tracked steps from place `first` on that these places depend on."""
        seen: set[int] = set()
        found: list[Step] = []
        stack = list(places)
        while stack:
            place = stack.pop()
            step = self.makers[place]
            if step.place in seen or place < first or not step.tracked:
                continue
            seen.add(step.place)
            found.append(step)
            for i, ref in enumerate(step.refs):
                if 0 <= ref < NUMBER and step.needs >> i & 1:
                    stack.append(ref)
        return found

    def _run(self, found: Flush, state: State, first: int) -> list[Any]:
        """The values of `found.wanted`, and with a backward the gradients after them."""
        if found.plan is None and self._plans_now(found, first):
            self._make_plan(found, state, first, wait=False)
        if found.plan is not None:
            leaves, values = self.arrays, self.values
            arrays = [values[ref] if ref >= 0 else leaves[-1 - ref] for ref in found.plan.inputs]
            out = found.plan.run(arrays, self.numbers)
            if type(out) is list:
                self.counters.runs += 1
                return out
            self.counters.failed += 1
        self.counters.replays += 1
        return replay(self, found, state, first)

    def _plans_now(self, found: Flush, first: int) -> bool:
        """Whether a flush that has no plan gets one now."""
        if found.waiting is not None:
            return True
        return found.reason is None and self.decide(found, len(self.makers) - first)

    def _make_plan(self, found: Flush, state: State, first: int, wait: bool = True) -> None:
        """Plan a flush. Unless it may wait for LLVM, there may be no plan before a later time that it is wished for."""
        began, waiting = perf_counter(), found.waiting
        made = self._planned(found, state, first, wait) if waiting is None else waiting.completed(wait)
        seconds = perf_counter() - began
        n_steps = len(self.makers) if found.backward else len(self.makers) - first
        self.counters.planning_seconds += seconds
        if waiting is None and not isinstance(made, Unplannable):
            self.counters.invested += Planning.learn(n_steps, seconds)
        found.waiting = None
        if isinstance(made, Unplannable):
            found.reason = made.reason
            self.counters.no_plan(made.reason)
        elif not made.is_complete:
            found.waiting = made
            PLANS.add(found)
        else:
            found.plan = made
            PLANS.add(found)
            if made.arena_bytes > _LARGE:  # the free blocks that op by op needed do not fit it
                give_back_memory()
            self.counters.planned(made, n_steps, seconds)

    def _planned(self, found: Flush, state: State, first: int, wait: bool) -> Plan | Unplannable:
        steps = state.steps()
        start = next((i for i, s in enumerate(steps) if s.place >= first), len(steps))
        leaves = [kind for s in steps for kind in s.new_leaves]
        if found.backward is not None:
            leaves.append(LeafKind(self._type_of(found.backward.root), None, False))
        return plan(Request(steps, start, leaves, frozenset(self.values), found.wanted, found.backward), wait)

    def node_numbers(self) -> list[float]:
        """For each place the number of its node: after all nodes that were there when it was recorded."""
        found: list[float] = []
        clocks = iter([*self.clocks, (len(self.makers), 0)])
        now, (following, number) = 0.0, next(clocks)
        for place, step in enumerate(self.makers):
            while place >= following:
                now = max(now, number)
                following, number = next(clocks)
            for ref in step.refs:
                if NONE < ref < 0 and type(self.nodes[-1 - ref]) is Node:
                    now = max(now, self.nodes[-1 - ref].number)
            found.append(now + (place + 1) * 2.0**-30)
        return found

    def is_floating(self, place: int) -> bool:
        return self._type_of(place).dtype.is_floating_point

    def _type_of(self, place: int) -> TensorType:
        step = self.makers[place]
        return step.type[place - step.place] if type(step.type) is tuple else step.type

    def _fail(self, step: Step, values: dict[int, Any], first: int, error: Exception) -> None:
        """What was recorded before the step stands; it and what came after have no values."""
        if step.where is not None:
            error.add_note(f"{step.op.name} was recorded at {describe_where(step.where)}")
        failed = Failed(error)
        for place in range(step.place, len(self.results)):
            t = self.held(place)
            if t is not None and t._raw is None:
                t._pending, t._history = failed, None
        del self.results[step.place :], self.makers[step.place :]
        self.values = values
        live = self._live(first)
        places = [p for p, alive in enumerate(live, first) if alive]
        self._fill(places)
        self._let_go(first, live)
        self.alive += [p for p in places if self.makers[p].tracked]
        link_tape(self)
        self._over(State())

    def _fill(self, places: list[int]) -> None:
        """Give tensors that are held their values."""
        for place in places:
            t = self.results[place] if self.inside else self.results[place]()
            if t is not None and t._raw is None:
                self._give(t, place)

    def _let_go(self, first: int, live: bytes) -> None:
        """From place `first` on, keep only tensors that are held and tracked."""
        stop, makers = first + len(live), self.makers  # a finalizer may have recorded more meanwhile
        waiting = self.results[first:stop]
        kept: list[Any] = [None] * len(waiting)
        for i, t in enumerate(waiting):
            if not makers[first + i].tracked:
                continue
            if live[i]:
                kept[i] = t
            elif self.inside and t._raw is not None:  # the base of a view that is held
                kept[i] = t
                self.alive.append(first + i)
        self.results[first:stop] = kept

    def _give(self, t: Tensor, place: int) -> None:
        step = self.makers[place]
        if step.view is None:
            t._raw = self.values[place]
            t._memory = self.given[place] = Storage(t._raw)
        else:
            source = self._tensor_at(step.refs[0])
            numbers = tuple(arguments_of(self, step, self.values)[1:])
            t._raw = step.op.numpy(source._raw, *numbers, **step.attrs)
            t._memory = source._memory
            if step.op.name != "detach":
                t._alias = alias_of(source, step.op, numbers, step.attrs)
        if not step.tracked:
            t._pending = None

    def _tensor_at(self, ref: int) -> Tensor:
        """The tensor at a place, made anew if it is gone, or a leaf."""
        if ref < 0:
            return self.leaves[-1 - ref]
        t = self.results[ref] if self.inside else self.held(ref)
        if t is None:
            t = self._unheld(ref)
        if t._raw is None:
            self._give(t, ref)
        return t

    def _unheld(self, place: int) -> Tensor:
        step = self.makers[place]
        t = new(Tensor)
        t._raw = t._memory = t._alias = t._pending = t._cut = None
        t._type = self._type_of(place)
        t._history = None
        if step.tracked:
            t._history, t._pending, t._place = self.proxy, self, place
            self.results[place] = t if self.inside else weakref.ref(t)
            self.alive.append(place)
        return t

    # ---- backward

    def backward(self, root: Tensor, gradient: Array) -> list[tuple[Node, Array]] | None:
        """The gradients of the leaves that `root` depends on, by one plan; None: the engine has to do it.

        After it the tape is over: what is still held has its values and freed nodes, as after any backward.
        """
        if self.inside:
            return self._backward(root, gradient)
        with _left_lock:  # as if the function were still running
            self.results = [None if ref is None else ref() for ref in self.results]
            for place in range(self.cursor.n_run, len(self.results)):
                if self.results[place] is None:
                    self.results[place] = self._result(self.makers[place], self._type_of(place), place)
            self.inside = True
            found = self._backward(root, gradient)
            if found is None:
                self._wait()
            return found

    def _backward(self, root: Tensor, gradient: Array) -> list[tuple[Node, Array]] | None:
        state, place = self.cursor, root._place
        rest = _backward_known(self, place, gradient)
        if rest is not None:
            if self.alive:
                link_freed(self)
            self._over(self.cursor)
            return rest
        began, n_first = self.clocks[0][1], len(self.makers[0].new_leaves)
        for k, node in enumerate(self.nodes):
            if type(node) is Node:
                if node.extra is not None and (node.extra.hooks or node.extra.retain):
                    return None
                if k >= n_first and node.number > began and node.op is not Leaf:
                    return None  # linked while this was recorded: its gradients may come before some of the tape's
        first = state.n_run
        live = self._live(first)[: state.n_places - first]
        key = (place, live)
        found = state.events.get(key)
        if found is None:
            seed = -1 - state.n_leaves
            made = self._first_flush(first, live, State(), Backward(place, seed))
            found = state.remember(key, made)
        if found.plan is None:
            if not self._plans_now(found, first):
                return None
            self._make_plan(found, state, first, wait=False)
            if found.plan is None:
                return None
        held = [p for p in self.alive if self.held(p) is not None]
        if not found.frees_all or any(self.makers[p].place not in found.freed for p in held):
            return None  # something else that is held would lose its tape
        leaves, values = [*self.arrays[: state.n_leaves], gradient], self.values
        arrays = [values[ref] if ref >= 0 else leaves[-1 - ref] for ref in found.plan.inputs]
        out = found.plan.run(arrays, self.numbers)
        if type(out) is not list:
            self.counters.failed += 1
            return None
        self.counters.runs += 1
        if found.filling is None:
            found.filling = filling(found, self.makers, first, state.n_places)
        if self.cursor is not state:  # a finalizer that ran meanwhile has recorded or flushed
            return None
        self.values.update(zip(found.wanted, out, strict=False))
        self.alive = held
        self._fill(found.held)
        gradients = [(self.nodes[k], g) for k, g in zip(found.plan.gradients, out[len(found.wanted) :], strict=True)]
        self._let_go(first, live)
        self.alive += found.tracked
        link_freed(self)
        self._over(found.following)
        return gradients

    # ---- the end of a tape

    def link(self, t: Tensor) -> None:
        self.close("a node was asked for")

    def close(self, why: str) -> None:
        """Run everything, give every tensor that is held its node, and begin a new tape."""
        with self._alone():
            self._close(why)

    def _close(self, why: str) -> None:
        self._flush()
        state = self.cursor
        if state.n_places == 0 and state.parent is None:
            return
        self.counters.close(why)
        link_tape(self)
        following = state.events.get("closed")
        if following is None:
            following = state.remember("closed", State())
        self._over(following)

    def _over(self, following: State) -> None:
        """The tape is not needed any more; every tensor that is held has what it needs."""
        for place in self.alive:
            t = self.results[place]
            if not self.inside and t is not None:
                t = t()
            if t is not None and t._pending is self:
                t._pending = None
        self._begin(following)
        self._wait_for_first_step()

    def _wait_for_first_step(self) -> None:
        """The first step must be noticed, to know which nodes were there before: no known way leads on from here."""
        if not self.makers and self.behind is None:
            self.cursor, self.behind = _GATE, self.cursor

    def leave(self) -> None:
        """The function returned. What is tracked and not run yet may wait: a loss and a backward may follow."""
        if not self.makers:
            return
        first = self.cursor.n_run
        live = self._live(first)
        waits = any(alive and self.makers[p].tracked for p, alive in enumerate(live, first))
        if not waits:
            self.flush()
            if not any(self.held(p) is not None for p in self.alive):
                self._over(State())
                return
        self._wait()
        number = id(self)
        LEFT[number] = weakref.ref(self, lambda _: LEFT.pop(number, None))

    def _wait(self) -> None:
        """Hold tensors weakly from now on: whoever forgets them all forgets the tape."""
        self.results = [None if self.held(p) is None else weakref.ref(t) for p, t in enumerate(self.results)]
        self.inside = False

    def forget_leaves(self, storages: Iterable[Storage] | None) -> None:
        """Leaves on memory that is about to change are others afterwards."""
        for x, memory in zip(self.leaves, self.memories, strict=True):
            if x._pending is self.token and (storages is None or any(memory is s for s in storages)):
                x._pending = None

    def reads_memory(self, storage: Storage) -> bool:
        """Whether the tape would notice a write into that memory."""
        for step in self.makers:
            if step.tracked:
                for base in map(self.base, reads(step)):
                    if (self.memories[-1 - base] if base < 0 else self.given.get(base)) is storage:
                        return True
        return any((t := self.held(p)) is not None and t._memory is storage for p in self.alive)
