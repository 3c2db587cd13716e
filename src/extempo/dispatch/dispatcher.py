"""Dispatch: `apply(op, inputs, attrs)`, the one door through which every op runs: infer -> kernel -> node.

In eager mode it asks the op's shape rule first (so that errors rise at the user's line), runs the kernel, and, when an
input requires grad, links a Node that keeps only what the op's gradient reads. A trace or an interceptor (vmap, a
sample of a batch) in the current context gets the op instead.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import copy_context
from itertools import chain
from typing import Any

import numpy as np

from ..backends import entry_points
from ..core.context import CONTEXT, ExecutionContext, set_context
from ..core.graph import Node, Pick
from ..core.op import Op
from ..core.source_location import user_line
from ..core.storage import Array, Storage
from ..core.tensor import LazySource, Tensor, TensorLike, ViewOf, from_array, new, wrap
from ..core.types import TensorType
from ..errors import DtypeError, UnsupportedError
from ..symbolic.sym_int import kind_of
from .kernel_cache import SIGNATURES, as_result, make_signature, not_floating, numpy_kernel

NO_ATTRS: dict[str, Any] = {}
_NUMBERS = (float, int, bool, type(None))


def quietly(fn: Callable[..., Any], *args: Any) -> Any:
    """Call `fn` with NumPy's warnings off, and the context saying so; about ten times cheaper than np.errstate."""
    mode = CONTEXT.get()
    if mode.quiet:
        try:
            return fn(*args)
        finally:
            set_context(mode)

    def inside() -> Any:
        np.seterr(all="ignore")
        set_context(mode.but(quiet=True))
        return fn(*args)

    return copy_context().run(inside)


def dispatch(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any] = NO_ATTRS) -> Any:
    """Run `op` in the current context. Returns a Tensor, or a tuple of them for an op with several results."""
    for x in inputs:
        if isinstance(x, TensorLike):
            return x._apply(op, inputs, attrs)
    mode = CONTEXT.get()
    if mode.interceptor is not None:
        return mode.interceptor.apply(op, inputs, attrs)
    recording = mode.recording
    if recording is None:
        for x in inputs:
            if isinstance(x, Tensor) and isinstance(x._source, LazySource):
                recording = x._source
    if recording is not None:
        return recording.apply(op, inputs, attrs, mode)
    return run_eager(op, inputs, attrs, mode)


apply: Any = functools.partial(dispatch)


def _native_apply() -> Any:
    from .fast_path import launcher

    return launcher().apply


entry_points.APPLY.bind(apply, "func", _native_apply)


def run_eager(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any], mode: ExecutionContext) -> Any:
    """Run `op` now: infer, kernel, node.

    One pass over the inputs collects what the three steps need: arrays for the kernel, types (classes of numbers) for
    the shape rule, and as bits which inputs are tensors (`present`) and which need a gradient (`needs`): what a node
    saves follows from these two. A result that could have been tracked and is not remembers why (`_grad_barrier`), for
    the message of a backward that finds no path.
    """
    arrays: list[Any] = []
    kinds: list[Any] = []
    needs, present, bit, cut = 0, 0, 1, None
    for x in inputs:
        if isinstance(x, Tensor):
            if x._alias is not None:
                x._catch_up()
            array = x._data
            if array is None:
                array = x._values()
            arrays.append(array)
            kinds.append(x._type)
            present |= bit
            if type(x._history) is Node:
                needs |= bit
            elif x._grad_barrier is not None:
                cut = x._grad_barrier
        else:
            arrays.append(x)
            kinds.append(type(x))
        bit <<= 1
    types = tuple(kinds)
    signature = signature_of(op, inputs, types, attrs)
    if signature is _RETRY:
        return run_eager(op, _converted(op, inputs), attrs, mode)
    if signature.kernel is not None and not op.aliases_input:
        out = signature.kernel(*arrays)
    else:
        out = numpy_kernel(op, arrays, attrs, signature.compute, mode)
    if signature.numpy_dtype is None:
        return _several(op, inputs, attrs, types, signature.type, out, (needs, present), cut, mode)
    if type(out) is not np.ndarray or out.dtype is not signature.numpy_dtype:
        out = as_result(out, signature.numpy_dtype)
    t = new(Tensor)
    t._data = out
    t._type = signature.type
    t._grad_barrier = None
    t._source = None
    if op.aliases_input and same_memory(out, arrays[0]):
        source = inputs[0]
        t._memory = source._storage
        t._alias = alias_of(source, op, inputs[1:], attrs)
    else:
        t._memory = Storage(out)
        t._alias = None
    if needs and mode.grad and signature.type.dtype.is_floating_point:
        t._history = link(op, inputs, attrs, types, signature.type, t, (needs, present))
        signature.plans.setdefault(needs, (op._save_plans[needs, present], None))
    else:
        t._history = None
        if needs:
            t._grad_barrier = cut_reason(op, mode), user_line()
        elif cut is not None:
            t._grad_barrier = cut
    return t


