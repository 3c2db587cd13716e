"""Symbolic sizes: what follows from sizes by arithmetic, as one short function of any sizes.

`generalize(derive, sizes)` calls `derive` once on a `SymInt` for each of these sizes. They compute like the numbers
they stand for, and note it: what is computed becomes the body of a Python function, and whatever is decided by one (a
comparison, an index, a text) becomes a guard in it. So the function gives what `derive` would give, or None where a
guard does not hold: then `derive` is asked for the sizes at hand.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import isfinite
from typing import Any

from ..core.types import TensorType, WeakNumber

MAX_NOTES = 2_000  # more than that would take longer to write down than it saves
WORTH = 8  # misses that cost as much as it takes to learn from one
TRIES = 2  # that came to nothing
MOST = 32  # functions of one family: sizes that decide anew each time are no family


class DataDependent(Exception):
    """Something was done with a symbolic size that cannot be noted."""


class GuardLog:
    """What was computed and decided so far, line by line."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, tuple[str, ...]]] = []  # name ("" for a condition), text, names it reads
        self._known: dict[Any, Any] = {}

    def compute(self, sign: str, fn: Callable[..., Any], a: Any, b: Any) -> Any:
        key = (sign, _text(a), _text(b))
        found = self._known.get(key)
        if found is None:
            value = fn(_value(a), _value(b))
            found = self._known[key] = SymInt(value, f"v{len(self.lines)}", self)
            self._note(found.name, f"{key[1]} {sign} {key[2]}", a, b)
        return found

    def decide(self, sign: str, fn: Callable[..., Any], a: Any, b: Any) -> bool:
        key = (sign, _text(a), _text(b))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = bool(fn(_value(a), _value(b)))
            text = f"{key[1]} {sign} {key[2]}"
            self._note("", f"not {text}" if found else text, a, b)
        return bool(found)

    def at_least_0(self, a: Any) -> Any:
        """max(0, a)."""
        return a if a > 0 else 0

    def fix(self, symbol: SymInt) -> None:
        """The number itself is needed: from here on it is a condition."""
        self.decide("==", operator.eq, symbol, symbol.value)

    def key(self, symbol: SymInt) -> int:
        """Its hash."""
        raise DataDependent("a symbolic size is no key: what is found by it would be found by others later")

    def text(self, symbol: SymInt) -> str:
        """How it is printed."""
        self.fix(symbol)
        return repr(symbol.value)

    def _note(self, name: str, text: str, *read: Any) -> None:
        if len(self.lines) >= MAX_NOTES:
            raise DataDependent("too much to note")
        self.lines.append((name, text, tuple(x.name for x in read if type(x) is SymInt)))

    def needed(self, outputs: set[str]) -> list[str]:
        """The lines that conditions and these names depend on."""
        read = set(outputs)
        kept = []
        for name, text, names in reversed(self.lines):
            if not name:
                kept.append(f"    if {text}: return None")
            elif name in read:
                kept.append(f"    {name} = {text}")
            else:
                continue
            read.update(names)
        return kept[::-1]


def _text(x: Any) -> str:
    if type(x) is SymInt:
        return x.name
    if not isfinite(x):
        raise DataDependent("a number that has no text")
    return f"({x!r})" if x < 0 else repr(x)


def _value(x: Any) -> Any:
    return x.value if type(x) is SymInt else x


_NUMBERS = (int, float, bool)
_INT = {int}


def _computed(sign: str, fn: Callable[..., Any], neutral: int | None = None) -> tuple[Any, Any]:
    def forward(self: SymInt, other: Any) -> Any:
        if type(other) is not SymInt and type(other) not in _NUMBERS:
            return NotImplemented
        if neutral is not None and type(other) is int and other == neutral:
            return self
        return self.notes.compute(sign, fn, self, other)

    def backward(self: SymInt, other: Any) -> Any:
        if type(other) not in _NUMBERS:
            return NotImplemented
        if neutral is not None and sign in "+*" and type(other) is int and other == neutral:
            return self
        return self.notes.compute(sign, fn, other, self)

    return forward, backward


def _decided(sign: str, fn: Callable[..., Any]) -> Any:
    def compare(self: SymInt, other: Any) -> Any:
        if type(other) is not SymInt and type(other) not in _NUMBERS:
            return NotImplemented
        return self.notes.decide(sign, fn, self, other)

    return compare


class SymInt(WeakNumber):
    """Stands for a size, or for what was computed from sizes."""

    __slots__ = ("name", "notes", "value")

    def __init__(self, value: Any, name: str, notes: GuardLog) -> None:
        self.value = value
        self.name = name
        self.notes = notes

    __add__, __radd__ = _computed("+", operator.add, 0)
    __sub__, __rsub__ = _computed("-", operator.sub, 0)
    __mul__, __rmul__ = _computed("*", operator.mul, 1)
    __floordiv__, __rfloordiv__ = _computed("//", operator.floordiv, 1)
    __mod__, __rmod__ = _computed("%", operator.mod)
    __truediv__, __rtruediv__ = _computed("/", operator.truediv)
    __and__, __rand__ = _computed("&", operator.and_)
    __or__, __ror__ = _computed("|", operator.or_)
    __lshift__, __rlshift__ = _computed("<<", operator.lshift)
    __rshift__, __rrshift__ = _computed(">>", operator.rshift)
    __eq__ = _decided("==", operator.eq)
    __ne__ = _decided("!=", operator.ne)
    __lt__ = _decided("<", operator.lt)
    __le__ = _decided("<=", operator.le)
    __gt__ = _decided(">", operator.gt)
    __ge__ = _decided(">=", operator.ge)

    def __neg__(self) -> Any:
        return 0 - self

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __bool__(self) -> bool:
        return self.notes.decide("!=", operator.ne, self, 0)

    def __pow__(self, other: Any) -> Any:
        if type(other) not in _NUMBERS:
            return NotImplemented
        return self.notes.compute("**", operator.pow, self, other)

    def __hash__(self) -> int:
        return self.notes.key(self)

    def _number(self) -> Any:
        """The number itself, for who cannot do without."""
        self.notes.fix(self)
        return self.value

    def __index__(self) -> int:
        return operator.index(self._number())

    def __int__(self) -> int:
        return int(self._number())

    def __float__(self) -> float:
        return float(self._number())

    def __format__(self, spec: str) -> str:
        return format(self._number(), spec) if spec else self.notes.text(self)

    def __repr__(self) -> str:
        return self.notes.text(self)


