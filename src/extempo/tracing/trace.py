"""Trace: the values of one traced call.

For each value the op that makes it and its tensor: a strong reference while the function runs, a weak one after. For
each leaf its tensor, array, storage and version. A value is live if someone outside refers to its tensor, which its
reference count tells.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from sys import getrefcount
from typing import Any

from ..core.graph import Node, Traced, next_number
from ..core.storage import Array, Storage
from ..core.tensor import LazySource, Tensor, new
from ..core.trace_tree import NUMBER, TraceNode, TraceOp
from ..core.types import TensorType
from ..dispatch.dispatcher import alias_of
from ..scheduling.request import reads
from .interpreter import arguments_of


def _of_list_and_variable() -> int:
    listed = [object()]
    one = listed[0]
    return getrefcount(one)


_OWN = _of_list_and_variable()  # references to a result that a list and a variable have, nobody else
GATE = TraceNode()
ENDED = TraceNode()  # where a trace stands that is over: nothing fits there


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
    """What a trace knows of memory that is written: in a loop that writes, each write looks at what is new since."""

    def __init__(self) -> None:
        self.tracked: set[Storage] = set()  # of leaves
        self.steps: list[TraceOp] = []  # that are tracked
        self._n_leaves, self._n_steps = 0, 0  # that were looked at
        self._n_seen: dict[Storage, int] = {}  # for memory that was written: how many leaves there were then

    def leaves_since(self, storage: Storage, memories: list[Storage]) -> list[int]:
        """The leaves on this memory that are new since this was asked last."""
        first, n_leaves = self._n_seen.get(storage, 0), len(memories)
        self._n_seen[storage] = n_leaves
        return [k for k in range(first, n_leaves) if memories[k] is storage] if storage in memories else []

    def look_at(self, trace: Trace) -> None:
        for k in range(self._n_leaves, len(trace.memories)):
            if type(trace.nodes[k]) is Node:
                self.tracked.add(trace.memories[k])
        self.steps += [step for step in trace.makers[self._n_steps :] if step.tracked]
        self._n_leaves, self._n_steps = len(trace.memories), len(trace.makers)


class Trace:
    """What one traced call has computed or is to compute, since it began or was closed last.

    It knows nobody: where a tensor of it must refer to who gives it its values, that is passed as `source`. (The
    executor refers to its trace, and reference counts alone are to free both.)
    """

    __slots__ = (
        *("alive", "arrays", "behind", "clocks", "cursor", "inside", "leaves", "makers", "memories"),
        *("nodes", "numbers", "proxy", "results", "storages", "sweep_at", "token", "unplanned", "values"),
        *("versions", "write_index"),
    )

    def __init__(
        self, cursor: TraceNode, behind: TraceNode | None = None, inside: bool = True, proxy: Node | None = None
    ) -> None:
        self.cursor = cursor  # where it stands in the trace tree
        self.behind = behind  # the same, while a gate stands there; see `set_gate`
        self.inside = inside  # the compiled function is still running, or a backward is as if it were
        self.proxy = Node(Traced, (), {}, None, (), None) if proxy is None else proxy  # of every tracked tensor
        self.results: list[Any] = []  # for each value its tensor; once the function has returned a weak reference
        self.makers: list[TraceOp] = []  # for each value its op
        self.leaves: list[Tensor] = []
        self.arrays: list[Array] = []  # of the leaves
        self.nodes: list[Any] = []  # of the leaves, where they are tracked
        self.memories: list[Storage] = []  # of the leaves, with the versions that they had
        self.versions: list[int] = []
        self.numbers: list[Any] = []
        self.values: dict[int, Array] = {}  # what was computed and stays, by value id
        self.storages: dict[int, Storage] = {}  # the memory of values that a tensor has or had
        self.alive: list[int] = []  # tracked values that have run, and whose tensors were live then
        self.write_index: WriteIndex | None = None
        self.unplanned = False  # a backward of it had no plan yet
        self.sweep_at = 1_000
        self.token = object()  # marks leaves; refers to nothing
        self.clocks = [(0, next_number())]  # from which value on nodes would have which numbers

    def begin_again(self, root: TraceNode) -> None:
        """As if it were new: it is empty, and begins at `root` now."""
        self.cursor, self.behind = root, None
        self.clocks = [(0, next_number())]

    def set_gate(self) -> None:
        """Have Python notice the first op, to know which nodes were there before: no edge leads on from a gate."""
        if not self.makers and self.behind is None:
            self.cursor, self.behind = GATE, self.cursor

    def pass_gate(self) -> None:
        """The first op is there."""
        if self.behind is not None:
            self.cursor, self.behind = self.behind, None
            self.clocks = [(0, next_number())]

    @property
    def position(self) -> TraceNode:
        """Where it stands in the trace tree, gate or no gate."""
        return self.cursor if self.behind is None else self.behind

    # ---- the ops

    def base(self, ref: int) -> int:
        """The value or leaf whose memory this one is in: itself, unless it is a view."""
        while ref >= 0 and self.makers[ref].view is not None:
            ref = self.makers[ref].refs[0]
        return ref

    def reached(self, places: Iterable[int], first: int = 0) -> list[TraceOp]:
        """The tracked ops from value `first` on that these values depend on."""
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
        """The ops, by their first values, that a backward from `root` passes: to all leaves, or to these refs."""
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

    def refs_of(self, inputs: Sequence[Tensor]) -> tuple[int, ...]:
        """The values of these tensors, and the leaves that lead to them, in order; none if a leaf's graph was freed."""
        if _meets_freed([node for node in self.nodes if type(node) is Node]):
            return ()
        places = {x._value_id for x in inputs if x._history is self.proxy}
        known = {x._own_node(): True for x in inputs if x._history is not self.proxy}
        leaves = [-1 - k for k, node in enumerate(self.nodes) if type(node) is Node and _leads_to(node, known)]
        return tuple(sorted([*leaves, *places]))

    def type_of(self, place: int) -> TensorType:
        step = self.makers[place]
        return step.type[place - step.place] if type(step.type) is tuple else step.type

    def is_floating(self, place: int) -> bool:
        return self.type_of(place).dtype.is_floating_point

    def node_numbers(self) -> Callable[[int], float]:
        """For values, asked in their order, the numbers of their nodes: after all nodes that were there when traced."""
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

    def new_result(self, step: TraceOp, type_: TensorType, place: int, source: LazySource) -> Tensor:
        """The tensor of a value that has not been computed yet."""
        t = new(Tensor)
        t._data = t._memory = t._alias = None
        t._type = type_
        t._history = self.proxy if step.tracked and type_.dtype.is_floating_point else None
        t._grad_barrier = step.cut
        t._source = source
        t._value_id = place
        return t

    def live_tensor(self, place: int) -> Tensor | None:
        """The tensor of a value, if someone else refers to it."""
        t = self.results[place]
        if not self.inside:
            return None if t is None else t()
        return t if t is not None and getrefcount(t) > _OWN else None

    def live_from(self, first: int) -> bytes:
        """For each value from `first` on, whether it is live."""
        if self.inside:
            own = _OWN + 1  # the slice refers to them, too
            return bytes([t is not None and getrefcount(t) > own for t in self.results[first:]])
        return bytes([t is not None and t() is not None for t in self.results[first:]])

    def references(self) -> list[Any]:
        """Weak ones to the tensors that are live: whoever forgets them all forgets the trace."""
        return [weakref.ref(t) if t is not None and getrefcount(t) > _OWN else None for t in self.results]

    def refer_strongly(self, source: LazySource) -> None:
        """As if the function were still running: it has the tensors that are live, and bases for views among them."""
        first, makers = self.cursor.n_run, self.makers
        results = [None if ref is None else ref() for ref in self.results]
        for place, t in enumerate(results):
            if t is None:
                continue
            while makers[place].view is not None and (place := makers[place].refs[0]) >= first:
                if results[place] is None:
                    results[place] = self.new_result(makers[place], self.type_of(place), place, source)
        self.results, self.inside = results, True

    def fill(self, places: list[int], source: LazySource) -> None:
        """Give live tensors their values."""
        for place in places:
            t = self.results[place] if self.inside else self.results[place]()
            if t is not None and t._data is None:
                self.give(t, place, source)

    def give(self, t: Tensor, place: int, source: LazySource) -> None:
        """Give a tensor its value, and the memory or the base that goes with it."""
        step = self.makers[place]
        if step.view is None:
            t._data = self.values[place]
            memory = self.storages.get(place)  # of a tensor that is gone; what looks at the same memory may not be
            if memory is None:
                memory = self.storages[place] = Storage(t._data)
            t._memory = memory
        else:
            base = self._tensor_at(step.refs[0], source)
            numbers = tuple(arguments_of(self, step, self.values)[1:])
            t._data = step.op.numpy(base._data, *numbers, **step.attrs)
            t._memory = base._memory
            if step.op.name != "detach":
                t._alias = alias_of(base, step.op, numbers, step.attrs)
        if not step.tracked:
            t._source = None

    def _tensor_at(self, ref: int, source: LazySource) -> Tensor:
        """The tensor of a value, made anew if it is gone, or a leaf."""
        if ref < 0:
            return self.leaves[-1 - ref]
        t = self.results[ref] if self.inside else self.live_tensor(ref)
        if t is None:
            t = self._new_tensor(ref, source)
        if t._data is None:
            self.give(t, ref, source)
        return t

    def _new_tensor(self, place: int, source: LazySource) -> Tensor:
        """For a value whose tensor is gone."""
        step = self.makers[place]
        t = new(Tensor)
        t._data = t._memory = t._alias = t._source = t._grad_barrier = None
        t._type = self.type_of(place)
        t._history = None
        if step.tracked:
            t._history, t._source, t._value_id = self.proxy, source, place
            self.results[place] = t if self.inside else weakref.ref(t)
            self.alive.append(place)
        return t

    def let_go(self, first: int, live: bytes) -> None:
        """Of the values from `first` on, keep only tensors that are live and tracked."""
        stop, makers = first + len(live), self.makers  # a finalizer may have traced more meanwhile
        waiting = self.results[first:stop]
        kept: list[Any] = [None] * len(waiting)
        for i, t in enumerate(waiting):
            if not makers[first + i].tracked:
                continue
            if live[i]:
                kept[i] = t
            elif not self.inside:
                kept[i] = t  # the base of a live view, made for it and noted as alive by then
            elif t is not None and t._data is not None:  # the base of a live view
                kept[i] = t
                self.alive.append(first + i)
        self.results[first:stop] = kept

    def sweep(self) -> None:
        """In a long run without an end, let go of what only backwards that nobody can ask for any more would read."""
        self.alive = [p for p in self.alive if self.live_tensor(p) is not None]
        stay = {self.base(p) for p in self.alive}
        for step in self.reached(self.alive):
            stay.update(self.base(ref) for ref in reads(step))
        self.values = {p: array for p, array in self.values.items() if p in stay}
        self.sweep_at = 2 * len(self.makers)

    def release_tensors(self, source: LazySource) -> None:
        """It is not needed any more: live tensors have what they need, and forget who gave them that."""
        for place in self.alive:
            t = self.results[place]
            if not self.inside and t is not None:
                t = t()
            if t is not None and t._source is source:
                t._source = None

    # ---- the memory

    def forget_leaves(self, storages: Iterable[Storage] | None) -> None:
        """Leaves on memory that is about to change are others afterwards."""
        if storages is None:
            marked: Iterable[Tensor] = self.leaves
        else:
            if self.write_index is None:
                self.write_index = WriteIndex()
            marked = [self.leaves[k] for s in storages for k in self.write_index.leaves_since(s, self.memories)]
        for x in marked:
            if x._source is self.token:
                x._source = None

    def looks_at(self, storage: Storage) -> bool:
        """Whether ops that have not run may read that memory."""
        if self.cursor.n_run == self.cursor.n_places:
            return False
        return any(m is storage for m in self.memories) or any(m is storage for m in self.storages.values())

    def reads_memory(self, storage: Storage) -> bool:
        """Whether the trace would notice a write into that memory.

        A tracked leaf that is written would be two leaves, and the sum of its gradients not taken in eager's order.
        """
        if self.write_index is None:
            self.write_index = WriteIndex()
        self.write_index.look_at(self)
        if storage in self.write_index.tracked:
            return True
        for step in self.write_index.steps:
            for base in map(self.base, reads(step)):
                if (self.memories[-1 - base] if base < 0 else self.storages.get(base)) is storage:
                    return True
        return any((t := self.live_tensor(p)) is not None and t._memory is storage for p in self.alive)
