"""Cells that are made anew from the same code, such as a function that is defined inside a sample's function.

A cell is known by its code and by what that reads. Two functions of one code whose defaults and closures hold the same
(tensors, modules and other objects by identity, plain values by value, functions and containers part by part) are
twins: what one does, the other does, so the traces of the first serve the second. `Pairing` compares two functions and
remembers which part of one corresponds to which of the other; guards of a trace are moved along it. Variables may get
other values afterwards: moved guards look at the twin's own variables, at every call.
"""

from __future__ import annotations

import functools
import weakref
from types import CodeType, FunctionType, MethodType
from typing import Any, NamedTuple

from ..core.cache import Cache
from ..core.weak import WeakTable
from .read_guards import alike

MOST_REPRESENTATIVES = 8  # of one code, that further cells are compared with
# Cells of one code, made inside samples, that came and went in a row without a twin: further ones are not traced.
MOST_WASTED = 16

# Cells that nobody else may keep, so that those of the next call of ex.batch find a twin.
_KEPT: Cache[int, Any] = Cache("cells made inside samples", 256)


class CellOfFunction:
    """A cell, as a part of what another one reads."""

    __slots__ = ()

    _fn: Any


class Pairing:
    """Which parts of one function correspond to which of another."""

    __slots__ = ("back", "differs", "forth")

    def __init__(self) -> None:
        self.forth: dict[int, Any] = {}  # the part of the second, by the id of that of the first
        self.back: dict[int, Any] = {}  # the other way round; both keep what the ids are of
        self.differs = ""  # the variable that holds something else

    def pair(self, a: Any, b: Any, name: str = "") -> bool:
        """Whether one can stand for the other. `name`: of the variable that holds it."""
        if a is b or alike(a, b):
            return True
        if type(a) is type(b):
            known = self.forth.get(id(a))
            if known is not None:
                return known is b
            self._note(a, b)
            if self._parts(a, b, name):
                return True
        self.differs = self.differs or name
        return False

    def _note(self, a: Any, b: Any) -> None:
        self.forth[id(a)], self.back[id(b)] = b, a

    def _parts(self, a: Any, b: Any, name: str) -> bool:
        """Whether two different objects of one class are made of parts that are pairs."""
        if isinstance(a, FunctionType):
            return self._functions(a, b)
        if isinstance(a, MethodType):
            return self.pair(a.__func__, b.__func__, name) and self.pair(a.__self__, b.__self__, name)
        if type(a) is functools.partial:
            called = self.pair(a.func, b.func, name) and self.pair(a.args, b.args, name)
            return called and self.pair(a.keywords, b.keywords)
        if isinstance(a, CellOfFunction):
            return a._fn is not None and self.pair(a._fn, b._fn, name)
        if type(a) in (tuple, list):
            return len(a) == len(b) and all(self.pair(x, y, name) for x, y in zip(a, b, strict=True))
        if type(a) is dict:
            pairs = list(zip(a.items(), b.items(), strict=False))
            same_keys = len(a) == len(b) and all(x is y or alike(x, y) for (x, _), (y, _) in pairs)
            return same_keys and all(self.pair(x, y, name or str(key)) for (key, x), (_, y) in pairs)
        return False

    def _functions(self, a: FunctionType, b: FunctionType) -> bool:
        if a.__code__ is not b.__code__ or a.__globals__ is not b.__globals__:
            return False
        for x, y, name in zip(a.__closure__ or (), b.__closure__ or (), a.__code__.co_freevars, strict=True):
            if x is not y:
                self._note(x, y)
                if not self._variables(x, y, name):
                    return False
        return (
            self.pair(a.__defaults__, b.__defaults__, "a default")
            and self.pair(a.__kwdefaults__, b.__kwdefaults__)
            and self.pair(vars(a), vars(b))
        )

    def _variables(self, x: Any, y: Any, name: str) -> bool:
        try:
            first = x.cell_contents
        except ValueError:  # not assigned yet
            return False
        try:
            return self.pair(first, y.cell_contents, name)
        except ValueError:
            return False


class Twin(NamedTuple):
    """A cell that is the same as another, and how the parts of the two correspond, from that one to this."""

    cell: Any
    pairing: Pairing


class CodeFamily:
    """The cells of one code."""

    __slots__ = ("_known", "_lonely", "_wasted", "why")

    def __init__(self) -> None:
        self._known: list[weakref.ref[Any]] = []  # representatives, the last used first
        self._lonely: list[weakref.ref[Any]] = []  # cells made inside samples that have no twin
        self._wasted: list[Any] = []  # those among them that have gone
        self.why = ""  # the last cell had no twin

    @property
    def is_hopeless(self) -> bool:
        """Whether to trace one more cell that was made inside a sample and has no twin is not worth it."""
        return len(self._wasted) > MOST_WASTED

    def twin_of(self, cell: Any, inside: bool) -> Twin | None:
        """A representative that a new cell is the same as. `inside`: it was made inside a sample."""
        for i, known in enumerate(self._known):
            other, pairing = known(), Pairing()
            if other is not None and other is not cell:
                if pairing.pair(other._fn, cell._fn):
                    self._known.insert(0, self._known.pop(i))
                    self._lonely.clear()
                    self._wasted.clear()
                    return Twin(other, pairing)
                what = pairing.differs or "something"
                self.why = (
                    f"it is made anew for each sample and reads {what}, which is another one each time; pass it as an "
                    "argument"
                )
        if inside and not self.is_hopeless:
            self._lonely.append(weakref.ref(cell, self._wasted.append))
        return None

    def add(self, cell: Any, inside: bool) -> None:
        """Let later cells find this one. One that was made inside a sample would go with that, and is kept."""
        if any(known() is cell for known in self._known):
            return
        self._known = [weakref.ref(cell), *[known for known in self._known if known() is not None]]
        for known in self._known[MOST_REPRESENTATIVES:]:
            _KEPT.pop(id(known()), None)
        del self._known[MOST_REPRESENTATIVES:]
        if inside:
            _KEPT.put(id(cell), cell)


_FAMILIES: WeakTable[CodeType, CodeFamily] = WeakTable()


def family_of(fn: Any) -> CodeFamily | None:
    """That of the cells of a function's code; None if it has none."""
    while not isinstance(fn, FunctionType):
        if isinstance(fn, MethodType):
            fn = fn.__func__
        elif type(fn) is functools.partial:
            fn = fn.func
        elif isinstance(fn, CellOfFunction):
            fn = fn._fn
        else:
            return None
    return _FAMILIES.setdefault(fn.__code__, CodeFamily())
