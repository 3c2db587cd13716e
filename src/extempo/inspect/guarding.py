"""`guard`: code that stops at the first nan, or infinity in a loss, a gradient or a weight, and names the op.

Results of ops, and what leaves plans, are looked at for nan (`checking`). For infinities a loss is looked at when its
backward begins, the gradients of leaves when it ends, in one native pass over their bits, and weights after the step of
an optimizer. Only when something is wrong the op is looked for: the graph is still there, because a guarded backward
frees it after the look. So an infinity in the middle, as a mask of attention has it, is no business of a guard.
"""

from __future__ import annotations

import operator
import warnings
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Self

import numpy as np

from ..autograd import api, engine, native_engine, seeds, traced_backward
from ..backends.selection import native
from ..core import locks
from ..core.context import CONTEXT, end_trace
from ..core.graph import Graph, Leaf, Node
from ..core.source_location import user_stacklevel
from ..core.tensor import Tensor, wrap
from ..core.weak import WeakTable
from ..errors import NonFiniteError
from ..nn import Module
from ..optim.optimizer import register_optimizer_step_post_hook
from ..tracing.api import eager
from . import blaming
from .checking import NanChecks, Recorded, look_through, paused
from .nonfinite import counted_text, range_text
from .owners import named_parameters

LARGE = 1 << 15  # bytes of a node: less than that and noting its inputs would take longer than keeping its values

_BackwardEngine = engine.BackwardEngine
_array_of = operator.attrgetter("_data")


def _is_fine(arrays: list[Any]) -> bool:
    """Whether all are finite; whatever native code does not know is looked at here."""
    if native_engine.all_finite(arrays):
        return True
    return all(a.dtype.kind in "biu" or bool(np.isfinite(a).all()) for a in arrays)


class GuardedEngine(_BackwardEngine):
    """One run of backward that frees its graph when the gradients of leaves have been looked at."""

    _may_free = False
    _structure: blaming.Structure | None = None  # of a large graph

    def run(self, roots: list[tuple[Node, Tensor]]) -> dict[Node, Tensor]:
        if self.create_graph or CONTEXT.get().interceptor is not None:
            return _BackwardEngine.run(self, roots)
        keep, self.keep = self.keep, True
        self._may_free = self.wanted is None and self.accumulate and not keep
        self._visited: list[Node] = []
        found = _BackwardEngine.run(self, roots)  # without super(), which takes longer to find it
        self.keep = keep
        if self._structure is not None:
            self._check_large(roots, self._structure)
            return found
        if self._may_free and native_engine.settle(self._order):
            for node in self._visited:
                node.op.freed(node)
            return found
        given = found.values() if self.wanted is not None or not self.accumulate else _gradients(self._order)
        if not _is_fine([g._values() for g in given]):
            _raise_for_gradient(roots, self._order, _installed.model)
        if not keep:
            for node in self._order:
                super()._free(node)
        return found

    def _check_large(self, roots: list[tuple[Node, Tensor]], structure: blaming.Structure) -> None:
        """The graph is freed; if something is wrong it is made again."""
        if _is_fine([g._values() for g in _gradients(self._order)]):
            return
        made = structure.rebuilt()
        again = [(made[node]._own_node(), g) for node, g in roots if node in made]
        _raise_for_gradient(again, self._order, _installed.model)

    def _reach(self, roots: list[Node]) -> list[Node]:
        self._order = order = _BackwardEngine._reach(self, roots)
        if self._may_free and _is_large(len(order)):  # so values are let go on the way, as without a guard
            self._structure = blaming.Structure(order)
            self.keep = False
        return order

    def _visit(self, node: Node, g: Any) -> None:
        with paused():  # gradients of leaves are looked at, and what made them is said better then
            super()._visit(node, g)

    def _free(self, node: Node) -> None:
        if not self.keep:
            super()._free(node)
        elif node.op.freed is not None:
            self._visited.append(node)


def _is_large(n_nodes: int) -> bool:
    """Whether so much memory is in use that keeping all of a graph until the end of its backward would be slow."""
    return _installed.is_large(n_nodes)


def _gradients(nodes: list[Node]) -> list[Tensor]:
    extras = [node.extra for node in nodes if node.op is Leaf and node.extra is not None]
    return [extra.grad for extra in extras if extra.grad is not None]


