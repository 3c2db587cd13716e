"""Materialising: from a trace to the nodes that eager mode would have linked, with the numbers they would have had."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Any

from ..autograd.derive import derived_vjp
from ..core.graph import Node, Pick, leaf
from ..core.storage import Storage
from ..core.trace_tree import NONE, NUMBER, TraceOp
from ..core.types import TensorType, float32, float64
from .interpreter import array_at

if TYPE_CHECKING:
    from .trace import Trace


class _NodeMaker:
    """Makes each node once."""

    def __init__(self, trace: Trace, freed: Container[int]) -> None:
        self.trace = trace
        self.freed = freed  # ops that a backward has passed, by their first values
        self.number = trace.node_numbers()
        self.nodes: dict[int, Node] = {}  # by value id
        self._gradients: dict[tuple[Any, int], Any] = {}  # by signature and tracked inputs

    def link(self, step: TraceOp) -> None:
        """The node of an op, after those of the ops it depends on."""
        positions = step.read_positions
        if positions and step.place in self.freed:
            node = Node(step.op, (), step.attrs, step.type, None, step.where)
        else:
            inputs = self._inputs(step)
            saved = tuple([self._entry(step, position) for position in positions]) if positions else ()
            node = Node(step.op, inputs, step.attrs, step.type, saved, step.where, self._gradient(step))
        node.number = self.number(step.place)
        if type(step.type) is not tuple:
            self.nodes[step.place] = node
            return
        for i, t in enumerate(step.type):
            if t.dtype.is_floating_point:
                pick = self.nodes[step.place + i] = Node(Pick, (node,), {"index": i}, t, (), step.where)
                pick.number = self.number(step.place + i) + 2.0**-31

    def _gradient(self, step: TraceOp) -> Any:
        key = (step.signature, step.needs)
        if key not in self._gradients:
            self._gradients[key] = _gradient(step)
        return self._gradients[key]

    def _inputs(self, step: TraceOp) -> tuple[Any, ...]:
        trace = self.trace
        found: list[Any] = []
        baked = iter(step.baked or ())
        for ref, kind in zip(step.refs, step.kinds, strict=True):
            if not isinstance(kind, TensorType):
                found.append(
                    trace.numbers[ref - NUMBER] if ref != NONE else next(baked) if kind in (int, float) else None
                )
            elif ref >= 0:
                found.append(self.nodes.get(ref) or leaf(kind))
            else:
                node = trace.nodes[-1 - ref]
                found.append(leaf(kind) if node is None else node)
        return tuple(found)

    def _entry(self, step: TraceOp, position: int) -> tuple[int, Any, Any, int]:
        if position < 0:
            return self._of_place(position, step.place - 1 - position)
        if position == 0:
            if type(step.type) is not tuple:
                return self._of_place(0, step.place)
            return (0, tuple(self._of_place(0, step.place + i) for i in range(step.n_results)), None, 0)
        ref = step.refs[position - 1]
        if ref >= 0:
            return self._of_place(position, ref)
        trace, k = self.trace, -1 - ref
        return (position, trace.arrays[k], trace.memories[k], trace.versions[k])

    def _of_place(self, position: int, place: int) -> tuple[int, Any, Any, int]:
        trace = self.trace
        array, base = array_at(trace, place, trace.values), trace.base(place)
        if base < 0:
            return (position, array, trace.memories[-1 - base], trace.versions[-1 - base])
        storage = trace.storages.get(base)
        if storage is None:
            storage = trace.storages[base] = Storage(trace.values[base])
        return (position, array, storage, storage.version)


def _gradient(step: TraceOp) -> Any:
    """The gradient as native code knows it, where eager mode would have noted it on the node."""
    signature, type_ = step.signature, step.type
    if signature.embeds is not None or type(type_) is tuple:
        return signature.embeds
    if step.op.saves is not None:
        return signature.plans.get(step.needs, (None, None))[1]
    dtypes = {kind.dtype for kind in step.kinds if isinstance(kind, TensorType)}
    if not step.op.simple or dtypes != {type_.dtype} or type_.dtype not in (float32, float64):
        return None
    derived = derived_vjp(step.op, step.needs, step.kinds)
    return derived if derived.kernel else None


def materialize_nodes(trace: Trace) -> int:
    """Every tensor that is live and tracked gets its node; how many nodes that took."""
    places = [p for p in trace.alive if trace.live_tensor(p) is not None and trace.is_floating(p)]
    steps = trace.reached(places)
    _materialize(trace, places, steps, frozenset())
    return len(steps)


def materialize_freed_nodes(trace: Trace, freed: Container[int]) -> int:
    """The same after a backward: nodes of the ops that it passed, by their first values, say that they were freed."""
    others = []
    for place in trace.alive:
        t, step = trace.live_tensor(place), trace.makers[place]
        if t is None or t._history is not trace.proxy:
            continue
        if type(step.type) is not tuple and step.place in freed and step.read_positions:
            t._history = Node(step.op, (), step.attrs, step.type, None, step.where)
        else:
            others.append(place)
    steps = _until_freed(trace, others, freed)
    _materialize(trace, others, steps, freed)
    return len(steps)


def _materialize(trace: Trace, places: list[int], steps: list[TraceOp], freed: Container[int]) -> None:
    if not places:
        return
    linker = _NodeMaker(trace, freed)
    for step in sorted(steps, key=lambda s: s.place):
        linker.link(step)
    for place in places:
        t = trace.live_tensor(place)
        if t is not None and t._history is trace.proxy:
            t._history = linker.nodes[place]


def _until_freed(trace: Trace, places: list[int], freed: Container[int]) -> list[TraceOp]:
    """The ops that these values depend on, up to those that lost their inputs when they were freed."""
    found: dict[int, TraceOp] = {}
    stack = list(places)
    while stack:
        step = trace.makers[stack.pop()]
        if step.place not in found and step.tracked:
            found[step.place] = step
            if step.place not in freed or not step.read_positions:
                stack += [ref for i, ref in enumerate(step.refs) if 0 <= ref < NUMBER and step.needs >> i & 1]
    return list(found.values())
