"""The short path of elementwise ops with one and two inputs: the ops that small models spend their time in.

What `run` does, without its loops, for tensors of one floating dtype and numbers. Anything else (other dtypes, a
recording) is handed to `apply`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import running
from ._tensor import Tensor, is_operand, new, wrap
from .graph import Node
from .lines import user_line
from .modes import MODE, Mode
from .op import Op, Refuse
from .running import NO_ATTRS, SIGNATURES, apply, cut_reason, entry
from .storage import Storage
from .types import TensorType, dtype


def runner1(op: type[Op], deliver: Callable[..., Any]) -> Callable[..., Any]:
    """`input -> apply(op, (input,))`; with `out=`, `deliver(result, out)`."""
    if not op.simple:

        def run_any(input: Tensor, *, out: Tensor | None = None) -> Tensor:
            return apply(op, (input,)) if out is None else deliver(apply(op, (input,)), out)

        return run_any
    kernel, op_quiet, ndarray = op.numpy, op.quiet, np.ndarray
    several_steps = not isinstance(kernel, np.ufunc)  # then halves are computed in float32 and rounded once
    derivations: dict[dtype, Any] = {}

    def run1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
        x = input
        if out is not None:
            return deliver(run1(x), out)
        mode = MODE.get()
        if mode.interceptor is not None or (type(x) is not Tensor and not isinstance(x, Tensor)):
            return apply(op, (x,))
        type_ = x._type
        array = x._array
        if not type_.dtype.is_floating_point or array is None or (several_steps and type_.dtype.itemsize == 2):
            return apply(op, (x,))
        if x._alias is not None:
            x._catch_up()
        if op_quiet or mode.quiet:
            result = kernel(array)
        else:
            try:
                result = running._run_quietly(kernel, array)
            except RuntimeError:
                return apply(op, (x,))
        if type(result) is not ndarray or (several_steps and result.dtype is not array.dtype):
            result = np.asarray(result, array.dtype)
        storage = new(Storage)
        storage.array = result
        t = new(Tensor)
        t._array = result
        t._storage = storage
        t._type = type_
        t._alias = None
        t._cut = None
        node = x._node
        if type(node) is not Node or not mode.grad:
            t._node = None
            if type(node) is Node:
                t._cut = cut_reason(op, mode), user_line()
            elif x._cut is not None:
                t._cut = x._cut
            return t
        derived = derivations.get(type_.dtype)
        if derived is None:
            derived = derivations[type_.dtype] = _derive(op, 1, (type_,))
        saved: Any = ()
        for position in derived.reads:
            kept = (1, array, x._storage, x._storage.version) if position else (0, result, storage, 0)
            saved = (*saved, kept)
        t._node = Node(op, (node,), NO_ATTRS, type_, saved, user_line(), derived if derived.kernel else None)
        return t

    return run1


def runner2(op: type[Op]) -> Callable[[Any, Any], Any]:
    """`a, b -> apply(op, (a, b))`, or NotImplemented for what is no operand, so that it can serve as an operator."""
    if not op.simple:
        return lambda a, b: apply(op, (a, b)) if is_operand(a) and is_operand(b) else NotImplemented
    kernel, op_quiet, ndarray = op.numpy, op.quiet, np.ndarray
    several_steps = not isinstance(kernel, np.ufunc)  # then halves are computed in float32 and rounded once
    derivations: dict[dtype, list[Any]] = {}
    number_derivations: dict[tuple[dtype, type, bool], Any] = {}

    def with_number(a: Tensor, number: float, number_first: bool, mode: Mode) -> Any:
        type_, x = a._type, a._array
        # Halves have rules of their own about numbers, and NumPy's bfloat16 does not round on the way.
        if not type_.dtype.is_floating_point or x is None or type_.dtype.itemsize == 2:
            return apply(op, (number, a) if number_first else (a, number))
        if a._alias is not None:
            a._catch_up()
        left, right = (number, x) if number_first else (x, number)
        try:
            out = kernel(left, right) if op_quiet or mode.quiet else running._run_quietly(kernel, left, right)
        except RuntimeError:
            return apply(op, (number, a) if number_first else (a, number))
        if type(out) is not ndarray or out.dtype is not x.dtype:
            out = np.asarray(out, x.dtype)
        t = wrap(out, type_)
        node = a._node
        if type(node) is not Node or not mode.grad:
            t._cut = a._cut if type(node) is not Node else (cut_reason(op, mode), user_line())
            return t
        key = (type_.dtype, type(number), number_first)
        derived = number_derivations.get(key)
        if derived is None:
            types = (type(number), type_) if number_first else (type_, type(number))
            derived = number_derivations[key] = _derive(op, 2 if number_first else 1, types)
        saved = tuple([entry(position, a if position else t) for position in derived.reads])
        nodes = (number, node) if number_first else (node, number)
        t._node = Node(op, nodes, NO_ATTRS, type_, saved, user_line(), derived if derived.kernel else None)
        return t

    def run2(a: Any, b: Any) -> Any:
        mode = MODE.get()
        if mode.interceptor is not None:
            return apply(op, (a, b))
        if not ((type(a) is Tensor or isinstance(a, Tensor)) and (type(b) is Tensor or isinstance(b, Tensor))):
            if (type(b) is float or type(b) is int) and isinstance(a, Tensor):
                return with_number(a, b, False, mode)
            if (type(a) is float or type(a) is int) and isinstance(b, Tensor):
                return with_number(b, a, True, mode)
            return apply(op, (a, b)) if is_operand(a) and is_operand(b) else NotImplemented
        type_, other_type = a._type, b._type
        if type_ != other_type:
            found = SIGNATURES.get((op, (type_, other_type)))
            if found is None or found.compute is not None:
                return apply(op, (a, b))
            type_ = found.type
        x, y = a._array, b._array
        if not type_.dtype.is_floating_point or x is None or y is None:
            return apply(op, (a, b))
        if several_steps and type_.dtype.itemsize == 2:
            return apply(op, (a, b))
        if a._alias is not None:
            a._catch_up()
        if b._alias is not None:
            b._catch_up()
        if op_quiet or mode.quiet:
            out = kernel(x, y)
        else:
            try:
                out = running._run_quietly(kernel, x, y)
            except RuntimeError:
                return apply(op, (a, b))
        if type(out) is not ndarray or (several_steps and out.dtype is not x.dtype):
            out = np.asarray(out, x.dtype)
        storage = new(Storage)
        storage.array = out
        t = new(Tensor)
        t._array = out
        t._storage = storage
        t._type = type_
        t._alias = None
        t._cut = None
        first, second = a._node, b._node
        needs = (type(first) is Node) + 2 * (type(second) is Node)
        if not needs or not mode.grad:
            t._node = None
            if needs:
                t._cut = cut_reason(op, mode), user_line()
            else:
                t._cut = a._cut or b._cut
            return t
        by_need = derivations.get(type_.dtype)
        if by_need is None:
            by_need = derivations[type_.dtype] = [None] * 4
        derived = by_need[needs]
        if derived is None:
            derived = by_need[needs] = _derive(op, needs, (a._type, b._type))
        saved: Any = ()
        for position in derived.reads:
            if position:
                value = a if position == 1 else b
                saved = (*saved, (position, value._array, value._storage, value._storage.version))
            else:
                saved = ((0, out, storage, 0),)
        nodes = (first or a._own_node(), second or b._own_node())
        t._node = Node(op, nodes, NO_ATTRS, type_, saved, user_line(), derived if derived.kernel else None)
        return t

    return run2


class _NoKernel:
    """A gradient to be computed op by op: what it reads, and no kernel."""

    kernel = None

    def __init__(self, reads: tuple[int, ...]) -> None:
        self.reads = reads


def _derive(op: type[Op], needs: int, types: tuple[Any, ...]) -> Any:
    """The derived gradient of a simple op. Halves have no kernel: they are rounded after every op, and only there."""
    from .autograd.derive import derived_vjp

    if isinstance(op.vjp, Refuse):
        return _NoKernel(())
    derived = derived_vjp(op, needs, types)
    in_halves = any(isinstance(t, TensorType) and t.dtype.itemsize == 2 for t in types)
    return _NoKernel(derived.reads) if in_halves else derived
