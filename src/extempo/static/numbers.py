"""Numbers whose way through a static function is followed.

A number that comes in as an argument, or a draw number of a generator, stands in the recorded body as a `Followed`. An
op that takes it as an input takes what stands for it at each later call. Whatever else looks at it (arithmetic, a
comparison, `range`, a conversion) asks for its value, and its source is told: it is then part of the structure.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from .._tensor import Tensor


class Source(Protocol):
    """Where a followed number comes from."""

    def consumed(self) -> None:
        """Python looked at the value."""


class Followed:
    """A number that says it is a float or int, and notices whoever asks for its value.

    It is no subclass of these: C code reads the value of a subclass unseen, and calls `__float__` of anything else.
    """

    __slots__ = ("_source", "_value", "slot")

    def __init__(self, value: float | int, slot: int, source: Source) -> None:
        self._value = value
        self._source = source
        self.slot = slot  # where its value stands in later calls

    @property  # type: ignore[misc] # isinstance() asks for it, type() does not
    def __class__(self) -> type:
        return type(self._value)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(asked(self), dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self._value), (asked(self),)


def plain(x: Any) -> Any:
    """The number behind a followed one, for an op that follows it on; anything else as it is."""
    return x._value if type(x) in FOLLOWED else x


def asked(x: Any) -> Any:
    """The number behind a followed one, for anybody else."""
    if type(x) in FOLLOWED:
        x._source.consumed()
        return x._value
    return x


def follow(value: float | int, slot: int, source: Source, drawn: bool = False) -> Followed:
    """`drawn`: a seed or draw number, which may be compared with the ends of its range: it always lies within."""
    kind = _FollowedDraw if drawn else _FollowedInt if type(value) is int else _FollowedFloat
    return kind(value, slot, source)


def _binary(op: Callable[[Any, Any], Any], reflected: bool = False, ask: Callable[[Any], Any] = asked) -> Any:
    def method(self: Followed, other: Any) -> Any:
        if isinstance(other, Tensor):
            return NotImplemented  # the tensor's own operator makes an op of it
        return op(ask(other), ask(self)) if reflected else op(ask(self), ask(other))

    return method


def _asking(name: str) -> Any:
    return lambda self, *args: getattr(asked(self), name)(*args)


_OPERATORS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and_", "or_", "xor")
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_OTHERS = (
    *("__hash__", "__bool__", "__float__", "__int__", "__index__", "__neg__", "__pos__", "__abs__", "__invert__"),
    *("__round__", "__trunc__", "__floor__", "__ceil__", "__repr__", "__str__", "__format__"),
    *("as_integer_ratio", "is_integer", "conjugate", "bit_length", "hex"),
)


def _methods(kind: type) -> dict[str, Any]:
    made: dict[str, Any] = {"__slots__": ()}
    for name in (*_OPERATORS, *_COMPARISONS):
        made[f"__{name.rstrip('_')}__"] = _binary(getattr(operator, name))
    for name in _OPERATORS:
        made[f"__r{name.rstrip('_')}__"] = _binary(getattr(operator, name), reflected=True)
    made["__divmod__"], made["__rdivmod__"] = _binary(divmod), _binary(divmod, reflected=True)
    made |= {name: _asking(name) for name in _OTHERS if hasattr(kind, name)}
    made["__getattr__"] = lambda self, name: getattr(asked(self), name)
    return made


_ordered = {f"__{name}__": _binary(getattr(operator, name), ask=plain) for name in ("lt", "le", "gt", "ge")}
_FollowedFloat: type[Followed] = type("_FollowedFloat", (Followed,), _methods(float))
_FollowedInt: type[Followed] = type("_FollowedInt", (Followed,), _methods(int))
_FollowedDraw: type[Followed] = type("_FollowedDraw", (Followed,), _methods(int) | _ordered)
FOLLOWED = frozenset((_FollowedFloat, _FollowedInt, _FollowedDraw))