def _raise_for_gradient(roots: list[tuple[Node, Tensor]], order: list[Node], model: Module | None) -> None:
    with paused():
        values = blaming.values_of(Graph.reach([node for node, _ in roots]))
        found = blaming.blame_backward(roots, values, model) if roots else None
    if found is None and not roots:
        raise NonFiniteError(
            "guard: a gradient is not finite, the loss is; the graph was too large to be kept, and could not be made "
            "again: `with ex.autograd.detect_anomaly():` names the op of a nan"
        )
    if found is None:
        bad = [n for n in order if n.op is Leaf and n.extra is not None and n.extra.grad is not None]
        named = [blaming.name_of(n, model) for n in bad if not _is_fine([n.extra.grad._values()])]  # type: ignore[union-attr]
        what = named[0] if named else "a leaf"
        raise NonFiniteError(
            f"guard: the gradient of {what} is not finite, and was not before this backward added to it; a second run "
            "of backward is finite: were gradients added up until they overflowed? Call optimizer.zero_grad()"
        )
    blame, leaf = found
    raise NonFiniteError(f"guard: the gradient of {blaming.name_of(leaf, model)} is not finite, the loss is: {blame}")


def _check_loss(outputs: list[Tensor], model: Module | None) -> None:
    """Before the engine goes backward from them."""
    for t in outputs:
        array = t._data
        if array is not None and not _is_fine([array]):
            root = t._current_node()
            if root is None:
                continue
            with paused():
                values = blaming.values_of(Graph.reach([root]))
                values[root] = array
                _raise_for_loss(array, blaming.blame_forward(root, values, model))


def _raise_for_loss(array: Any, blame: blaming.Blame | None) -> None:
    what = f"{array.item()}" if array.size == 1 else range_text(array)
    why = blame or "nothing that it was computed from could be followed further back: are data and weights finite?"
    raise NonFiniteError(f"guard: the loss is {what}: {why}")


# ---- plans


def _check_plan(trace: Any, place: int, root: Tensor, rest: list[tuple[Any, Any]], model: Module | None) -> None:
    """After a plan has run the forward and the backward of what a trace had, from the value at a place."""
    arrays = [extra.grad._data for node in trace.nodes if (extra := node and node.extra) and extra.grad is not None]
    arrays.append(root._data)
    if rest:
        arrays += [g for _, g in rest]
    if native_engine.all_finite(arrays) or _is_fine([a for a in arrays if a is not None]):
        return
    recorded = Recorded(trace)
    results, values = recorded.run()
    again = results[place]
    if not _is_fine([again._values()]):
        root_node = again._own_node()
        _raise_for_loss(again._values(), blaming.blame_forward(root_node, values, model))
    node = again._own_node()
    order = [n for n in recorded.nodes if type(n) is Node]
    seed = wrap(np.ones(again.shape, again.dtype.numpy), again._type)
    found = blaming.blame_backward([(node, seed)], values, model)
    if found is None:
        _raise_for_gradient([(node, seed)], order, model)
    else:
        named = blaming.name_of(found[1], model)
        raise NonFiniteError(f"guard: the gradient of {named} is not finite, the loss is: {found[0]}")


# ---- weights


def _check_weights(optimizer: Any, args: Any, kwargs: Any) -> None:
    groups = optimizer.param_groups
    parameters = groups[0]["params"] if len(groups) == 1 else [p for group in groups for p in group["params"]]
    _installed.look_for_stale_gradients(optimizer, parameters)
    if native_engine.all_finite([*map(_array_of, parameters)]):
        return
    if _is_fine([p._data for p in parameters if p._data is not None]):
        return
    p = next(p for p in parameters if p._data is not None and not _is_fine([p._data]))
    name = next(name for name, q in named_parameters(_installed.model, [p]) if q is p)
    gradient = "" if p.grad is None else f", its gradient is {range_text(p.grad._values())}"
    lr = optimizer.param_groups[0].get("lr")
    if p.grad is not None and not _is_fine([p.grad._values()]):  # of a static function, which only tells its updates
        raise NonFiniteError(
            f"guard: {type(optimizer).__name__}.step made {counted_text(p._values())} of weight {name}{gradient}; run "
            "the step without static=True, and a guard names the op that made it"
        )
    raise NonFiniteError(
        f"guard: {type(optimizer).__name__}.step made {counted_text(p._values())} of weight {name}{gradient} and lr is "
        f"{lr}; lower the lr, or clip gradients: nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
    )


# ---- the block


_ASKED_EVERY = 8
_MOST_LOOKED_AT = 4  # steps of an optimizer: who forgets to forget gradients does it from the first on


class _Steps:
    """What the last step of an optimizer was made with."""

    n_looked_at = 0
    gradient: weakref.ref[Tensor] | None = None
    version = 0


