"""Symbolic numbers: the numbers of a static function's call, followed through its body.

A number that comes in as an argument, or a draw number of a generator, is a `SymNumber` in the recorded body. An op
that takes it as an input takes, at each later call, what is in its slot then. Arithmetic gives another symbolic number,
which is computed again (`NumberGuards`). Whatever else looks at it (a comparison, `range`, a conversion) gets its
answer, and the answer is a guard: a later call for which it is another one is refused, before it does anything.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import numpy as np

from ...core.graph import Where, describe_where
from ...core.source_location import user_line
from ...core.tensor import Tensor
from ...errors import GraphError

_ADVICE = "arithmetic and ops take another one at each call; pass it as a tensor, or leave static=True out"
_LONG = 60  # characters: nobody reads a longer expression


class NumberSource(Protocol):
    """Where symbolic numbers come from, and what decides what may be done with them."""

    def computed(self, fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """`fn(*args)`, which is to be another number at each call."""

    def looked(self, fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """`fn(*args)`, which Python goes by."""


class SymNumber:
    """A number that says it is a float or int, and notices whoever asks for its value.

    It is no subclass of these: C code reads the value of a subclass unseen, and calls `__float__` of anything else.
    """

    __slots__ = ("_source", "_value", "slot", "text")

    def __init__(self, value: float | int, slot: int, source: NumberSource, text: str) -> None:
        self._value = value
        self._source = source
        self.slot = slot  # where its value stands in later calls
        self.text = text  # of what it was computed

    @property  # type: ignore[misc] # isinstance() asks for it, type() does not
    def __class__(self) -> type:
        return type(self._value)

    def _as_kind(self, kind: type) -> Any:
        return self if kind is type(self._value) else self._source.computed(kind, (self,))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(asked(self), dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self._value), (asked(self),)


def plain(x: Any) -> Any:
    """The number behind a followed one, for an op that follows it on; anything else as it is."""
    return x._value if type(x) in FOLLOWED else x


def all_plain(value: Any) -> Any:
    """The same with what is in lists, tuples and dicts."""
    return _each(plain, value)


def asked(x: Any) -> Any:
    """The number behind a followed one, for anybody else."""
    return x._source.looked(_itself, (x,)) if type(x) in FOLLOWED else x


def all_asked(value: Any) -> Any:
    """The same with what is in lists, tuples and dicts."""
    return _each(asked, value)


def _each(fn: Callable[[Any], Any], value: Any) -> Any:
    if not holds_followed(value):
        return value
    if type(value) is dict:
        return {k: _each(fn, x) for k, x in value.items()}
    return type(value)([_each(fn, x) for x in value]) if type(value) in (list, tuple) else fn(value)


def holds_followed(value: Any) -> bool:
    """Whether it is a followed number, or a list, tuple or dict with one inside."""
    if type(value) in (list, tuple):
        return any(map(holds_followed, value))
    return any(map(holds_followed, value.values())) if type(value) is dict else type(value) in FOLLOWED


def follow(value: float | int, slot: int, source: NumberSource, text: str = "", drawn: bool = False) -> SymNumber:
    """`drawn`: a seed or draw number, which may be compared with the ends of its range: it always lies within."""
    kind = _FollowedDraw if drawn else _FollowedInt if type(value) is int else _FollowedFloat
    return kind(value, slot, source, text)


# ---- what is done with them


def _itself(x: Any) -> Any:
    return x


def _binary(op: Callable[[Any, Any], Any], reports: str, reflected: bool = False) -> Any:
    def method(self: SymNumber, other: Any) -> Any:
        if isinstance(other, Tensor):
            return NotImplemented  # the tensor's own operator makes an op of it
        return getattr(self._source, reports)(op, (other, self) if reflected else (self, other))

    return method


def _unary(fn: Callable[..., Any], reports: str) -> Any:
    return lambda self, *args: getattr(self._source, reports)(fn, (self, *args))


def _asking(fn: Callable[..., Any]) -> Any:
    return lambda self, *args: fn(asked(self), *args)


_OPERATORS = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**"}
_OPERATORS |= {"lshift": "<<", "rshift": ">>", "and_": "&", "or_": "|", "xor": "^"}
_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_SIGNS = {getattr(operator, name): sign for name, sign in (_OPERATORS | _COMPARISONS).items()}
_COMPARED = frozenset(getattr(operator, name) for name in _COMPARISONS)
_COMPUTING = (operator.neg, operator.pos, operator.invert, abs, round, math.trunc, math.floor, math.ceil)
_ASKING = (hash, float, operator.index, repr, str, format)


def _methods(kind: type) -> dict[str, Any]:
    made: dict[str, Any] = {"__slots__": ()}
    for name in _OPERATORS:
        op, word = getattr(operator, name), name.rstrip("_")
        made[f"__{word}__"], made[f"__r{word}__"] = _binary(op, "computed"), _binary(op, "computed", reflected=True)
    made |= {f"__{name}__": _binary(getattr(operator, name), "looked") for name in _COMPARISONS}
    made["__divmod__"], made["__rdivmod__"] = _binary(divmod, "looked"), _binary(divmod, "looked", reflected=True)
    made |= {f"__{fn.__name__}__": _unary(fn, "computed") for fn in _COMPUTING}
    made["__bool__"], made["__int__"] = _unary(bool, "looked"), _asking(int) if kind is int else _unary(int, "looked")
    made |= {f"__{fn.__name__}__": _asking(fn) for fn in _ASKING}
    if kind is float:
        del made["__index__"], made["__invert__"]
    made["__getattr__"] = lambda self, name: getattr(asked(self), name)
    return made


def _ordered(op: Callable[[Any, Any], Any]) -> Any:
    return lambda self, other: op(plain(self), plain(other))


_within = {f"__{name}__": _ordered(getattr(operator, name)) for name in ("lt", "le", "gt", "ge")}
_FollowedFloat: type[SymNumber] = type("_FollowedFloat", (SymNumber,), _methods(float))
_FollowedInt: type[SymNumber] = type("_FollowedInt", (SymNumber,), _methods(int))
_FollowedDraw: type[SymNumber] = type("_FollowedDraw", (SymNumber,), _methods(int) | _within)
FOLLOWED = frozenset((_FollowedFloat, _FollowedInt, _FollowedDraw))
_NOTED = frozenset((_FollowedFloat, _FollowedInt, float, int, bool, str, type(None)))


class NumberGuards:
    """What a body computes of numbers and what it decides by them, in its order: the source of all but draws."""

    def __init__(self, name: str, new_slot: Callable[[], int]) -> None:
        self._name = name
        self._new_slot = new_slot
        self._is_over = False  # the recorded call: a number that was kept is a number like any other
        self._lines: list[str] = []
        self._where: list[Where | None] = []
        self._globals: dict[str, Any] = {"same": _same}
        self._known: dict[Any, Any] = {}

    def computed(self, fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        value = fn(*map(plain, args))
        if self._is_over:
            return value
        if type(value) not in (float, int) or not _NOTED.issuperset(map(type, args)):
            for x in args:
                asked(x)
            return value
        key = (fn, *map(_key, args))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = follow(value, self._new_slot(), self, _text(fn, args))
            result = f"x = s[{found.slot}] = {self._call(fn, args)}"
            self._note(result, f"type(x) is {self._hold(type(value))}", found.text, value)
        return found

    def looked(self, fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        value = fn(*map(plain, args))
        if self._is_over:
            return value
        if not _NOTED.issuperset(map(type, args)):
            for x in args:
                asked(x)
            return value
        key = (fn, *map(_key, args))
        if key not in self._known:
            self._known[key] = value
            held = self._hold(value)
            self._note(f"x = {self._call(fn, args)}", f"x is {held} or same(x, {held})", _text(fn, args), value)
        return value

    def _hold(self, value: Any) -> str:
        found = f"g{len(self._globals)}"
        self._globals[found] = value
        return found

    def _call(self, fn: Callable[..., Any], args: tuple[Any, ...]) -> str:
        given = [f"s[{x.slot}]" if type(x) in FOLLOWED else self._hold(x) for x in args]
        return given[0] if fn is _itself else f"{self._hold(fn)}({', '.join(given)})"

    def _note(self, line: str, condition: str, text: str, value: Any) -> None:
        where = user_line()
        refuse = self._hold(partial(self._refuse, text, value, where))
        self._lines.append(f"{line}; {condition} or {refuse}(x)")
        self._where.append(where)

    def _refuse(self, text: str, expected: Any, where: Where | None, got: Any) -> None:
        raise GraphError(
            f"{self._name}: {text} is {got!r}, when the function was recorded it was {expected!r}, and Python looked "
            f"at that value, at {describe_where(where)}; {_ADVICE}"
        )

    def end(self) -> Callable[[list[Any]], None] | None:
        """The recorded call is over. Returned: what later calls do with their slots first."""
        self._is_over = True
        if not self._lines:
            return None
        exec("\n ".join(["def derive(s):", *self._lines]), self._globals)
        derive: Callable[[list[Any]], None] = self._globals["derive"]
        where = self._where

        def derive_or_explain(slots: list[Any]) -> None:
            try:
                derive(slots)
            except Exception as error:
                inside = error.__traceback__ and error.__traceback__.tb_next
                if inside is not None and not isinstance(error, GraphError):
                    error.add_note(f"the number was computed at {describe_where(where[inside.tb_lineno - 2])}")
                raise

        return derive_or_explain


def _key(x: Any) -> Any:
    return x.slot if type(x) in FOLLOWED else (type(x), repr(x))


def _same(a: Any, b: Any) -> bool:
    """Whether two answers are the same to the bit: there are two zeros, and NaN is unlike itself."""
    return type(a) is type(b) and repr(a) == repr(b)


def _text(fn: Callable[..., Any], args: tuple[Any, ...]) -> str:
    """A call as it is written."""
    parts = [x.text if type(x) in FOLLOWED else repr(x) for x in args]
    if fn is _itself:
        return parts[0] if " " in parts[0] or "(" in parts[0] else f"argument {parts[0]}"
    if fn in _SIGNS:
        made = f" {_SIGNS[fn]} ".join(f"({x})" if " " in x and fn not in _COMPARED else x for x in parts)
    else:
        made = f"{fn.__name__}({', '.join(parts)})"
    return made if len(made) <= _LONG else f"{made[:_LONG]} ..."
