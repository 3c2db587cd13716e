"""Backwards and gradients of a static function: one plan with what has not run yet of the forward.

Where a plan cannot do it (now, or in the call at hand) the action is the effect that was recorded: the engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...autograd.traced_backward import accumulate_planned
from ...core.graph import Leaf, Node
from ...core.storage import Array
from ...core.tensor import Tensor, wrap
from ...core.trace_tree import TraceNode
from ...scheduling.request import BackwardRequest
from ..backward import must_be_eager
from ..executor import TraceExecutor
from ..materialize import materialize_freed_nodes, materialize_nodes
from ..segment import Segment
from .script import Action, Effect, ScriptCall
from .trace_actions import Handle, RecordedTrace, give


class GradientRequest:
    """What a backward is asked for: to add to leaves, or the gradients of tensors that a plan can find."""

    __slots__ = ("gradient", "keep", "refs", "root", "sources")

    def __init__(self, root: Tensor, gradient: Tensor | None, keep: bool) -> None:
        self.root = root
        self.gradient = gradient
        self.keep = keep
        self.refs: tuple[int, ...] | None = None  # of the tensors whose gradients are handed out
        self.sources: list[int] = []  # for each of them what `Plan.gradients` calls it

    @classmethod
    def of(
        cls, r: TraceExecutor, roots: Any, gradients: Any, keep: bool, inputs: Sequence[Tensor] | None = None
    ) -> GradientRequest | None:
        """None: that is for the engine."""
        roots = [roots] if isinstance(roots, Tensor) else roots
        given = gradients[0] if isinstance(gradients, list | tuple) and len(gradients) == 1 else gradients
        root = roots[0] if isinstance(roots, list | tuple) and len(roots) == 1 else None
        if not isinstance(root, Tensor) or root._source is not r or type(root._history) is not Node:
            return None
        if given is None:
            fits = inputs is None or root._type.numel() == 1
        else:
            fits = isinstance(given, Tensor) and given._type == root._type and given._data is not None
        if not fits or must_be_eager(r.trace):
            return None
        made = cls(root, given, keep)
        return made if inputs is None or made._find(r, inputs) else None

    def _find(self, r: TraceExecutor, inputs: Sequence[Tensor]) -> bool:
        """Whether all inputs are on the trace, or leaves of it from which no gradient goes on."""
        for x in inputs:
            if not isinstance(x, Tensor) or not x.requires_grad or x is self.root:
                return False
            if x._history is r.trace.proxy:
                self.sources.append(-1 - x._value_id)
                continue
            node = x._own_node()
            leaves = [k for k, other in enumerate(r.trace.nodes) if other is node]
            if node.op is not Leaf or len(leaves) != 1:
                return False
            self.sources += leaves
        self.refs = tuple(sorted({-1 - source for source in self.sources}))
        return all(type(node) is not Node or node.op is Leaf for node in r.trace.nodes)


class PlannedBackward(Action):
    """A backward from the trace."""

    def __init__(
        self, recorded: RecordedTrace, state: TraceNode, asked: GradientRequest, gradient: int | None, effect: Effect
    ) -> None:
        self.recorded = recorded
        self.state = state
        self.first = state.n_run
        self.effect = effect  # the same by the engine
        self.backward = BackwardRequest(asked.root._value_id, -1 - state.n_leaves, asked.refs)
        self.keep = asked.keep
        self._is_plain = not asked.keep and asked.refs is None
        self.sources = asked.sources
        self.found: Segment
        self.handles: list[Handle] = []  # those that get their values
        self.alive: list[int] = []  # tracked places that ran before and are needed after it
        self._gradient = gradient  # a slot
        self._one = np.ones(asked.root._type.shape, asked.root._type.dtype.numpy)

    def uses(self) -> list[int]:
        return self.effect.uses()

    @property
    def finds_all(self) -> bool:
        """Whether its plan has every gradient that is asked for."""
        plan = self.found.plan
        return plan is not None and set(self.sources) <= set(plan.gradients)

    def run(self, call: ScriptCall) -> None:
        r, found = call.recording, self.found
        if self._is_plain:
            rest = r.backward_known(self.backward.root, self._incoming(call))
            if rest is not None:
                if rest:
                    accumulate_planned(rest, keep=False)
                return
        gradients = None if must_be_eager(r.trace) or self._goes_on(r) else self._gradients(call)
        if gradients is None:
            self.effect.run(call)
            return
        nodes = r.trace.nodes
        r.trace.alive = self.alive.copy()
        give(r, self.handles)
        if self.keep:
            materialize_nodes(r.trace)
        else:
            materialize_freed_nodes(r.trace, found.freed)
        r.end_trace(found.following)
        if self.backward.asked is None:
            accumulate_planned([(nodes[k], g) for k, g in gradients.items()], self.keep)
        for index, slot, type_ in self.effect.results:
            call.slots[slot] = wrap(gradients[self.sources[index or 0]], type_)

    def _incoming(self, call: ScriptCall) -> Array:
        return self._one if self._gradient is None else np.ascontiguousarray(call.slots[self._gradient]._array)

    def _goes_on(self, r: TraceExecutor) -> bool:
        """Whether gradients are asked for, and a leaf is one from which they go on."""
        return bool(self.sources) and any(type(node) is Node and node.op is not Leaf for node in r.trace.nodes)

    def _gradients(self, call: ScriptCall) -> dict[int, Array] | None:
        r, found = call.recording, self.found
        trace = r.trace
        if found.plan is None:
            r.planner.plan(found, trace, self.state)
            if found.plan is None:
                return None
        leaves, values = [*trace.arrays, self._incoming(call)], trace.values
        arrays = [values[ref] if ref >= 0 else leaves[-1 - ref] for ref in found.plan.inputs]
        out = found.plan.run(arrays, trace.numbers)
        if type(out) is not list:
            r.counters.failed += 1
            return None
        r.counters.runs += 1
        values.update(zip(found.wanted, out, strict=False))
        return dict(zip(found.plan.gradients, out[len(found.wanted) :], strict=True))