class _Installed:
    """The functions of backward that are exchanged while a guard is on, and how many guards are."""

    def __init__(self) -> None:
        self.n_on = 0
        self.model: Module | None = None
        self.pool: Any = None  # of native memory
        self._large = (0, 0, False)  # nodes of the last graph, backwards for which its answer holds, the answer
        self.lock = locks.renewed()
        self._checks = NanChecks(lambda: self.model)
        self._undo: list[Callable[[], None]] = []
        self._stepped: WeakTable[Any, _Steps] = WeakTable()

    def is_large(self, n_nodes: int) -> bool:
        """See `_is_large`; of a graph of as many nodes as the last one, asked again now and then only."""
        n_before, left, answer = self._large
        if n_before != n_nodes or not left:
            pool = self.pool
            answer, left = pool is not None and pool.bytes_in_use > LARGE * n_nodes, _ASKED_EVERY
        self._large = n_nodes, left - 1, answer
        return answer

    def look_for_stale_gradients(self, optimizer: Any, parameters: list[Any]) -> None:
        """Warn, once, if backward has added to the gradient that the step before this one was made with."""
        seen = self._stepped.get(optimizer)
        if seen is None:
            seen = self._stepped[optimizer] = _Steps()
        if seen.n_looked_at >= _MOST_LOOKED_AT:
            return
        gradient: Any = parameters[0].grad if parameters else None
        if gradient is None or gradient._memory is None:
            return
        version = gradient._memory.version
        seen.n_looked_at += 1
        # Filling it with zeros in between would have counted, too.
        if seen.gradient is not None and seen.gradient() is gradient and version == seen.version + 1:
            warnings.warn(
                f"guard: backward has added to the gradients of the last {type(optimizer).__name__}.step, which have "
                "not been forgotten; call optimizer.zero_grad() before each backward, unless the sum over steps is "
                "meant",
                stacklevel=user_stacklevel(),
            )
            seen.n_looked_at = _MOST_LOOKED_AT
        seen.gradient, seen.version = weakref.ref(gradient), version

    def install(self) -> None:
        backend = native()
        self.pool = None if backend is None else backend.memory
        roots_of, by_plan = seeds.roots_of, traced_backward.backward_by_plan

        def guarded_roots(outputs: list[Tensor], gradients: Any, name: str, create_graph: bool) -> Any:
            roots = roots_of(outputs, gradients, name, create_graph)  # which runs what was only traced
            if not create_graph:
                _check_loss(outputs, self.model)
            return roots

        def guarded_plan(
            outputs: list[Tensor], gradients: Any, name: str, asked: list[Tensor] | None, keep: bool
        ) -> list[tuple[Any, Any]] | None:
            root = outputs[0]
            trace = getattr(root._source, "trace", None)
            if trace is None:
                return by_plan(outputs, gradients, name, asked, keep)
            place = root._value_id
            self._checks.begin_plan()
            rest = by_plan(outputs, gradients, name, asked, keep)
            if rest is not None and (rest or not self._checks.is_plan_fine()):
                _check_plan(trace, place, root, rest, self.model)
                look_through(trace, self.model)
            return rest

        hook = register_optimizer_step_post_hook(_check_weights)
        exchanged: list[tuple[Any, str, Any]] = [
            (api, "roots_of", guarded_roots),
            (api, "backward_by_plan", guarded_plan),
            (engine, "BackwardEngine", GuardedEngine),
        ]
        self._undo = [hook.remove]
        for owner, name, function in exchanged:
            self._undo.append(_putter(owner, name, getattr(owner, name)))
            setattr(owner, name, function)
        self._undo.append(self._checks.remove)
        self._checks.install()

    def remove(self) -> None:
        for undo in self._undo:
            undo()
        self._undo = []
        self._stepped = WeakTable()


def _putter(owner: Any, name: str, value: Any) -> Callable[[], None]:
    return lambda: setattr(owner, name, value)


_installed = _Installed()


class guard:
    """Within the block, stop at a nan, or an infinity in a loss, a gradient or a weight, and name the op that made it.

    model: whose modules and parameters are named; without it they are looked for among all modules that live.
    every_op: functions of `ex.compile` and `ex.batch` run op by op, so that also a nan that never leaves a plan is met.
    That is slow; without it a training step takes a few per cent longer.

    >>> w = ex.zeros(3, requires_grad=True)
    >>> with ex.inspect.guard():
    ...     (w.sqrt() * 2).sum().backward()
    Traceback (most recent call last):
        ...
    extempo.errors.NonFiniteError: guard: the gradient of leaf 0 is not finite, the loss is: backward of sqrt (...
    """

    def __init__(self, model: Module | None = None, *, every_op: bool = False) -> None:
        self._model = model
        self._every_op = every_op
        self._blocks = ExitStack()

    def __enter__(self) -> Self:
        if self._every_op:
            end_trace(CONTEXT.get())
            self._blocks.enter_context(eager())
        with _installed.lock:
            if not _installed.n_on:
                _installed.install()
            _installed.n_on += 1
            self._before = _installed.model
            _installed.model = self._model or self._before
        return self

    def __exit__(self, *raised: Any) -> None:
        with _installed.lock:
            _installed.n_on -= 1
            _installed.model = self._before
            if not _installed.n_on:
                _installed.remove()
        self._blocks.close()
