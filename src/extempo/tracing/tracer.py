"""Tracer: appends one op to the trace, along a known edge of the trace tree (same op, attributes, inputs and types of
new leaves) or by a new one.

An op that cannot be traced (no native kernel, an array that NumPy alone understands) runs eagerly; if it needs a node,
the trace is closed first.
"""

from __future__ import annotations

import weakref
from types import NoneType
from typing import Any

import numpy as np

from ..backends import entry_points
from ..core import active_traces, costs, trace_tree
from ..core.context import CONTEXT, ExecutionContext
from ..core.graph import Node, next_number
from ..core.layout import exact_strides, order_of, view_of
from ..core.op import Op
from ..core.source_location import user_line
from ..core.strides import Order
from ..core.tensor import LazySource, Tensor
from ..core.trace_tree import NONE, NUMBER, LeafKind, TraceNode, TraceOp
from ..core.types import TensorType
from ..dispatch.dispatcher import NO_ATTRS, as_input, cut_reason, run_eager, signature_of
from ..dispatch.fast_path import launcher
from .dynamic_shapes import GenericEdge, Instance, find_family, grow
from .op_call import OpCall, grad_key
from .trace import Trace

_GATE = TraceNode()


@entry_points.EXTEND_ESCAPED.function(lambda: launcher().go_on)
def _extend_escaped(
    recording: Tracer, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any], grad: bool | None
) -> Any:
    """What native code has put on a tape that was left; None: it has not."""
    return None


class _OpKey:
    """What a step is compared with."""

    __slots__ = ("_baked_refs", "attrs", "grad", "kinds", "needs", "new_leaves", "numbers", "op", "refs")

    def __init__(self, given: OpCall, op: type[Op], attrs: dict[str, Any], mode: ExecutionContext) -> None:
        self.op, self.attrs, self.grad, self.needs = op, attrs, grad_key(mode), given.needs
        self.refs, self.kinds, self.new_leaves = tuple(given.refs), tuple(given.kinds), tuple(given.new_leaves)
        self.numbers, self._baked_refs = tuple(given.numbers), given.baked_refs

    def fits(self, step: TraceOp) -> bool:
        """Whether the step is the same op on the same inputs."""
        if step.op is not self.op or step.grad is not self.grad or step.kinds != self.kinds:
            return False
        if step.attrs != self.attrs or step.new_leaves != self.new_leaves or step.needs != self.needs:
            return False
        if step.baked is None:
            return step.refs == self.refs
        return step.baked == self.numbers and step.refs == self._baked_refs()


