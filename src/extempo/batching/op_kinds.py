"""The kind of an op call: what calls of one op must share to run as one batch.

That is the op with its attributes, the types of its inputs and which of them want a gradient. A leaf that requires grad
is part of the kind, as the weights of a cell are: calls with other weights are of another kind. So are numbers that are
no operands: they say which elements a result has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.cache import Cache
from ..core.graph import Leaf, Node
from ..core.op import Op
from ..core.tensor import Tensor
from ..core.types import DEFAULT_DTYPE_LISTENERS, TensorType
from ..dispatch.dispatcher import apply
from .kinds import CallKind, Input, takes_numbers

_KINDS: Cache[Any, CallKind] = Cache("kinds of ops in batches", 4_000)
DEFAULT_DTYPE_LISTENERS.append(_KINDS.clear)


class OpKind(CallKind):
    """A kind that is one op."""

    __slots__ = ("single",)

    single: bool  # whether the op has one result


def kind_of(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any], grad: bool) -> tuple[OpKind, list[Any]]:
    """The kind of an op on these inputs, and its operands: the inputs that are not part of it."""
    varying = takes_numbers(op)
    operands: list[Any] = []
    types: list[Any] = []
    weights: list[Tensor] = []
    slots: list[tuple[Any] | None] = []  # for each input: what is part of the kind, None for an operand
    for x in inputs:
        slot: tuple[Any] | None = (x,)
        if x is None:
            types.append(None)
        elif not isinstance(x, Tensor):
            types.append(type(x) if varying else (type(x), x))
            slot = None if varying else slot
        elif grad and type(x._history) is Node and x._history.op is Leaf:
            types.append((x._type, id(x)))
            weights.append(x)
        else:
            types.append((x._type, grad and type(x._history) is Node))
            slot = None
        slots.append(slot)
        if slot is None:
            operands.append(x)
    key = (op, *types, *attrs.items())
    kinds: Any = _kinds_of(weights[0]) if weights else _KINDS
    try:
        found = kinds.get(key)
    except TypeError:  # an attribute that cannot be hashed
        return _new_kind(op, inputs, attrs, slots, grad), operands
    if found is None:
        found = _new_kind(op, inputs, attrs, slots, grad)
        if weights:
            kinds[key] = found
        else:
            kinds.put(key, found)
    return found, operands


def _kinds_of(weight: Tensor) -> dict[Any, Any]:
    """Kinds that a weight is part of are kept by its node, and go with it."""
    extra = weight._history.need()
    if extra.kinds is None:
        extra.kinds = {}
    kinds: dict[Any, Any] = extra.kinds
    return kinds


def _new_kind(
    op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any], slots: list[tuple[Any] | None], grad: bool
) -> OpKind:
    types = [_input(x, grad) for x in inputs]
    result_type = op.signature(tuple([t.type for t in types]), attrs).type
    several = not isinstance(result_type, TensorType)
    results = result_type if several else (result_type,)

    def run(*values: Any) -> tuple[Tensor, ...]:
        left = iter(values)
        made = apply(op, tuple([next(left) if slot is None else slot[0] for slot in slots]), attrs)
        return made if several else (made,)

    operands = tuple([t for t, slot in zip(types, slots, strict=True) if slot is None])
    weights = tuple([x for x, t, slot in zip(inputs, types, slots, strict=True) if slot is not None and t.tracked])
    differentiates = op.name != "detach" and any(t.tracked for t in types)
    tracked = tuple([differentiates and t.dtype.is_floating_point for t in results])
    stacks = not weights and _stacks(op, operands, attrs)
    random = op.family == "random"
    kind = OpKind(op.name, run, operands, results, tracked, weights, alone=random, cell=False, stacks=stacks)
    kind.single = not several
    return kind


def _input(x: Any, grad: bool) -> Input:
    return Input(x._type, grad and type(x._history) is Node) if isinstance(x, Tensor) else Input(type(x), False)


def _stacks(op: type[Op], operands: Sequence[Input], attrs: dict[str, Any]) -> bool:
    """Whether the result is its inputs, all of one type, one after the other."""
    if op.name not in ("stack", "cat") or attrs["dim"] != 0 or len({i.type for i in operands}) != 1:
        return False
    return bool(operands[0].type.numel() > 0)
