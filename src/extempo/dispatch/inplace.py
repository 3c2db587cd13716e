"""Writes in place: new values in the same memory, and the history rewritten instead of mutated.

A write through a view makes the base's node a write into the old base; other views of it read their history anew. What
gradients of earlier ops have saved is kept, or noticed by its version when they run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..core.active_traces import before_write
from ..core.context import CONTEXT
from ..core.graph import Leaf, Node
from ..core.op import Op
from ..core.source_location import user_line
from ..core.storage import Storage
from ..core.tensor import Tensor, TensorLike, ViewOf, carry_retained
from ..core.types import Number, dtype
from ..errors import DtypeError, LeafWriteError, ShapeError
from .dispatcher import NO_ATTRS, apply


def write(target: Tensor, value: Tensor, op_name: str, made_from: tuple[Tensor, ...] = ()) -> Tensor:
    """Replace the values of `target` (and of everything that shares its memory) by `value`, and record that.

    `made_from`: what several ops have made the value of; it is the result of one op if that is not said.
    """
    if isinstance(target, TensorLike):
        return target._write(value, op_name)
    mode = CONTEXT.get()
    if mode.interceptor is not None:
        return mode.interceptor.write(target, value, op_name, made_from)  # type: ignore[attr-defined]
    before_write((target._storage,))
    node = target._current_node()
    check_fits(target, value, op_name)
    base = target._root()
    tracked = mode.grad and (value.requires_grad or type(node) is Node or base.requires_grad)
    if mode.grad:
        refuse_leaf_write(target, base, op_name)
    if not target._array.flags.writeable:
        raise ShapeError(
            f"{op_name}: elements of this tensor share memory (expand) or the memory is read-only; write into x.clone()"
        )
    if tracked:
        _keep_old_values(value._node, target, made_from)
    np.copyto(target._array, value._array, casting="unsafe")
    storage = target._storage
    storage.version += 1
    storage.written_at = user_line()
    if tracked:
        _keep_result_in_place(value, target)
        rebase(target, base, value)
    elif target._alias is not None:
        target._alias.version = storage.version
    return target


_FILLED = frozenset(("float32", "float64", "int32", "int64", "bool"))  # dtypes that hold every number below
_SMALL = 2**31


def write_number(target: Tensor, number: Number) -> bool:
    """Whether the target is filled with the number at once: outside of traces and gradients nothing else happens."""
    if CONTEXT.get().interceptor is not None or type(target) is not Tensor or not -_SMALL < number < _SMALL:
        return False
    if type(target._current_node()) is Node or target._root().requires_grad or target._type.dtype._name not in _FILLED:
        return False
    before_write((target._storage,))
    array, storage = target._array, target._storage
    if not array.flags.writeable:
        return False
    array.fill(number)
    storage.version += 1
    storage.written_at = user_line()
    if target._alias is not None:
        target._alias.version = storage.version
    return True


def check_fits(target: Tensor, value: Tensor, op_name: str) -> None:
    """A value that is written in place must have the target's shape, and a dtype that can be put into the target's."""
    if value._type.shape != target._type.shape:
        raise ShapeError(
            f"{op_name}: the result has shape {value._type.shape}, which does not fit into {target._type.shape}; "
            "writing in place cannot change a shape, assign the result instead"
        )
    if value._type.dtype.category > target._type.dtype.category:
        raise DtypeError(
            f"{op_name}: the result is {value._type.dtype}, which cannot be put into a {target._type.dtype} tensor; "
            "assign the result instead of writing in place"
        )


def refuse_leaf_write(target: Tensor, base: Tensor, op_name: str) -> None:
    """A leaf that requires grad, and a view of one, must not be written while ops are tracked."""
    for t, text in ((target, "a leaf"), (base, "a view of a leaf")):
        node = t._current_node()
        if node is not None and node.op is Leaf and node.requires_grad:
            raise LeafWriteError(
                f"{op_name}: this tensor is {text} that requires grad, so its history would be lost; "
                "write under `with ex.no_grad():`, or into x.clone()"
            )


def _keep_old_values(last: Node | None, target: Tensor, made_from: tuple[Tensor, ...]) -> None:
    """The ops that made the value may have saved what is about to be overwritten: they get a copy of their own."""
    for node in makers(last, made_from):
        kept = []
        for entry in node.saved or ():
            if entry[2] is target._storage and entry[3] == target._storage.version:
                old = entry[1].copy()
                entry = (entry[0], old, Storage(old), 0)
            kept.append(entry)
        if kept:
            node.saved = tuple(kept)


def makers(last: Node | None, made_from: tuple[Tensor, ...]) -> Iterator[Node]:
    """The nodes that lead from `made_from` to the last one; that one alone, if it is the result of one op."""
    if last is None:
        return
    seen, stack = {last, *[x._node for x in made_from]}, [last]
    while stack:
        node = stack.pop()
        yield node
        for source in node.inputs:
            if made_from and type(source) is Node and source not in seen:
                seen.add(source)
                stack.append(source)


def _keep_result_in_place(value: Tensor, target: Tensor) -> None:
    """A gradient that reads the result (exp_, relu_) reads it in the target; a second copy would waste memory."""
    node = value._node
    if node is not None and node.saved and node.op is not Leaf and value._type == target._type:
        here = (0, target._array, target._storage, target._storage.version)
        node.saved = tuple(here if entry[2] is value._storage else entry for entry in node.saved)


def rebase(target: Tensor, base: Tensor, value: Tensor) -> None:
    """Give base and target their new history: base_new = write(base_old, through the view, value)."""
    from ..ops.view import write_through

    value_node = as_dtype_node(value, target._type.dtype)
    if target._alias is None:
        carry_retained(target._node, value_node)
        target._node = value_node
        target._grad_barrier = None
        return
    alias: ViewOf = target._alias
    written = write_through(base, value_node, alias.steps)
    carry_retained(base._node, written)
    base._node = written
    alias.version = -1  # whatever it is now, read the base's new history at the next use
    target._catch_up()


def as_dtype_node(value: Tensor, d: dtype) -> Node:
    """The node of a value, converted to that dtype where it has another."""
    if value._type.dtype is d:
        return value._own_node()
    return value.to(d)._own_node()


def in_place(target: Tensor, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any] = NO_ATTRS) -> Tensor:
    """target[...] = op(*inputs)."""
    return write(target, apply(op, inputs, attrs), op.name + "_")