class Tracer(Trace):
    """A tape that takes ops."""

    __slots__ = ()

    def apply(self, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any], mode: ExecutionContext) -> Any:
        """Put the op on the tape, or run it if that is not possible."""
        with self._alone():
            if self.is_left:
                active_traces.worked_on = id(self)
                made = _extend_escaped(self, op, inputs, attrs, grad_key(mode))
                if made is not None:
                    return made
            return self._apply(op, inputs, attrs, mode)

    def _apply(self, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any], mode: ExecutionContext) -> Any:
        self.counters.python_seconds += costs.PYTHON_OP
        if self.behind is not None:
            self.cursor, self.behind = self.behind, None
            self.clocks = [(0, next_number())]
        step, state = None, self.cursor
        given = self._inputs(inputs)
        if given is not None:
            step = self._known(state, given, op, attrs, mode)
            if step is None and self._may_be_new():
                step = self._new_step(state, given, op, attrs, mode)
        if step is None or given is None:
            if not self._may_be_new():
                self._give_up("too many ops of one call were new, the rest of it ran eagerly")
            return self._eagerly(op, inputs, attrs, mode)
        made = self._results(step)  # a finalizer that runs here may record, too
        if not self._put(state, step, given, made):
            return self._apply(op, inputs, attrs, mode)
        return tuple(made) if type(step.type) is tuple else made[0]

    def _inputs(self, inputs: tuple[Any, ...]) -> OpCall | None:
        """Where the inputs come from; None if one of them cannot be on a tape."""
        given = OpCall()
        n_numbers = len(self.numbers)
        for i, x in enumerate(inputs):
            if isinstance(x, Tensor):
                ref = self._ref_of(x, given)
                if ref is None:
                    return None
                given.refs.append(ref)
                given.kinds.append(x._type)
                given.needs |= (type(x._history) is Node) << i
                given.cut = given.cut or x._grad_barrier
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

    def _ref_of(self, x: Tensor, given: OpCall) -> int | None:
        if x._source is self:
            return x._value_id
        if isinstance(x._source, LazySource):
            x._source.release(x, "its result went on in another recording")
        if x._alias is not None:
            x._catch_up()
        if x._source is self.token:
            place = x._value_id  # another thread may mark the same tensor at this moment
            k = -1 - place
            if 0 <= k < len(self.arrays) and self.arrays[k] is x._data and self.nodes[k] is x._history:
                return place
        for k, fresh in enumerate(given.fresh):
            if fresh is x:
                return -1 - len(self.leaves) - k
        array = x._data
        if type(array) is not np.ndarray or not array.flags.aligned or array.dtype is not x._type.dtype.numpy:
            return None
        given.fresh.append(x)
        given.new_leaves.append(LeafKind(x._type, exact_strides(array), type(x._history) is Node))
        return -len(self.leaves) - len(given.fresh)

    def _known(
        self, state: TraceNode, given: OpCall, op: type[Op], attrs: dict[str, Any], mode: ExecutionContext
    ) -> TraceOp | None:
        """The way from here that is the same op on the same inputs."""
        key = _OpKey(given, op, attrs, mode)
        for step in state.edges():
            if key.fits(step):
                with trace_tree.tree_lock:
                    state.take(step)
                return step
        return self._like_others(state, key)

    def _like_others(self, state: TraceNode, key: _OpKey) -> TraceOp | None:
        """The same of a size that is new, where ways of other sizes are known."""
        n_worked_out, n_made = GenericEdge.n_worked_out, GenericEdge.n_made
        found = self._of_new_size(state, key)
        self.counters.worked_out += GenericEdge.n_worked_out - n_worked_out
        self.counters.grown_steps += GenericEdge.n_made - n_made
        return found

    def _of_new_size(self, state: TraceNode, key: _OpKey) -> TraceOp | None:
        if state.like is not None:
            for way in state.like.node.edges():
                if way.step.op is key.op and (step := way.at(state.like.size)) is not None and key.fits(step):
                    with trace_tree.tree_lock:
                        grow(state.add(step).following, Instance(way.following, state.like.size))
                    return step
        for family in state.families:
            step = family.member(key.op, key.new_leaves)
            if step is not None and key.fits(step):
                with trace_tree.tree_lock:
                    family.take(step)
                return step
        return None

    def _new_step(
        self, state: TraceNode, given: OpCall, op: type[Op], attrs: dict[str, Any], mode: ExecutionContext
    ) -> TraceOp | None:
        inputs, kinds = given.inputs, tuple(given.kinds)
        if not any(isinstance(k, TensorType) for k in kinds):
            return None
        signature = signature_of(op, inputs, kinds, attrs)
        if signature is None:
            return None
        view, baked, order, refs = None, None, None, tuple(given.refs)
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
        elif signature.kernel is None:
            return None
        elif op.keeps_order:
            order = self._order(given, signature.type)
        cut = given.cut
        where = user_line()
        if given.needs and op.name == "detach":
            cut = ("detach()", where)
        elif given.needs and not (mode.grad and signature.floating):
            cut = (cut_reason(op, mode), where)
        elif given.needs:
            cut = None
        step = TraceOp(
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
            order,
        )
        self.counters.new_steps += 1
        self.counters.learning_seconds += costs.NEW_OP
        if self.n_allowed is not None:
            self.n_allowed -= 1
        if step.new_leaves and state.step is not None and state.like is None:
            find_family(state, step)
        with trace_tree.tree_lock:
            return state.add(step)

    def _has_other_starts(
        self, state: TraceNode, given: OpCall, op: type[Op], attrs: dict[str, Any], mode: ExecutionContext
    ) -> bool:
        """Whether the same slice with another start was recorded here before."""
        refs, kinds = given.baked_refs(), tuple(given.kinds)
        return any(
            s.op is op and s.refs == refs and s.kinds == kinds and s.attrs == attrs and s.grad is grad_key(mode)
            for s in state.edges()
        )

    def _strides(self, ref: int, given: OpCall) -> tuple[int, ...] | None:
        """In bytes; None if the elements lie in order."""
        if ref >= 0:
            return self._strides_at(ref)
        k, known = -1 - ref, len(self.arrays)
        array = self.arrays[k] if k < known else given.fresh[k - known]._data
        return exact_strides(array)

    def _order(self, given: OpCall, type_: TensorType) -> Order | None:
        """In which a result lies that keeps the order of its inputs."""
        tensors = [(r, k) for r, k in zip(given.refs, given.kinds, strict=True) if isinstance(k, TensorType)]
        return order_of(type_, [(kind, self._strides(ref, given)) for ref, kind in tensors])

    def _results(self, step: TraceOp) -> list[Tensor]:
        types = step.type if type(step.type) is tuple else (step.type,)
        return [self._result(step, t, step.place + i) for i, t in enumerate(types)]

    def _put(self, state: TraceNode, step: TraceOp, given: OpCall, made: list[Tensor]) -> bool:
        """Put the step, its new leaves and results on the tape, if that is where it was; all of it, or nothing.

        Neither an interrupt nor a finalizer comes in between assignments.
        """
        fresh, n_before = given.fresh, len(self.leaves)
        arrays, nodes = [x._data for x in fresh], [x._history for x in fresh]
        memories = [x._memory for x in fresh]
        versions = [memory.version for memory in memories]
        results: list[Any] = made
        makers = [step] * len(made)
        clocks: list[tuple[int, int]] = []
        if not self.inside:  # nodes that were linked since then come before
            results = [weakref.ref(t) for t in made]
            clocks = [(place, next_number()) for place in range(step.place, step.place + len(made))]
        if self.cursor is not state:
            return False
        self.leaves += fresh
        self.arrays += arrays
        self.nodes += nodes
        self.memories += memories
        self.versions += versions
        if step.baked is None:
            self.numbers += given.numbers
        self.results += results
        self.clocks += clocks
        self.makers += makers
        self.cursor = step.following
        for place, x in enumerate(fresh, n_before + 1):  # so that it is found sooner
            x._value_id, x._source = -place, self.token
        return True

    def _give_up(self, why: str) -> None:
        """It is not worth recording: the rest of the function runs eagerly."""
        self.counters.given_up += 1
        self.close(why)
        mode = CONTEXT.get()
        if mode.recording is self:
            CONTEXT.set(mode.but(recording=None))

    def _eagerly(self, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any], mode: ExecutionContext) -> Any:
        """Run the op now. A node that it links must come after those of everything on the tape."""
        inputs = tuple(map(as_input, inputs))
        self.counters.ran_eagerly(costs.EAGER_OP)
        self.counters.traced_seconds += costs.EAGER_IN_TRACE
        if op.name == "detach":  # with its values it is as good as any tensor
            inputs[0]._values()
            return inputs[0].detach()
        if mode.grad and any(isinstance(x, Tensor) and type(x._history) is Node for x in inputs):
            self.close(f"{op.public_name} runs eagerly")
            self._wait_for_first_step()
        return run_eager(op, inputs, attrs, mode.but(recording=None))

    def _may_be_new(self) -> bool:
        """Whether another step that was not known is allowed."""
        if self.n_allowed is None and self.most_new_steps is not None:
            self.n_allowed = self.most_new_steps()
        return self.n_allowed is None or self.n_allowed > 0

    def _wait_for_first_step(self) -> None:
        """The first step must be noticed, to know which nodes were there before: no known way leads on from here."""
        if not self.makers and self.behind is None:
            self.cursor, self.behind = _GATE, self.cursor
