"""BackwardEngine: from nodes to the gradients of what they were made from.

Nodes are visited in decreasing number, which is a topological order (leaves with hooks as soon as nobody adds to them
any more), and contributions to one gradient are added in that order, so a result depends on the graph alone. The shared
duties are met here, once: fitting gradients to their values, adding up, running hooks, checking that saved
values were not overwritten, and freeing what has been passed.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from .. import ops
from ..core.active_traces import ACTIVE, ESCAPED
from ..core.context import CONTEXT, set_context
from ..core.graph import Leaf, Node, Pick
from ..core.op import Refuse
from ..core.storage import Array
from ..core.tensor import Tensor, wrap
from ..core.types import TensorType
from ..errors import GraphFreedError, NotDifferentiableError, OverwrittenError
from ..ops.join import Stack
from . import native_engine
from .accumulating import accumulate, before_adding
from .derive import DerivedVjp, derived_vjp
from .hooks import HOOKED_LEAVES, run_hooks, with_hooked_leaves_early
from .messages import at, freed_message, overwritten_message
from .saved_values import saved_values
from .unbroadcast import fit, sum_apart, sum_array_to
from .vjp_programs import VjpProgram, vjp_program_of
from .vjp_trace import keeps_dtype

_number = operator.attrgetter("number")


class BackwardEngine:
    """One run of backward.

    Gradients on the way are bare arrays, and Tensors only where someone looks at them (a vjp, a hook, `.grad`); when
    the backward is itself recorded (`create_graph`) or runs under vmap they are Tensors throughout.
    """

    natively = True  # native code may hand gradients on where nobody looks

    def __init__(self, keep: bool, create_graph: bool, wanted: set[Node] | None, accumulate: bool) -> None:
        self.keep = keep
        self.create_graph = create_graph
        self.wanted = wanted
        self.accumulate = accumulate
        self.gradients: dict[Node, Any] = {}
        self.owned: set[Node] = set()  # gradients whose memory nobody else sees: may be added to in place
        self.found: dict[Node, Tensor] = {}
        self.needed: set[Node] | None = None
        self.bare = False

    def run(self, roots: list[tuple[Node, Tensor]]) -> dict[Node, Tensor]:
        order = self._reach([node for node, _ in roots])
        mode = CONTEXT.get()
        # A backward that is itself differentiated is recorded like everything else; any other runs now.
        set_context(mode.but(grad=self.create_graph, recording=mode.recording if self.create_graph else None))
        self.bare = not self.create_graph and mode.interceptor is None
        if self.wanted is not None:
            self._restrict(order)
        if (watch := getattr(mode.interceptor, "watch_backward", None)) is not None:
            watch(self)
        for node, g in roots:
            if self._wants(node):
                self._add(node, self._value(g), owned=False)
        walks = self.natively and self.bare and self.wanted is None
        if walks and (ACTIVE.recordings or ESCAPED):
            before_adding(order)
        pop = self.gradients.pop
        left = len(order)
        while left:
            if walks:
                left = native_engine.walk(order, left, self.gradients, self.owned, self.keep)
                if not left:
                    break
            left -= 1
            g = pop(order[left], None)
            if g is not None:
                self._visit(order[left], g)
        return self.found

    def _reach(self, roots: list[Node]) -> list[Node]:
        """Every node that a gradient will reach, by number, but for leaves with hooks, which come early.

        Nothing has been changed yet when a freed one is met.
        """
        found: list[Node] | Node = native_engine.reach(roots)
        if isinstance(found, Node):
            raise GraphFreedError(freed_message(found))
        found.sort(key=_number)
        return with_hooked_leaves_early(found) if HOOKED_LEAVES else found

    def _restrict(self, order: list[Node]) -> None:
        """Only nodes from which a wanted one can be reached matter."""
        wanted = self.wanted or set()
        needed: set[Node] = set()
        for node in order:
            if node in wanted or any(type(i) is Node and i in needed for i in node.inputs):
                needed.add(node)
        self.needed = needed

    def _visit(self, node: Node, g: Any) -> None:
        extra = node.extra
        if extra is not None and (extra.hooks or extra.retain):
            g = self._shown(node, g)
        if self.wanted is not None and node in self.wanted:
            value = self._tensor(g, node.type)
            self.found[node] = value
            self.owned.discard(node)
            if self.accumulate and (extra is None or not extra.retain):
                accumulate(node, value, self.create_graph, is_own=False)
            if not any(self._wants(i) for i in node.inputs):
                return
        if node.op is Leaf:
            if self.accumulate and self.wanted is None:
                accumulate(node, self._tensor(g, node.type), self.create_graph, node in self.owned)
        elif node.op is Pick:
            self._add_result(node.inputs[0], node.attrs["index"], g)
        else:
            try:
                if node.op.freeing is not None and not self.keep:
                    node.op.freeing(node)
                self._differentiate(node, g)
            except Exception as error:
                if node.saved is None:  # freed by a backward in a hook or in another thread since this one began
                    raise GraphFreedError(freed_message(node)) from error
                raise
            self._free(node)

    def _free(self, node: Node) -> None:
        if self.keep:
            return
        if node.op.freed is not None:
            node.op.freed(node)
        if node.saved:
            node.saved = None
            node.inputs = ()

    def _shown(self, node: Node, g: Any) -> Any:
        """Hand a gradient to the hooks of its tensor, which may replace it, and keep it if it is to be retained."""
        extra = node.need()
        value = self._tensor(g, node.type)
        self.owned.discard(node)
        if extra.hooks:
            value = run_hooks(extra.hooks, value, node)
        if extra.retain:
            extra.grad = value.clone() if extra.grad is None else extra.grad + value
        return self._value(value)

    def _wants(self, node: Any) -> bool:
        return type(node) is Node and (self.needed is None or node in self.needed)

    def _tensor(self, g: Any, type_: TensorType) -> Tensor:
        return wrap(g, type_) if self.bare else g

    def _value(self, t: Tensor) -> Any:
        return t._array if self.bare else t

    # ---- one node

    def _differentiate(self, node: Node, g: Any) -> None:
        """Hand on the gradients of a node's inputs, in the fastest way that there is; bits are the same in all.

        A part is added into the gradient of its whole. An elementwise op has one fused kernel, another op a list of
        kernel calls, on bare arrays. Else the vjp runs on Tensors, as it is written: where it is recorded or under
        vmap, where it cannot be traced, and where each of its ops has to round.
        """
        op = node.op
        if isinstance(op.vjp, Refuse):
            raise NotDifferentiableError(
                f"{op.name}{at(node)}: no gradient, {op.vjp.why}; detach() its input if none is wanted"
            )
        if self.bare and op.embeds:
            self._add_into_part(node, g)
            return
        if self.bare and op is Stack and self._add_rows(node, g):
            return
        derived = self._derived(node) if op.saves is None else None
        gradient = self._kernels_of(node, derived) if self.bare else None
        if gradient is not None:
            self._by_kernel(node, gradient, g)
        else:
            self._by_vjp(node, derived, g)

    def _kernels_of(self, node: Node, derived: DerivedVjp | None) -> DerivedVjp | VjpProgram | None:
        """What computes all gradients of a node on arrays."""
        if derived is not None:
            if derived.kernel is None or not node.op.simple:
                return None
            return derived if keeps_dtype(node.type, [i.type for i in node.inputs if isinstance(i, Node)]) else None
        return vjp_program_of(node) if self.wanted is None and type(node.type) is not tuple else None

    def _by_vjp(self, node: Node, derived: DerivedVjp | None, g: Any) -> None:
        op = node.op
        if type(g) is np.ndarray and type(node.type) is tuple:
            self._add(node.inputs[0], op.stacked_vjp(g, node), owned=False)
            return
        y, inputs = saved_values(node, self.create_graph or op.hands_back)
        cotangent = self._cotangent(node, g)
        if derived is None:
            contributions = op.vjp(cotangent, y, *inputs, **node.attrs)
        else:
            read = [(y, *inputs)[p] for p in derived.reads] + [inputs[i] for i in derived.numbers]
            contributions = [None] * len(inputs)
            for index, value in zip(derived.needed, derived.replay(cotangent, *read), strict=True):
                contributions[index] = value
        parts = cotangent if type(cotangent) is tuple else (cotangent,)
        self._add_contributions(node, contributions, (*parts, y, *inputs))

    def _add_contributions(self, node: Node, contributions: Any, known: tuple[Any, ...]) -> None:
        """`known`: what the vjp got."""
        # Memory that came in, or was saved, or went to a sibling, is not this gradient's own; nor is a view's, nor what
        # the user's code has seen. With a graph nothing is added to in place, and asking would make traces run.
        asks = not self.create_graph
        gives_away = node.op.traceable or node.op.gives_away
        seen = {id(t._storage) for t in known if isinstance(t, Tensor)} if asks else set()
        for source, contribution in zip(node.inputs, contributions, strict=True):
            if contribution is None or not self._wants(source):
                continue
            value = contribution if isinstance(contribution, Tensor) else contribution()
            if value is None:
                continue
            value = fit(value, source.type)
            owned = False
            if asks:
                owned = gives_away and id(value._storage) not in seen and value._alias is None
                seen.add(id(value._storage))
            self._add(source, self._value(value), owned)

    def _cotangent(self, node: Node, g: Any) -> Any:
        """What the vjp gets as g: a Tensor, or one per result of an op that has several."""
        if type(node.type) is not tuple:
            return self._tensor(g, node.type)
        parts = []
        for part, t in zip(g, node.type, strict=True):
            if part is not None:
                part = self._tensor(part, t)
            elif node.op.materialize and t.dtype.is_floating_point:
                part = ops.zeros(t.shape, dtype=t.dtype)
            parts.append(part)
        return tuple(parts)

    def _derived(self, node: Node) -> DerivedVjp:
        """The traced gradient of an elementwise op, for the inputs that want one."""
        needs = 0
        for i, source in enumerate(node.inputs):
            needs |= self._wants(source) << i
        return derived_vjp(node.op, needs, tuple([i.type if isinstance(i, Node) else type(i) for i in node.inputs]))

    def _by_kernel(self, node: Node, derived: DerivedVjp | VjpProgram, g: Array) -> None:
        """Every gradient of a node from kernels on arrays."""
        arguments = [g]
        for position, array, storage, version in node.saved:
            if position in derived.reads:
                if storage.version != version:
                    raise OverwrittenError(overwritten_message(node, position, storage))
                arguments.append(array)
        inputs = node.inputs
        for i in derived.numbers:
            arguments.append(inputs[i])
        outs = derived.kernel(*arguments)  # type: ignore[misc] # the caller has seen that there is one
        gradients = self.gradients
        for i, out in enumerate(outs):
            source = inputs[derived.needed[i]]
            type_ = source.type
            if type(out) is not np.ndarray or out.dtype is not type_.dtype.numpy:
                out = np.asarray(out, type_.dtype.numpy)
            owned = derived.fresh[i]
            if type_ is not node.type and out.shape != type_.shape:
                out = sum_array_to(out, type_)
                owned = True
            if source in gradients:
                self._add(source, out, owned)
            else:
                gradients[source] = out
                if owned:
                    self.owned.add(source)

    # ---- adding up

    def _add(self, node: Node, g: Any, owned: bool) -> None:
        before = self.gradients.get(node)
        if before is None:
            self.gradients[node] = g
            if owned:
                self.owned.add(node)
        elif not self.bare:
            self.gradients[node] = before + g
        elif node in self.owned:
            np.add(before, g, out=before)
        else:
            self.gradients[node] = sum_apart(before, g)
            self.owned.add(node)

    def _add_into_part(self, node: Node, g: Array) -> None:
        """A gradient of a part of a tensor: added there in place, so that many parts of one tensor cost one buffer."""
        source, *numbers = node.inputs
        if not self._wants(source):
            return
        whole = self.gradients.get(source)
        if whole is None:
            whole = self.gradients[source] = np.zeros(source.type.shape, source.type.dtype.numpy)
        elif source not in self.owned or not whole.flags.c_contiguous:
            whole = self.gradients[source] = np.array(whole, order="C")
        self.owned.add(source)
        part = node.op.numpy(whole, *numbers, **node.attrs)
        np.add(part, g, out=part)

    def _add_rows(self, node: Node, g: Array) -> bool:
        """The gradient of a stack of all results of one node, which gets its rows at once; False if it is none such.

        So the losses of many samples, which one node has made, cost no visit each.
        """
        first = node.inputs[0]
        if node.attrs["dim"] or self.wanted is not None or type(first) is not Node or first.op is not Pick:
            return False
        source = first.inputs[0]
        if len(source.type) != len(node.inputs) or source in self.gradients:
            return False
        for i, x in enumerate(node.inputs):
            if x.op is not Pick or x.inputs[0] is not source or x.attrs["index"] != i:
                return False
            if x.extra is not None or x in self.gradients:
                return False
        self.gradients[source] = g if source.op.stacked_vjp is not None else _rows(g)
        return True

    def _add_result(self, node: Node, index: int, g: Any) -> None:
        """The gradient of one result of a node that has several."""
        parts = self.gradients.get(node)
        if parts is None:
            parts = self.gradients[node] = [None] * len(node.type)
        elif type(parts) is np.ndarray:
            parts = self.gradients[node] = _rows(parts)
        before = parts[index]
        if before is not None:
            g = sum_apart(before, g) if self.bare else before + g
        parts[index] = g


def _rows(g: Array) -> list[Any]:
    return [g[i, ...] for i in range(len(g))]
