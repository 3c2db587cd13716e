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
    """The kind of an op on these inputs, and the inputs that are not part of it."""
    varying = takes_numbers(op)
    operands: list[Any] = []
    types: list[Any] = []
    captured: list[Tensor] = []
    for x in inputs:
        if x is None:
            types.append(None)
        elif not isinstance(x, Tensor):
            types.append(type(x) if varying else (type(x), x))
            if varying:
                operands.append(x)
        elif grad and _is_weight(x):
            captured.append(x)
            types.append((x._type, id(x)))
        else:
            operands.append(x)
            types.append((x._type, grad and type(x._history) is Node))
    key = (op, *types, *attrs.items())
    kinds: Any = _kinds_of(captured[0]) if captured else _KINDS
    try:
        found = kinds.get(key)
    except TypeError:  # an attribute that cannot be hashed
        return _new_kind(op, inputs, attrs, grad), operands
    if found is None:
        found = _new_kind(op, inputs, attrs, grad)
        if captured:
            kinds[key] = found
        else:
            kinds.put(key, found)
    return found, operands


def _is_weight(x: Tensor) -> bool:
    return type(x._history) is Node and x._history.op is Leaf


def _kinds_of(weight: Tensor) -> dict[Any, Any]:
    """Kinds that a weight is part of are kept by its node, and go with it."""
    extra = weight._history.need()
    if extra.kinds is None:
        extra.kinds = {}
    kinds: dict[Any, Any] = extra.kinds
    return kinds


def _new_kind(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any], grad: bool) -> OpKind:
    result_type = op.signature(tuple(x._type if isinstance(x, Tensor) else type(x) for x in inputs), attrs).type
    several = not isinstance(result_type, TensorType)
    results = result_type if several else (result_type,)
    varying = takes_numbers(op)
    slots: list[tuple[Any] | None] = []  # for each input: what is part of the kind, None for what differs between calls
    operands: list[Input] = []
    captured: list[Tensor] = []
    for x in inputs:
        is_weight = isinstance(x, Tensor) and grad and _is_weight(x)
        if is_weight:
            captured.append(x)
        if is_weight or x is None or not (varying or isinstance(x, Tensor)):
            slots.append((x,))
            continue
        slots.append(None)
        if isinstance(x, Tensor):
            operands.append(Input(x._type, grad and type(x._history) is Node))
        else:
            operands.append(Input(type(x), False))

    def run(*values: Any) -> tuple[Tensor, ...]:
        left = iter(values)
        made = apply(op, tuple(next(left) if slot is None else slot[0] for slot in slots), attrs)
        return made if several else (made,)

    needs = bool(captured) or any(i.tracked for i in operands)
    kind = OpKind(
        op.name,
        run,
        tuple(operands),
        results,
        tuple(needs and op.name != "detach" and t.dtype.is_floating_point for t in results),
        tuple(captured),
        alone=op.family == "random",
        cell=False,
        stacks=not captured and _stacks(op, operands, attrs),
    )
    kind.single = not several
    return kind


def _stacks(op: type[Op], operands: Sequence[Input], attrs: dict[str, Any]) -> bool:
    """Whether the result is its inputs, all of one type, one after the other."""
    if op.name not in ("stack", "cat") or attrs["dim"] != 0 or len({i.type for i in operands}) != 1:
        return False
    return bool(operands[0].type.numel() > 0)
