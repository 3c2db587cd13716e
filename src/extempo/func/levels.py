"""Levels: what happens inside a vmap, to tensors that stand for one sample and have the values of all.

Inside, a per-sample tensor is a Tensor of the one sample's type without values of its own; its lazy source, a
`Batched`, has a physical tensor with all samples along its first dimension. A `Level` is the interceptor: an op on
per-sample tensors runs once, on the physical ones, by the op's batching rule (`rules`), in the mode that vmap was
called in. An op without a rule is run sample by sample.

Two graphs can grow at the same time. What happens to physical tensors is recorded by whoever records outside, so
gradients of a vmap need nothing here. What happens to per-sample tensors is recorded as nodes of per-sample types, so
that a gradient inside vmap is each sample's own. A variable that is made inside from a tensor that all samples share
has a `SharedInput` behind it: nodes inside, one copy of the values outside.
"""

from __future__ import annotations

import weakref
from typing import Any

from .. import ops
from ..autograd.custom import Context, Function
from ..core.context import CONTEXT, ExecutionContext, Swap
from ..core.graph import Node, Pick
from ..core.op import Op
from ..core.source_location import user_line
from ..core.tensor import Tensor, symbol
from ..core.types import TensorType
from ..dispatch.dispatcher import apply, as_input, cut_reason, link
from ..dispatch.inplace import as_dtype_node, makers, refuse_leaf_write, write
from ..errors import AutogradError, GraphError, OverwrittenError, ShapeError
from ..ops.view import write_through
from .custom_batching import run_function
from .rules import run_batched

Steps = tuple[tuple[type[Op], tuple[Any, ...], dict[str, Any]], ...]


class Batched:
    """The values of a per-sample tensor: all samples' in `physical`, along its first dimension."""

    __slots__ = ("base", "level", "physical", "stamp", "steps", "views")

    shared = False

    def __init__(self, level: Level, physical: Tensor) -> None:
        self.level = level
        self.physical = physical
        self.stamp = _stamp(physical)  # what the physical tensor had been written to by then
        self.base: Tensor | None = None  # the per-sample tensor that this is a view of, through `steps`
        self.steps: Steps = ()
        self.views: list[weakref.ref[Tensor]] = []

    def current(self) -> Tensor:
        """The physical tensor, unless it was overwritten after this was saved."""
        if _stamp(self.physical) != self.stamp:
            raise OverwrittenError(
                "backward: inside vmap, a value that is needed for a gradient was overwritten in place; use the "
                "out-of-place form, or write into x.clone()"
            )
        return self.physical

    def read(self, t: Tensor) -> Any:
        if not self.level.running:
            raise AutogradError(
                "vmap: this tensor belongs to one sample inside a vmap that has ended; return it from the mapped "
                "function"
            )
        raise AutogradError(
            "vmap: a value was read (item(), bool(), if, numpy(), print), but here it is another one for each "
            "sample; use ex.where(...) in place of if, keep numbers as tensors, or loop over the samples without vmap"
        )


class SharedInput(Batched):
    """The values of a tensor that is recorded inside a vmap but is the same for all samples: `physical` is as it is."""

    __slots__ = ()

    shared = True

    def read(self, t: Tensor) -> Any:
        return self.physical._values()


def _stamp(t: Tensor) -> int:
    """Changes whenever the tensor is written in place."""
    if t._storage is not None:
        return int(t._storage.version)
    return int(t._source.stamp) if isinstance(t._source, Batched) else 0


def current_level() -> Level | None:
    """The innermost vmap that is running here."""
    interceptor: Any = CONTEXT.get().interceptor
    while interceptor is not None and not isinstance(interceptor, Level):
        interceptor = getattr(getattr(interceptor, "outer", None), "interceptor", None)
    return interceptor


def requires_grad_below(t: Tensor) -> bool:
    """Whether anything outside the enclosing vmaps records this per-sample tensor."""
    while t._array is None and isinstance(t._source, Batched):
        t = t._source.physical
        if t.requires_grad:
            return True
    return False


