"""Trace: the values of one traced call.

For each value the op that makes it and its tensor: a strong reference while the function runs, a weak one after. For
each leaf its tensor, array, storage and version. A value is live if someone outside refers to its tensor, which its
reference count tells.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from sys import getrefcount
from typing import Any

from ..core import active_traces
from ..core.graph import Node, Traced, next_number
from ..core.layout import is_row_major
from ..core.storage import Array, Storage
from ..core.tensor import LazySource, Tensor, layout_of, new
from ..core.trace_tree import NUMBER, TraceNode, TraceOp
from ..core.types import TensorType
from ..dispatch.dispatcher import alias_of
from ..scheduling.request import reads
from .interpreter import arguments_of
from .segment import Counters


def _of_list_and_variable() -> int:
    held = [object()]
    one = held[0]
    return getrefcount(one)


HELD = _of_list_and_variable()  # references to a result that a list and a variable have, nobody else
_OWN = 2  # references to what one attribute alone refers to: that, and getrefcount's argument
_NOBODY_ELSE = nullcontext()


def _leads_to(node: Node, known: dict[Node, bool]) -> bool:
    """Whether a gradient goes on from a node to one that is known to be asked for; `known` grows."""
    stack = [node]
    while stack:
        now = stack[-1]
        inputs = () if now in known else [i for i in now.inputs if type(i) is Node]
        unknown = [i for i in inputs if i not in known]
        stack += unknown
        if not unknown:
            known[now] = known.get(now) or any(known[i] for i in inputs)
            stack.pop()
    return known[node]


def _meets_freed(nodes: list[Node]) -> bool:
    """Whether a backward through these would come to a node that another one has freed."""
    seen = set(nodes)
    stack = list(seen)
    while stack:
        node = stack.pop()
        if node.saved is None:
            return True
        further = {i for i in node.inputs if type(i) is Node} - seen
        seen |= further
        stack += further
    return False


class WriteIndex:
    """What a tape has found out for writes: in a loop that writes, each of them looks at what is new since the last."""

    def __init__(self) -> None:
        self.tracked: set[Storage] = set()  # of leaves
        self.steps: list[TraceOp] = []  # that are tracked
        self._n_leaves, self._n_steps = 0, 0  # that were looked at
        self._seen: dict[Storage, int] = {}  # for memory that was written: how many leaves there were then

    def leaves_since(self, storage: Storage, memories: list[Storage]) -> list[int]:
        """The leaves on this memory that are new since this was asked last."""
        first, n_leaves = self._seen.get(storage, 0), len(memories)
        self._seen[storage] = n_leaves
        return [k for k in range(first, n_leaves) if memories[k] is storage] if storage in memories else []

    def look_at(self, tape: Trace) -> None:
        for k in range(self._n_leaves, len(tape.memories)):
            if type(tape.nodes[k]) is Node:
                self.tracked.add(tape.memories[k])
        self.steps += [step for step in tape.makers[self._n_steps :] if step.tracked]
        self._n_leaves, self._n_steps = len(tape.memories), len(tape.makers)


class Trace(LazySource):
    """The tape of one run of a compiled function."""

    __slots__ = (
        "__weakref__",
        "alive",
        "arrays",
        "behind",
        "clocks",
        "counters",
        "cursor",
        "decide",
        "given",
        "inside",
        "is_left",
        "leaves",
        "left_at",
        "makers",
        "memories",
        "most_new_steps",
        "most_replaying",
        "n_allowed",
        "n_left",
        "nodes",
        "numbers",
        "proxy",
        "replaying_left",
        "results",
        "sweep_at",
        "token",
        "unplanned",
        "values",
        "versions",
        "written",
    )

    def __init__(
        self,
        root: TraceNode,
        counters: Counters,
        decide: Callable[..., bool],
        most_new_steps: Callable[[], int] | None = None,
        most_replaying: Callable[[], float] | None = None,
    ) -> None:
        self.counters = counters
        self.decide = decide  # whether a flush of so many steps that has no plan (or its sizes) gets one now
        self.most_new_steps = most_new_steps  # that are allowed, before this gives up; asked when there is one
        self.n_allowed: int | None = None  # that are left
        self.most_replaying = most_replaying  # seconds of running op by op; asked when there are some
        self.replaying_left: float | None = None
        self.inside = True  # the compiled function is still running, or a backward is as if it were
        self.is_left = False  # it has returned
        self.makers: list[TraceOp] = []  # for each place its step
        self.n_left = 0  # of these, counted as left when the function returned
        self.left_at: TraceNode | None = None  # where it was then
        self.proxy = Node(Traced, (), {}, None, (), None)  # of every tensor on the tape that is tracked
        self._begin(root)

    def _begin(self, state: TraceNode) -> None:
        self.counters.steps += len(self.makers)
        if self.n_left:
            self.counters.left_steps -= self.n_left
            self.n_left = 0
        if self.left_at is not None:
            self.counters.went_on(self.left_at, state)
            self.left_at = None
        self.cursor = state
        self.behind: TraceNode | None = None
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
        self.written: WriteIndex | None = None
        self.unplanned = False  # a backward of it had no plan yet
        self.sweep_at = 1_000
        self.token = object()  # marks leaves; holds nothing
        self.clocks = [(0, next_number())]  # from which place on nodes would have which numbers
        if getrefcount(self.proxy) > _OWN:  # a tensor that is held stays with it
            self.proxy = Node(Traced, (), {}, None, (), None)

    def begin_again(self, root: TraceNode, decide: Callable[..., bool]) -> None:
        """As if it were new, for another call of the same function: its last tape is over and nobody else has it."""
        self.cursor, self.behind, self.decide = root, None, decide
        self.n_allowed = self.replaying_left = None
        self.clocks = [(0, next_number())]

    @property
    def is_empty(self) -> bool:
        """Whether nothing is on its tape, nor marked as read by it."""
        return not self.makers and not self.leaves and not self.is_left

    def _alone(self) -> Any:
        """A tape that was left may be reached by other threads, too."""
        return active_traces.escaped_lock if self.is_left else _NOBODY_ELSE

    # ---- the steps

    def base(self, ref: int) -> int:
        """The place (or leaf) whose memory a value lies in."""
        while ref >= 0 and self.makers[ref].view is not None:
            ref = self.makers[ref].refs[0]
        return ref

    def reached(self, places: Iterable[int], first: int = 0) -> list[TraceOp]:
        """The tracked steps from place `first` on that these places depend on."""
        seen: set[int] = set()
        found: list[TraceOp] = []
        stack, makers = list(places), self.makers
        while stack:
            place = stack.pop()
            step = makers[place]
            if step.place in seen or place < first or not step.tracked:
                continue
            seen.add(step.place)
            found.append(step)
            needs = step.needs
            for ref in step.refs:
                if needs & 1 and 0 <= ref < NUMBER:
                    stack.append(ref)
                needs >>= 1
        return found

    def passed(self, root: int, asked: tuple[int, ...] | None) -> frozenset[int]:
        """The steps, by place, that a backward from `root` goes through on its way to all leaves, or to these refs."""
        reached = self.reached([root])
        if asked is None:
            return frozenset([step.place for step in reached])
        found: set[int] = set()
        leading = set(asked)
        for step in sorted(reached, key=lambda step: step.place):
            if any(ref in leading for i, ref in enumerate(step.refs) if step.needs >> i & 1):
                found.add(step.place)
                leading.update(range(step.place, step.place + step.n_results))
        return frozenset(found)

    def _refs_of(self, inputs: Sequence[Tensor]) -> tuple[int, ...]:
        """The places of these tensors, and the leaves that lead to them, in order; none if a leaf's graph was freed."""
        if _meets_freed([node for node in self.nodes if type(node) is Node]):
            return ()
        places = {x._value_id for x in inputs if x._history is self.proxy}
        known = {x._own_node(): True for x in inputs if x._history is not self.proxy}
        leaves = [-1 - k for k, node in enumerate(self.nodes) if type(node) is Node and _leads_to(node, known)]
        return tuple(sorted([*leaves, *places]))

    def _type_of(self, place: int) -> TensorType:
        step = self.makers[place]
        return step.type[place - step.place] if type(step.type) is tuple else step.type

    def is_floating(self, place: int) -> bool:
        return self._type_of(place).dtype.is_floating_point

    def _strides_at(self, place: int) -> tuple[int, ...] | None:
        return self.makers[place].strides

    def strides_of(self, t: Tensor) -> tuple[int, ...] | None:
        with self._alone():
            if t._data is not None:  # another thread was faster
                return layout_of(t)
            found = self._strides_at(t._value_id)
            return None if found is None or is_row_major(t._type, found) else found

    def is_view(self, t: Tensor) -> bool:
        with self._alone():
            return t._alias is not None if t._data is not None else self.makers[t._value_id].view is not None

    def node_numbers(self) -> Callable[[int], float]:
        """For places, asked in their order, the numbers of their nodes: after all that were there when recorded."""
        nodes, makers, clocks = self.nodes, self.makers, self.clocks
        highest, n_leaves, n_clocks = 0.0, 0, 0

        def number(place: int) -> float:
            nonlocal highest, n_leaves, n_clocks
            n_before, n_leaves = n_leaves, makers[place].following.n_leaves
            for node in nodes[n_before:n_leaves]:
                if type(node) is Node:
                    highest = max(highest, node.number)
            while n_clocks < len(clocks) and clocks[n_clocks][0] <= place:
                highest = max(highest, clocks[n_clocks][1])
                n_clocks += 1
            return highest + (place + 1) * 2.0**-30

        return number

    # ---- the tensors

    def _result(self, step: TraceOp, type_: TensorType, place: int) -> Tensor:
        t = new(Tensor)
        t._data = t._memory = t._alias = None
        t._type = type_
        t._history = self.proxy if step.tracked and type_.dtype.is_floating_point else None
        t._grad_barrier = step.cut
        t._source = self
        t._value_id = place
        return t

    def _make_bases(self) -> None:
        """Tensors for places that nobody holds, but views of them that are to get values."""
        first, makers, results = self.cursor.n_run, self.makers, self.results
        for place, t in enumerate(results):
            if t is None:
                continue
            while makers[place].view is not None and (place := makers[place].refs[0]) >= first:
                if results[place] is None:
                    results[place] = self._result(makers[place], self._type_of(place), place)

    def held(self, place: int) -> Tensor | None:
        """The tensor at that place, if someone else has it."""
        t = self.results[place]
        if not self.inside:
            return None if t is None else t()
        return t if t is not None and getrefcount(t) > HELD else None

    def _live(self, first: int) -> bytes:
        """For each place from `first` on, whether someone holds its tensor."""
        if self.inside:
            held = HELD + 1  # the slice holds them, too
            return bytes([t is not None and getrefcount(t) > held for t in self.results[first:]])
        return bytes([t is not None and t() is not None for t in self.results[first:]])

    def _fill(self, places: list[int]) -> None:
        """Give tensors that are held their values."""
        for place in places:
            t = self.results[place] if self.inside else self.results[place]()
            if t is not None and t._data is None:
                self._give(t, place)

    def _give(self, t: Tensor, place: int) -> None:
        step = self.makers[place]
        if step.view is None:
            t._data = self.values[place]
            memory = self.given.get(place)  # of a tensor that is gone; what looks at the same memory may not be
            if memory is None:
                memory = self.given[place] = Storage(t._data)
            t._memory = memory
        else:
            source = self._tensor_at(step.refs[0])
            numbers = tuple(arguments_of(self, step, self.values)[1:])
            t._data = step.op.numpy(source._data, *numbers, **step.attrs)
            t._memory = source._memory
            if step.op.name != "detach":
                t._alias = alias_of(source, step.op, numbers, step.attrs)
        if not step.tracked:
            t._source = None

    def _tensor_at(self, ref: int) -> Tensor:
        """The tensor at a place, made anew if it is gone, or a leaf."""
        if ref < 0:
            return self.leaves[-1 - ref]
        t = self.results[ref] if self.inside else self.held(ref)
        if t is None:
            t = self._unheld(ref)
        if t._data is None:
            self._give(t, ref)
        return t

    def _unheld(self, place: int) -> Tensor:
        step = self.makers[place]
        t = new(Tensor)
        t._data = t._memory = t._alias = t._source = t._grad_barrier = None
        t._type = self._type_of(place)
        t._history = None
        if step.tracked:
            t._history, t._source, t._value_id = self.proxy, self, place
            self.results[place] = t if self.inside else weakref.ref(t)
            self.alive.append(place)
        return t

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
            elif not self.inside:
                kept[i] = t  # that of a base of a view that is held, made for it and noted as alive by then
            elif t is not None and t._data is not None:  # the base of a view that is held
                kept[i] = t
                self.alive.append(first + i)
        self.results[first:stop] = kept

    def _sweep(self) -> None:
        """In a long run without an end, let go of what only backwards that nobody can ask for any more would read."""
        self.alive = [p for p in self.alive if self.held(p) is not None]
        stay = {self.base(p) for p in self.alive}
        for step in self.reached(self.alive):
            stay.update(self.base(ref) for ref in reads(step))
        self.values = {p: array for p, array in self.values.items() if p in stay}
        self.sweep_at = 2 * len(self.makers)

    # ---- the memory

    def forget_leaves(self, storages: Iterable[Storage] | None) -> None:
        """Leaves on memory that is about to change are others afterwards."""
        if storages is None:
            marked: Iterable[Tensor] = self.leaves
        else:
            if self.written is None:
                self.written = WriteIndex()
            marked = [self.leaves[k] for s in storages for k in self.written.leaves_since(s, self.memories)]
        for x in marked:
            if x._source is self.token:
                x._source = None

    def looks_at(self, storage: Storage) -> bool:
        """Whether steps that have not run may read that memory."""
        if self.cursor.n_run == self.cursor.n_places:
            return False
        return any(m is storage for m in self.memories) or any(m is storage for m in self.given.values())

    def reads_memory(self, storage: Storage) -> bool:
        """Whether the tape would notice a write into that memory.

        A tracked leaf that is written would be two leaves, and the sum of its gradients not taken in eager's order.
        """
        if self.written is None:
            self.written = WriteIndex()
        self.written.look_at(self)
        if storage in self.written.tracked:
            return True
        for step in self.written.steps:
            for base in map(self.base, reads(step)):
                if (self.memories[-1 - base] if base < 0 else self.given.get(base)) is storage:
                    return True
        return any((t := self.held(p)) is not None and t._memory is storage for p in self.alive)