def signature_of(op: type[Op], inputs: tuple[Any, ...], types: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """What the shape rule says of these types, as it was remembered. _RETRY: an input must be converted first."""
    key: Any = (op, types, *chain.from_iterable(attrs.items())) if attrs else (op, types)
    try:
        signature = SIGNATURES.get(key)
    except TypeError:  # an attribute that cannot be hashed
        key = signature = None
    return _signature(op, inputs, types, attrs, key) if signature is None else signature


def link(
    op: type[Op],
    inputs: tuple[Any, ...],
    attrs: dict[str, Any],
    types: tuple[Any, ...],
    type_: Any,
    y: Any,
    masks: tuple[int, int],
) -> Node:
    """The node of a tracked result, keeping what the gradient reads and nothing else.

    `masks`: the inputs that need a gradient and the inputs that are tensors, as bits.
    """
    plan = op._save_plans.get(masks)
    if plan is None:
        plan = op.save_plan(masks, types)
    saved: Any = ()
    if plan:
        kept = []
        for position in plan:
            if position < 0:  # one of several results
                kept.append(entry(position, y[-1 - position]))
                continue
            value = inputs[position - 1] if position else y
            if type(value) is tuple:  # an op with several results keeps them all
                kept.append((0, tuple([entry(0, v) for v in value]), None, 0))
            else:
                kept.append(entry(position, value))
        saved = tuple(kept)
    nodes = tuple([(x._node or x._own_node()) if isinstance(x, Tensor) else x for x in inputs])
    return Node(op, nodes, attrs, type_, saved, user_line())


def entry(position: int, value: Tensor) -> tuple[int, Any, Any, int]:
    """What a node keeps of a value: position in (y, *inputs), array (or its lazy source), storage and version."""
    storage = value._storage
    if storage is None:
        return (position, value._source, None, 0)
    return (position, value._array, storage, storage.version)


def _several(
    op: type[Op],
    inputs: tuple[Any, ...],
    attrs: dict[str, Any],
    types: tuple[Any, ...],
    result_types: tuple[TensorType, ...],
    arrays: Any,
    masks: tuple[int, int],
    cut: Any,
    mode: ExecutionContext,
) -> tuple[Tensor, ...]:
    """The results of an op that has several: one node, and a Pick of it for each floating result."""
    results = tuple(wrap(as_result(a, t.dtype.numpy), t) for a, t in zip(arrays, result_types, strict=True))
    if op.aliases_input:
        for r in results:
            r._storage = inputs[0]._storage
    needs = masks[0]
    if needs and mode.grad and any(t.dtype.is_floating_point for t in result_types):
        node = link(op, inputs, attrs, types, result_types, results, masks)
        for i, r in enumerate(results):
            if r._type.dtype.is_floating_point:
                r._node = Node(Pick, (node,), {"index": i}, r._type, (), node.where)
    elif needs or cut is not None:
        reason = (cut_reason(op, mode), user_line()) if needs else cut
        for r in results:
            r._grad_barrier = reason
    return results


def cut_reason(op: type[Op], mode: ExecutionContext) -> str:
    """What ends the path of gradients at an untracked result of tracked inputs, for messages."""
    if not mode.grad:
        return "inference_mode()" if mode.inference else "no_grad()"
    return not_floating(op)


def alias_of(source: Tensor, op: type[Op], numbers: tuple[Any, ...], attrs: dict[str, Any]) -> ViewOf:
    """How a view of `source` is a view of the base: by the steps that lead there."""
    alias = source._alias
    step = ((op, numbers, attrs),)
    if alias is None:
        return ViewOf(source, step, source._storage.version)
    return ViewOf(alias.base, alias.steps + step, source._storage.version)


def same_memory(out: Array, source: Array) -> bool:
    """Whether a view op really returned a view: reshape copies where strides do not allow one."""
    owner = source if source.base is None else source.base
    return out is source or out.base is owner or out.base is source


_RETRY: Any = object()


def _signature(op: type[Op], inputs: tuple[Any, ...], types: tuple[Any, ...], attrs: dict[str, Any], key: Any) -> Any:
    """Ask the shape rule and remember the answer under `key`. _RETRY: an input must be converted first."""
    for x, kind in zip(inputs, types, strict=False):  # no inputs: they are known to fit
        if not isinstance(x, Tensor) and kind not in _NUMBERS:
            return _RETRY
    return op.signature(types, attrs) if key is None else make_signature(op, types, attrs)


def _converted(op: type[Op], inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    try:
        return tuple(map(as_input, inputs))
    except (DtypeError, UnsupportedError) as error:
        raise type(error)(f"{op.name}: {error}") from None


def as_input(value: Any) -> Any:
    """What an op takes: tensors, Python numbers and None as they are; NumPy arrays and scalars, made into those."""
    if isinstance(value, Tensor) or kind_of(value) in _NUMBERS:
        return value
    if isinstance(value, np.ndarray):
        return from_array(value)
    if isinstance(value, np.generic):
        return value.item()
    for kind in (bool, int, float):  # subclasses of numbers: IntEnum, numpy-like floats
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, complex):
        raise UnsupportedError(
            "complex numbers are not part of Extempo; keep real and imaginary parts in a last dimension of 2"
        )
    if isinstance(value, tuple | list) and any(isinstance(part, Tensor) for part in value):
        raise DtypeError(
            f"expected a tensor or a number, got a {type(value).__name__} of {len(value)}; take one of it (output, "
            "state = lstm(x)), or put them together with ex.stack(...)"
        )
    raise DtypeError(f"expected a tensor or a number, got {type(value).__name__}; make one with ex.tensor(...)")