class Level:
    """One running vmap: the interceptor of what happens in it."""

    def __init__(self, size: int, randomness: str) -> None:
        self.size = size
        self.randomness = randomness
        self.outer = CONTEXT.get()
        self.running = True
        self._modes: dict[tuple[bool, bool, bool], ExecutionContext] = {}

    # ---- between per-sample and physical

    def wrap(self, physical: Tensor) -> Tensor:
        """The per-sample tensor of a physical one."""
        type_ = TensorType(physical._type.shape[1:], physical._type.dtype)
        return symbol(type_, None, Batched(self, physical))

    def share(self, physical: Tensor) -> Tensor:
        """A tensor that all samples share, to be recorded here."""
        return symbol(physical._type, None, SharedInput(self, physical))

    def find(self, x: Any) -> Batched | None:
        """What stands for the values of x, if this level knows them."""
        if isinstance(x, Tensor) and x._array is None and isinstance(x._source, Batched) and x._source.level is self:
            return x._source
        return None

    def is_batched(self, x: Any) -> bool:
        """Whether x differs between samples."""
        found = self.find(x)
        return found is not None and not found.shared

    def lowered(self, x: Any) -> Any:
        """x as the mode outside knows it: with all samples, or as what they share."""
        found = self.find(x)
        return x if found is None else found.current()

    def physical(self, x: Tensor) -> Tensor:
        """All samples of x along a first dimension; what they share is expanded."""
        value = self.lowered(x)
        return value if self.is_batched(x) else value.expand(self.size, *x._type.shape)

    def outside(self, grad: bool) -> Swap:
        """The mode in which vmap was called, for a `with` block."""
        now = CONTEXT.get()
        key = (grad, now.inference, now.quiet)
        mode = self._modes.get(key)
        if mode is None:
            mode = self._modes[key] = ExecutionContext(grad, now.inference, self.outer.interceptor, now.quiet)
        return Swap(mode)

    # ---- running ops

    def apply(self, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        inputs = tuple(map(as_input, inputs))
        found = [self.find(x) for x in inputs]
        mode = CONTEXT.get()
        own_draws = op.family == "random" and self._draws_differ(op)
        if not any(found) and not own_draws:
            with self.outside(mode.grad):
                return apply(op, inputs, attrs)
        types = tuple(x._type if isinstance(x, Tensor) else type(x) for x in inputs)
        type_ = op.signature(types, attrs).type  # speaks up in the terms of one sample
        batched, lowered = self._lowered_shared(inputs, found)
        per_sample = own_draws or any(batched)
        with self.outside(mode.grad and self.outer.grad):
            if own_draws:
                result = self._draw(op, lowered, attrs)
            elif per_sample:
                result = run_batched(self, op, lowered, attrs, batched, types, type_)
            else:
                result = apply(op, lowered, attrs)
        outs = self._results(op, result, type_, per_sample)
        if op.aliases_input:
            self._register_view(outs, op, inputs, attrs)
        self._record(op, inputs, attrs, types, type_, outs)
        return outs

    def _lowered_shared(
        self, inputs: tuple[Any, ...], found: list[Batched | None]
    ) -> tuple[list[Batched | None], tuple[Any, ...]]:
        """Which inputs differ between samples, and the inputs with those lowered that samples share."""
        batched = [None if f is None or f.shared else f for f in found]
        lowered = [f.current() if f is not None and f.shared else x for f, x in zip(found, inputs, strict=True)]
        return batched, tuple(lowered)

    def _results(self, op: type[Op], result: Any, type_: Any, per_sample: bool) -> Any:
        """What ran outside, as tensors inside."""
        if not isinstance(type_, TensorType):
            return tuple([self._results(op, r, t, per_sample) for r, t in zip(result, type_, strict=True)])
        return self._checked(op, result, type_) if per_sample else self.share(result)

    def _record(
        self, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any], types: Any, type_: Any, outs: Any
    ) -> None:
        """Link per-sample results to a node, if gradients of per-sample tensors are recorded."""
        needs, present = _masks(inputs)
        if not needs or op.name == "detach":
            return
        mode = CONTEXT.get()
        if isinstance(type_, TensorType):
            if mode.grad and type_.dtype.is_floating_point:
                outs._node = link(op, inputs, attrs, types, type_, outs, (needs, present))
            else:
                outs._grad_barrier = cut_reason(op, mode), user_line()
        elif mode.grad and any(t.dtype.is_floating_point for t in type_):
            node = link(op, inputs, attrs, types, type_, outs, (needs, present))
            for i, out in enumerate(outs):
                if out._type.dtype.is_floating_point:
                    out._node = Node(Pick, (node,), {"index": i}, out._type, (), node.where)

    def _checked(self, op: type[Op], physical: Tensor, type_: TensorType) -> Tensor:
        expected = (self.size, *type_.shape)
        if physical._type.shape != expected:
            raise GraphError(f"{op.name}: its batching rule gave shape {physical._type.shape}, expected {expected}")
        if physical._type.dtype is not type_.dtype:
            with self.outside(CONTEXT.get().grad and self.outer.grad):
                physical = physical.to(type_.dtype)
        return self.wrap(physical)

    def loop(self, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any], found: list[Any], type_: Any) -> Any:
        """An op without a rule: one call per sample, stacked."""
        several = not isinstance(type_, TensorType)
        if not self.size:
            empty = [ops.zeros((0, *t.shape), dtype=t.dtype) for t in (type_ if several else (type_,))]
            return tuple(empty) if several else empty[0]
        physical = [f.current() if f is not None else None for f in found]
        results = [
            apply(op, tuple(x if p is None else p.select(0, i) for x, p in zip(inputs, physical, strict=True)), attrs)
            for i in range(self.size)
        ]
        if several:
            return tuple(ops.stack(part) for part in zip(*results, strict=True))
        return ops.stack(results)

    # ---- random draws

    def _draws_differ(self, op: type[Op]) -> bool:
        if self.randomness == "error":
            raise AutogradError(
                f"{op.name}: a random draw inside vmap; say what is meant with vmap(..., randomness='different') for "
                "draws of its own for each sample, or randomness='same' for one draw that all samples share"
            )
        return self.randomness == "different"

    def _draw(self, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        """Every sample's own draw: elements are counted through all samples, so a larger draw holds them all."""
        if op.name != "random_permutation":
            full = tuple(self.physical(x) if isinstance(x, Tensor) else x for x in inputs)
            return apply(op, full, attrs | {"shape": (self.size, *attrs["shape"])} if "shape" in attrs else attrs)
        seed, draw = inputs
        # One permutation is one draw: each sample gets a stream of its own, found from the seed.
        seeds = [(seed + 0x9E3779B97F4A7C15 * i) % 2**64 for i in range(1, self.size + 1)]
        return ops.stack([apply(op, (s, draw), attrs) for s in seeds])

    # ---- in-place writes

    def _register_view(self, out: Tensor, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> None:
        """Remember that a result shares memory with the first input, for writes to either."""
        source = inputs[0]
        mine, theirs = out._source, source._source
        if not _share_memory(mine.physical, theirs.physical):
            return
        base = theirs.base if theirs.base is not None else source
        mine.base = base
        mine.steps = (*theirs.steps, (op, inputs[1:], attrs))
        base._source.views.append(weakref.ref(out))

    def write(self, target: Tensor, value: Tensor, op_name: str, made_from: tuple[Tensor, ...] = ()) -> Tensor:
        mode = CONTEXT.get()
        there = self.find(target)
        if there is None and not self.is_batched(value):
            with self.outside(mode.grad):
                return write(target, self.lowered(value), op_name, tuple(map(self.lowered, made_from)))
        if there is None or (there.shared and self.is_batched(value)):
            raise AutogradError(
                f"{op_name}: inside vmap, values that differ between samples cannot be written into a tensor that "
                "all samples share; use the out-of-place form, or pass the tensor to vmap as a mapped argument"
            )
        if value._type.shape != target._type.shape:
            raise ShapeError(
                f"{op_name}: the result has shape {value._type.shape}, which does not fit into {target._type.shape}; "
                f"an in-place op cannot grow its tensor, use x = x.{op_name.rstrip('_')}(...)"
            )
        base = target if there.base is None else there.base
        if mode.grad:
            refuse_leaf_write(target, base, op_name)
        tracked = mode.grad and (value.requires_grad or target.requires_grad)
        with self.outside(mode.grad and self.outer.grad):
            if tracked:
                self._keep_old_values(value._node, there, made_from)
            values = self.lowered(value) if there.shared else self.physical(value)
            write(there.current(), values, op_name, tuple(map(self.lowered, made_from)))
        self._after_write(target, base, value if tracked else None)
        return target

    def _keep_old_values(self, last: Any, there: Batched, made_from: tuple[Tensor, ...]) -> None:
        """The ops that made the value may have saved what is about to be overwritten."""
        for node in makers(last if type(last) is Node else None, made_from):
            kept = []
            for entry in node.saved or ():
                saved = entry[1]
                if isinstance(saved, Batched) and saved.level is self and _share_memory(saved.physical, there.physical):
                    entry = (entry[0], type(saved)(self, saved.current().clone()), None, 0)
                kept.append(entry)
            if kept:
                node.saved = tuple(kept)

    def _after_write(self, target: Tensor, base: Tensor, value: Tensor | None) -> None:
        """Everything that shares the memory sees the new values, and, if `value` is tracked, has its history."""
        steps = target._source.steps
        views = [v for v in (r() for r in base._source.views) if v is not None]
        for t in (base, *views):
            old = t._source
            t._source = fresh = type(old)(self, old.physical)
            fresh.base, fresh.steps = old.base, old.steps
        base._source.views = [weakref.ref(v) for v in views]
        if value is None:
            return
        node = as_dtype_node(value, target._type.dtype)
        base._node = write_through(base, node, steps) if steps else node
        for view in views:
            view._node = _through(base._node, view._source.steps)

    # ---- functions with gradients of their own

    def run_function(
        self, function: type[Function], ctx: Context, args: tuple[Any, ...], separate: bool, grad: bool
    ) -> Any:
        """The forward of an autograd.Function, also recorded outside if the physical tensors are."""
        return run_function(self, function, ctx, args, separate, grad)


def _masks(inputs: tuple[Any, ...]) -> tuple[int, int]:
    """The inputs that need a gradient and the inputs that are tensors, as bits."""
    needs = present = 0
    for i, x in enumerate(inputs):
        if isinstance(x, Tensor):
            present |= 1 << i
            if x.requires_grad:
                needs |= 1 << i
    return needs, present


def _share_memory(a: Tensor, b: Tensor) -> bool:
    if a._storage is not None or b._storage is not None:
        return a._storage is b._storage
    x, y = a._source, b._source
    return isinstance(x, Batched) and isinstance(y, Batched) and _share_memory(x.physical, y.physical)


def _through(node: Node, steps: Steps) -> Node:
    """The node of a view, from that of its base."""
    for op, numbers, attrs in steps:
        types = (node.type, *map(type, numbers))
        node = Node(op, (node, *numbers), attrs, op.signature(types, attrs).type, (), node.where)
    return node