SIZES = frozenset((int, SymInt))


def at_least_0(a: Any) -> Any:
    """max(0, a) of a number or a symbolic size; one that can say it for all sizes does not decide."""
    return a.notes.at_least_0(a) if type(a) is SymInt else max(0, a)


def bounds_of_slice(size: Any, start: Any, end: Any) -> tuple[Any, Any]:
    """First and last of start:end in a dimension of that size, as `slice.indices` gives them, for symbolic sizes."""

    def within(bound: Any, default: Any) -> Any:
        if bound is None:
            return default
        if bound < 0:
            return at_least_0(bound + size)
        return size - at_least_0(size - bound)  # the smaller one

    return within(start, 0), within(end, size)


def kind_of(value: Any) -> Any:
    """The class of a number, or of the number that a symbolic one stands for."""
    return type(value.value) if type(value) is SymInt else type(value)


def generalize(derive: Callable[..., Any], sizes: tuple[int, ...]) -> Callable[..., Any] | None:
    """`derive(*sizes)` as a function that gives the same for all sizes that lead to the same decisions, else None.

    `derive` returns tuples, lists, dicts and TensorTypes of numbers and of what does not depend on sizes. None: it does
    something that cannot be noted.
    """
    notes = GuardLog()
    symbols = [SymInt(size, f"s{i}", notes) for i, size in enumerate(sizes)]
    try:
        result = derive(*symbols)
    except Exception:  # what goes wrong on symbols is nobody's error: numbers are still right
        return None
    namespace: dict[str, Any] = {"TensorType": TensorType}
    used: set[str] = set()
    answer = _source(result, namespace, used)
    arguments = ", ".join(s.name for s in symbols)
    lines = [f"def derived({arguments}):", *notes.needed(used), f"    return {answer}"]
    exec("\n".join(lines), namespace)
    derived: Callable[..., Any] = namespace["derived"]
    return derived


def _alike(learnt: Any, asked: Any) -> bool:
    """Whether both say the same: they do not where a symbol was taken for something else by its class."""
    try:
        return bool(learnt == asked)
    except ValueError:  # arrays
        return False


class GuardedCache:
    """What one structure has led to at its sizes, as functions of any sizes: one for each way that decisions went."""

    __slots__ = ("_failures", "_known", "_misses", "_worth")

    def __init__(self, worth: int | None = None) -> None:
        """`worth`: misses after which it is learnt, where that is not WORTH."""
        self._worth = worth
        self._known: list[tuple[Callable[..., Any], Any]] = []
        self._misses = 0
        self._failures = 0

    def find(self, sizes: tuple[int, ...]) -> tuple[Any, Any] | None:
        """(what depends on sizes, what does not) for these sizes; None: it has not been learnt."""
        known = self._known
        for i, (derived, rest) in enumerate(known):
            numbers = derived(*sizes)
            if numbers is not None:
                if i:  # what was of use comes first next time
                    self._known = [known[i], *known[:i], *known[i + 1 :]]
                return numbers, rest
        return None

    def missed(self, derive: Callable[..., tuple[Any, Any]], sizes: tuple[int, ...]) -> None:
        """`derive(*sizes)` was needed, to no avail of what is known. After a number of these it is learnt."""
        self._misses += 1
        if self._misses < (self._worth or WORTH) or len(self._known) >= MOST or self._failures >= TRIES or not sizes:
            return
        self._misses = 0
        rest: list[Any] = []

        def numbers(*any_sizes: Any) -> Any:
            found, other = derive(*any_sizes)
            rest.append(other)
            return found

        derived = generalize(numbers, sizes)
        if derived is not None and _alike(derived(*sizes), numbers(*sizes)):
            self._known = [(derived, rest[1]), *self._known]
        else:
            self._failures += 1


def _source(value: Any, namespace: dict[str, Any], used: set[str]) -> str:
    """Python text for a value, with the names of symbols where they stand."""
    kind = type(value)
    if kind is SymInt:
        used.add(value.name)
        return str(value.name)
    if depends(value):
        if kind is TensorType:
            return f"TensorType({_source(value.shape, namespace, used)}, {_source(value.dtype, namespace, used)})"
        if kind is dict:
            return "{" + ", ".join(f"{k!r}: {_source(v, namespace, used)}" for k, v in value.items()) + "}"
        parts = [_source(v, namespace, used) for v in value]
        return "[" + ", ".join(parts) + "]" if kind is list else "(" + "".join(f"{p}, " for p in parts) + ")"
    if kind is int or value is None or kind is bool:
        return repr(value)
    name = f"c{len(namespace)}"
    namespace[name] = value
    return name


def depends(value: Any) -> bool:
    """Whether there is a symbolic size in it."""
    if type(value) is SymInt:
        return True
    if isinstance(value, (tuple, list)):
        return not _INT.issuperset(map(type, value)) and any(depends(v) for v in value)
    return isinstance(value, dict) and any(depends(v) for v in value.values())
