"""The kind of an op call: what calls of one op must share to run as one batch.

That is the op with its attributes, the types of its inputs and which of them want a gradient. A leaf that requires grad
is part of the kind, as the weights of a cell are: calls with other weights are of another kind. Only leaves that one
sample was given as arguments are operands. Numbers that are no operands are part of the kind: they say which elements a
result has.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
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


Slot = tuple[Any] | None  # of an input: what is part of the kind, None for an operand


class OpKind(CallKind):
    """A kind that is one op."""

    __slots__ = ("attrs", "form", "is_new", "op", "rows", "single", "sized", "slots", "types")

    op: type[Op]
    attrs: dict[str, Any]
    types: tuple[Input, ...]  # of all inputs of the op
    slots: tuple[Slot, ...]
    single: bool  # whether the op has one result
    is_new: bool  # until its first call is recorded
    rows: Any  # its form by rows, or None (`sizes/by_rows`); MISSING until somebody asks
    sized: dict[tuple[bool, ...], list[Any]]  # of a row: kinds of calls that have rows of it, by their columns
    form: Any  # in which its calls run with those of other sizes, if they do


MISSING: Any = object()


def kind_of(
    op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any], grad: bool, own: Collection[int] = ()
) -> tuple[OpKind, list[Any]]:
    """The kind of an op on these inputs, and its operands: the inputs that are not part of it.

    `own`: ids of leaves that are a sample's own, and so no part of a kind.
    """
    varying = takes_numbers(op)
    operands: list[Any] = []
    types: list[Any] = []
    weights: list[Tensor] = []
    slots: list[Slot] = []
    for x in inputs:
        slot: Slot = (x,)
        if x is None:
            types.append(None)
        elif not isinstance(x, Tensor):
            types.append(type(x) if varying else (type(x), x))
            slot = None if varying else slot
        elif grad and type(x._history) is Node and x._history.op is Leaf and id(x) not in own:
            types.append((x._type, id(x)))
            weights.append(x)
        else:
            types.append((x._type, grad and type(x._history) is Node))
            slot = None
        slots.append(slot)
        if slot is None:
            operands.append(x)
    key = (op, *types, *attrs.items())
    kinds: Any = kinds_of_weight(weights[0]) if weights else _KINDS
    try:
        found = kinds.get(key)
    except TypeError:  # an attribute that cannot be hashed
        return _new_kind(op, tuple([_input(x, grad) for x in inputs]), attrs, tuple(slots)), operands
    if found is None:
        found = _new_kind(op, tuple([_input(x, grad) for x in inputs]), attrs, tuple(slots))
        if weights:
            kinds[key] = found
        else:
            kinds.put(key, found)
    return found, operands


def kind_of_types(op: type[Op], types: tuple[Input, ...], attrs: dict[str, Any], slots: tuple[Slot, ...]) -> OpKind:
    """The kind of an op on inputs of these types; what is part of the kind stands in `slots`."""
    key: list[Any] = [op]
    weights = []
    for type_, slot in zip(types, slots, strict=True):
        if slot is None:
            key.append(tuple(type_) if isinstance(type_.type, TensorType) else type_.type)
        elif isinstance(slot[0], Tensor):
            key.append((type_.type, id(slot[0])))
            weights.append(slot[0])
        else:
            key.append(None if slot[0] is None else (type_.type, slot[0]))
    kinds: Any = kinds_of_weight(weights[0]) if weights else _KINDS
    full = (*key, *attrs.items())
    found = kinds.get(full)
    if found is None:
        found = _new_kind(op, types, attrs, slots)
        if weights:
            kinds[full] = found
        else:
            kinds.put(full, found)
    return found


def kinds_of_weight(weight: Tensor) -> dict[Any, Any]:
    """Kinds that a weight is part of are kept by its node, and go with it."""
    extra = weight._history.need()
    if extra.kinds is None:
        extra.kinds = {}
    kinds: dict[Any, Any] = extra.kinds
    return kinds


def _new_kind(op: type[Op], types: tuple[Input, ...], attrs: dict[str, Any], slots: tuple[Slot, ...]) -> OpKind:
    result_type = op.signature(tuple([t.type for t in types]), attrs).type
    several = not isinstance(result_type, TensorType)
    results = result_type if several else (result_type,)

    def run(*values: Any) -> tuple[Tensor, ...]:
        left = iter(values)
        made = apply(op, tuple([next(left) if slot is None else slot[0] for slot in slots]), attrs)
        return made if several else (made,)

    operands = tuple([t for t, slot in zip(types, slots, strict=True) if slot is None])
    weights = tuple([slot[0] for t, slot in zip(types, slots, strict=True) if slot is not None and t.tracked])
    differentiates = op.name != "detach" and any(t.tracked for t in types)
    tracked = tuple([differentiates and t.dtype.is_floating_point for t in results])
    stacks = not weights and _stacks(op, operands, attrs)
    random = op.family == "random"
    kind = OpKind(op.name, run, operands, results, tracked, weights, alone=random, cell=False, stacks=stacks)
    kind.op, kind.attrs, kind.types, kind.slots = op, attrs, types, slots
    kind.single = not several
    kind.is_new, kind.rows, kind.form, kind.sized = True, MISSING, None, {}
    return kind


def _input(x: Any, grad: bool) -> Input:
    return Input(x._type, grad and type(x._history) is Node) if isinstance(x, Tensor) else Input(type(x), False)


def _stacks(op: type[Op], operands: Sequence[Input], attrs: dict[str, Any]) -> bool:
    """Whether the result is its inputs, all of one type, one after the other."""
    if op.name not in ("stack", "cat") or attrs["dim"] != 0 or len({i.type for i in operands}) != 1:
        return False
    return bool(operands[0].type.numel() > 0)
