"""Dynamic shapes: branches of the trace tree that differ in one size make a family, and other sizes follow from it.

Three branches that differ in one size n, and in what is affine in n, make a family. Its members for other n are
generated, each checked by its op's shape rule, so that tracing finds them as if they had been there. A segment that has
a plan for such sizes has one for theirs (`scheduling.size_ranges`). Sizes below 9, and sizes that equal another one in
the same op, are left out: they may mean something else.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any, ClassVar, NamedTuple

from ..core.op import Signature
from ..core.trace_tree import LeafKind, TraceNode, TraceOp, ViewLayout
from ..core.types import TensorType
from ..dispatch.dispatcher import signature_of
from ..errors import ExtempoError
from ..scheduling.request import Request, Resizing, Unplannable, resizing
from ..symbolic import sym_int
from ..symbolic.affine import Affine, AffineFit, at_size
from .segment import Segment

N_SAMPLES = 3
SMALLEST = 9  # sizes below this are met often, and many are special
WORTH = 2  # sizes that are looked at before what follows from them is learnt
MOST_MEMBERS = 200  # of a family, the oldest are forgotten
_TRIES = frozenset({3, 6, 12, 24, 48, 96})  # how many edges must be alike when a family of them is tried


class Instance(NamedTuple):
    """Which node of which size this one is: made after the others of its shape family."""

    node: GenericNode
    size: int


class GenericNode:
    """Three nodes of the trace tree that are alike but for sizes, and with them every node of another size."""

    __slots__ = ("_after", "_edges", "_resizings", "fit", "parent", "states")

    def __init__(self, fit: AffineFit, states: Sequence[TraceNode], parent: Callable[[int], TraceNode]) -> None:
        self.fit = fit
        self.states = states
        self.parent = parent  # makes the node of another size
        self._edges: dict[TraceOp, GenericEdge | None] = {}
        self._after: dict[Any, GenericNode] = {}
        self._resizings: dict[Any, Resizing] = {}

    def edges(self) -> list[GenericEdge]:
        """Those that all three have; first the one that was taken last."""
        return [edge for step in self.states[0].edges() if (edge := self._edge(step)) is not None]

    def last_edge(self) -> GenericEdge | None:
        step = self.states[0].step
        return None if step is None else self._edge(step)

    def _edge(self, step: TraceOp) -> GenericEdge | None:
        if step not in self._edges:
            steps = [step]
            for state in self.states[1:]:
                found = next((other for other in state.edges() if _are_alike(step, other)), None)
                if found is None:
                    return None  # not yet
                steps.append(found)
            self._edges[step] = _edge_of(self.fit, steps, self.parent)
        return self._edges[step]

    def events(self, key: Any) -> list[Any] | None:
        """What all three did where `key` was met."""
        found = [state.events.get(key) for state in self.states]
        return None if None in found else found

    def further(self) -> list[GenericNode]:
        """The nodes that are known to come after this one. What led to none, and was forgotten, is forgotten here."""
        there = set(self.states[0].edges())
        self._edges = {step: edge for step, edge in self._edges.items() if edge is not None or step in there}
        return [*[edge.following for edge in self._edges.values() if edge is not None], *self._after.values()]

    def after(self, key: Any, follow: Callable[[TraceNode], TraceNode]) -> GenericNode | None:
        """Where the traces go on after that."""
        node = self._after.get(key)
        found = self.events(key) if node is None else None
        if found is not None:
            states = [one.following if isinstance(one, Segment) else one for one in found]
            node = self._after[key] = GenericNode(self.fit, states, lambda n: follow(self.parent(n)))
        return node

    def resizing(self, key: Any) -> Resizing:
        """What makes the plans of a segment."""
        found = self._resizings.get(key)
        if found is None:
            found = self._resizings[key] = resizing(lambda n, request: _request_at(self.parent(n), request))
        return found


class GenericEdge:
    """An op that follows at all three nodes, at any size."""

    n_worked_out: ClassVar[int] = 0  # how often a size was not known to follow from others
    n_made: ClassVar[int] = 0  # ops that were made after others

    __slots__ = (
        *("_attrs", "_constants", "_affine", "_kinds", "_known", "_leaves", "_type", "_view", "following"),
        "step",
    )

    def __init__(self, fit: AffineFit, steps: Sequence[TraceOp], parent: Callable[[int], TraceNode]) -> None:
        """Unplannable: their sizes are not affine in one of them."""
        self.step = steps[0]
        self._kinds, self._attrs, self._leaves, self._type, self._view = (
            fit([getattr(step, name) for step in steps]) for name in ("kinds", "attrs", "new_leaves", "type", "view")
        )
        self._known = sym_int.GuardedCache(WORTH)
        self._constants: set[int] = {0, 1}
        self._affine: set[tuple[int, int]] = set()
        for types in zip(*map(_types, steps), strict=True):
            for different in zip(*[t.shape for t in types], strict=True):
                size = fit(different)
                if type(size) is Affine:
                    self._affine.add((size.parts, size.slope))
                else:
                    self._constants.add(size)
        self.following = GenericNode(fit, [step.following for step in steps], lambda n: self._state(parent(n), n))

    def at(self, n: int) -> TraceOp | None:
        """The op of another size; None if it may be another one."""
        found = self._known.find((n,))
        if found is None:
            GenericEdge.n_worked_out += 1
            found = self._parts(n)
            if found[0] is not None:
                self._known.missed(self._parts, (n,))
        if found[0] is None:
            return None
        GenericEdge.n_made += 1
        kinds, attrs, type_, leaves, view = found[0]
        if leaves:
            leaves = tuple([LeafKind(*leaf) for leaf in leaves])
        return self.step.resized(attrs, kinds, type_, leaves, view and ViewLayout(*view), _signature)

    def _parts(self, n: Any) -> tuple[tuple[Any, ...] | None, None]:
        """What the op of another size, which may be symbolic, has for itself; None: it may be another op."""
        own = [constant + slope * n for constant, slope in self._affine]
        for i, size in enumerate(own):
            if any(size == other for other in (*self._constants, *own[:i])):
                return None, None
        kinds, attrs, type_ = at_size(self._kinds, n), at_size(self._attrs, n), at_size(self._type, n)
        try:
            if own and self.step.op.infer(*kinds, **attrs) != type_:
                return None, None
        except ExtempoError:
            return None, None
        leaves = tuple([tuple(leaf) for leaf in at_size(self._leaves, n)])
        return (kinds, attrs, type_, leaves, at_size(self._view, n)), None

    def _state(self, state: TraceNode, n: int) -> TraceNode:
        step = self.at(n)
        if step is None:
            raise Unplannable("a size that is special")
        step.following = TraceNode(state, step)
        return step.following


class ShapeFamily:
    """Edges from one node that are alike but for a size."""

    def __init__(self, state: TraceNode, steps: Sequence[TraceOp]) -> None:
        """Unplannable: they are not."""
        self._where, different = _varying(steps)
        self._state = state
        self._edge = GenericEdge(AffineFit(different), steps, lambda n: state)
        self._members: dict[int, TraceOp] = {}

    def member(self, op: Any, leaves: Sequence[LeafKind]) -> TraceOp | None:
        """The edge of the size that these leaves have, as far as that can be seen from one of them."""
        leaf, dim = self._where
        if op is not self._edge.step.op or leaf >= len(leaves) or dim >= len(leaves[leaf].type.shape):
            return None
        n = leaves[leaf].type.shape[dim]
        step = self._members.get(n)
        if step is None and n >= SMALLEST:
            step = self._edge.at(n)
            if step is not None:
                if len(self._members) >= MOST_MEMBERS:
                    del self._members[next(iter(self._members))]
                self._members[n] = step
                step.following = TraceNode(self._state, step)
                grow(step.following, Instance(self._edge.following, n))
        return step

    def members(self) -> list[TraceOp]:
        return list(self._members.values())

    def keep(self, members: Container[TraceOp]) -> None:
        """Forget all members but these."""
        self._members = {n: step for n, step in self._members.items() if step in members}

    def samples(self) -> list[TraceNode]:
        """Every node that its members are made after."""
        found: list[TraceNode] = []
        nodes = [self._edge.following]
        while nodes:
            node = nodes.pop()
            found += node.states
            nodes += node.further()
        return found

    def take(self, step: TraceOp) -> None:
        """Look at this edge first from now on. Edges of other sizes are found without looking through all of them."""
        if self._state.step in self._members.values():
            self._state.step = None
        self._state.take(step)


def grow(state: TraceNode, like: Instance) -> None:
    """Make the ops that are likely to follow."""
    node, n = like
    while True:
        state.like = Instance(node, n)
        edge = node.last_edge()
        step = None if edge is None else edge.at(n)
        if step is None or edge is None:
            return
        state, node = state.add(step).following, edge.following


def follow(state: TraceNode, key: Any, after: Callable[[TraceNode], TraceNode]) -> TraceNode:
    """What comes after what is done at a node where `key` was met: it goes on as others do."""
    following = after(state)
    node = None if state.like is None else state.like.node.after(key, after)
    if node is not None:
        grow(following, Instance(node, state.like.size))
    return following


def find_family(state: TraceNode, new: TraceOp) -> None:
    """Where enough edges from a node are like a new one, see whether they are a family."""
    steps = [step for step in state.edges() if _are_alike(step, new)]
    if len(steps) in _TRIES:
        steps.sort(key=_length, reverse=True)
        try:
            state.families = (*state.families, ShapeFamily(state, steps[:N_SAMPLES]))
        except Unplannable:
            return


def _length(step: TraceOp) -> int:
    """How far it goes on from an op."""
    n, following = 0, step.following.step
    while following is not None:
        n, following = n + 1, following.following.step
    return n


def _are_alike(a: TraceOp, b: TraceOp) -> bool:
    """But for sizes."""
    return (
        a.op is b.op
        and a.refs == b.refs
        and (a.needs, a.grad, a.baked, a.cut is None) == (b.needs, b.grad, b.baked, b.cut is None)
        and a.order == b.order
        and len(a.new_leaves) == len(b.new_leaves)
        and list(map(_rank, _types(a))) == list(map(_rank, _types(b)))
    )


def _rank(t: TensorType) -> tuple[int, Any]:
    return len(t.shape), t.dtype


def _types(step: TraceOp) -> list[TensorType]:
    results = step.type if type(step.type) is tuple else (step.type,)
    return [t for t in (*step.kinds, *results) if isinstance(t, TensorType)]


def _varying(steps: Sequence[TraceOp]) -> tuple[tuple[int, int], list[int]]:
    """Which dimension of which new leaf differs, and its sizes."""
    for leaf, kinds in enumerate(zip(*[step.new_leaves for step in steps], strict=True)):
        for dim, different in enumerate(zip(*[kind.type.shape for kind in kinds], strict=False)):
            if len({*different}) == len(different) and min(different) >= SMALLEST:
                return (leaf, dim), list(different)
    raise Unplannable("no size differs")


def _edge_of(fit: AffineFit, steps: Sequence[TraceOp], parent: Callable[[int], TraceNode]) -> GenericEdge | None:
    try:
        return GenericEdge(fit, steps, parent)
    except Unplannable:
        return None


def _signature(step: TraceOp) -> Signature:
    found: Signature = signature_of(step.op, (), step.kinds, step.attrs)
    return found


def _request_at(state: TraceNode, like: Request) -> Request:
    """What is to be planned at a node that is like another one."""
    steps = state.steps()
    leaves = [kind for step in steps for kind in step.new_leaves]
    if like.backward is not None:
        leaves.append(_seed(steps, like.backward.root))
    return like._replace(steps=steps, leaves=leaves)


def _seed(steps: Sequence[TraceOp], place: int) -> LeafKind:
    """The gradient that comes in at a value."""
    step = next(step for step in reversed(steps) if step.place <= place)
    return LeafKind(step.type[place - step.place] if type(step.type) is tuple else step.type, None, False)
