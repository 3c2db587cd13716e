"""How native code runs an op on inputs of some types: as an expression that can be fused, or as a bound routine."""

from __future__ import annotations

from types import NoneType
from typing import Any, NamedTuple

from ..backends.llvm.calls import glue
from ..backends.llvm.plans import expressions
from ..backends.llvm.plans.expressions import Expression
from ..backends.llvm.routines.routine import ROUTINES, Bound
from ..backends.selection import native
from ..core.cache import Cache
from ..core.op import REGISTRY, Op, Routine, Signature
from ..core.trace_tree import TraceOp
from ..core.types import TensorType, dtype
from .request import Unplannable

# Elementwise ops for which some values are an error; of routines, all that read integers may meet a wrong one.
_REFUSING = frozenset({"binary_cross_entropy", "floor_divide", "remainder", "fmod"})


class LoweredOp(NamedTuple):
    """An op on inputs of certain types, ready for a program. One of `expression` and `bound` is there."""

    name: str
    expression: Expression | None
    bound: Bound | None
    results: tuple[TensorType, ...]
    may_fail: bool  # on some values; it must run even if nobody reads its result
    plain: bool  # an expression that takes any inputs as they are


_LOWERED: Cache[Any, LoweredOp] = Cache("lowered ops in plans", 8_000)
_OF_SIGNATURES: Cache[Signature, LoweredOp] = Cache("lowered ops of traces", 8_000)


def of_step(step: TraceOp) -> LoweredOp:
    """A traced op, lowered. Signatures are kept and shared, so most are found without hashing types."""
    found = _OF_SIGNATURES.get(step.signature)
    if found is None:
        found = _OF_SIGNATURES.put(step.signature, _made(step.op, step.kinds, step.attrs, step.type))
    return found


def lowered_op(op: type[Op], kinds: tuple[Any, ...], attrs: dict[str, Any]) -> LoweredOp:
    """An op lowered for inputs of these kinds; Unplannable where there is no native code."""
    key = (op, kinds, *attrs.items())
    try:
        found = _LOWERED.get(key)
    except TypeError:  # an attribute that cannot be hashed
        return _made(op, kinds, attrs, op.signature(kinds, attrs).type)
    if found is None:
        found = _LOWERED.put(key, _made(op, kinds, attrs, op.signature(kinds, attrs).type))
    return found


def _made(op: type[Op], kinds: tuple[Any, ...], attrs: dict[str, Any], type_: Any) -> LoweredOp:
    native()
    results: tuple[TensorType, ...] = type_ if type(type_) is tuple else (type_,)
    if isinstance(op.lower, Routine):
        bound = _bound(op, kinds, attrs)
        may_fail = any(isinstance(t, TensorType) and not t.dtype.is_floating_point for t in kinds)
        return LoweredOp(op.name, None, bound, results, may_fail, False)
    expression = expressions.of_op(op, kinds, attrs)
    if expression is None:
        raise Unplannable(f"{op.name} has no native code for {', '.join(map(_kind_text, kinds))}")
    return LoweredOp(op.name, expression, None, results, op.name in _REFUSING, NoneType not in kinds)


def _bound(op: type[Op], kinds: tuple[Any, ...], attrs: dict[str, Any]) -> Bound:
    bind = ROUTINES.get(op.lower.name)
    bound = bind(kinds, attrs) if bind is not None else None
    # What is too large for the calls of eager mode runs by NumPy there, and so has NumPy's bits.
    if bound is None or glue.callable_of(op.name, bound, kinds, _never) is None:
        raise Unplannable(f"{op.name} has no native code for {', '.join(map(_kind_text, kinds))}")
    return bound._replace(origin=(op, kinds, attrs))


def _never(*arrays: Any) -> Any:
    raise AssertionError("only asked whether it could be called")


def _kind_text(kind: Any) -> str:
    return str(kind) if isinstance(kind, TensorType) else str(kind.__name__)


_COPIES: Cache[TensorType, Bound] = Cache("copies in plans", 2_000)
_SUMS: Cache[dtype, tuple[Expression, Expression]] = Cache("additions in plans", 16)


def copy_bound(t: TensorType) -> Bound:
    """The routine that copies any layout in order."""
    found = _COPIES.get(t)
    if found is None:
        native()
        made = ROUTINES["copy"]((t,), {})
        if made is None:
            raise Unplannable(f"no native copy of {t}")
        found = _COPIES.put(t, made)
    return found


def additions(d: dtype) -> tuple[Expression, Expression]:
    """Addition of two tensors of this dtype, and of a tensor and a number."""
    found = _SUMS.get(d)
    if found is None:
        native()
        t, add = TensorType((1,), d), REGISTRY["add"]
        both, number = expressions.of_op(add, (t, t), {}), expressions.of_op(add, (t, float), {})
        if both is None or number is None:
            raise Unplannable(f"add has no native code for {d}")
        found = _SUMS.put(d, (both, number))
    return found
