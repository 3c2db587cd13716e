"""Guards of a cell's trace: what its body can read from Python besides its arguments, and whether that is as it was.

A cell's body runs once and is replayed from then on, so its trace holds only while a new run would do the same.
`PurityGuards(function)` follows references from the function (`read_search`): its code, defaults, closure and global
values, helper functions and methods, and all attributes of the modules below it. `same()` is asked at every call, so it
compares by identity where it can, which takes well under a microsecond for a leaf module; where an object is another
one, `_compare` asks whether it is equal. Values of tensors are not part of it; which tensor is where is, and its type.

Lists, dicts, sets and arrays are compared by content, other objects of user classes by their attributes. Code of
installed packages is taken as fixed. Attributes of modules are compared only after one of them was set: `setattr` on a
module counts `CHANGES`. What is too large to compare at every call, and what was changed behind `setattr`, is compared
once in a run of `ex.batch`, which calls `look_again()`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from ..core.graph import Node
from ..core.tensor import Tensor
from ..nn.module import Module
from ..nn.tables import CHANGES, WATCHED
from .read_guards import MISSING, alike
from .read_search import ReadSearch, searched

_LARGE = 1_000  # elements, from which on contents are compared once in a run
_MOST_WATCHED = 100_000


_LAST_LOOK = [0]


def look_again() -> None:
    """Whatever was found unchanged since the last look is compared anew when it is next asked for."""
    CHANGES[0] += 1
    _LAST_LOOK[0] = CHANGES[0]


def now() -> int:
    """A number that is larger than it was before the last `look_again`."""
    return CHANGES[0]


def is_since_last_look(moment: int) -> bool:
    """Whether `now()` gave that number after the last `look_again`: in this run of ex.batch, most often."""
    return moment >= _LAST_LOOK[0]


class PurityGuards:
    """Everything that the roots, functions or objects, may read."""

    __slots__ = ("_attributes", "_captured", "_contents", "_items", "_large", "_leaves", "_modules", "_seen", "tensors")

    def __init__(self, *roots: Any, search: ReadSearch | None = None) -> None:
        """`search`: one that was made already."""
        found = searched(*roots) if search is None else search
        self._items = found.items
        self._attributes = found.attributes
        self._contents = [c for c in found.contents if c.size <= _LARGE]
        self._large = [c for c in found.contents if c.size > _LARGE]
        self._modules = list(found.modules.values())
        self._seen = -1
        self.tensors = found.tensors  # those that it may read, by id
        self._captured: list[tuple[Tensor, Any, bool]] = []  # tensors with their types, and whether they are tracked
        self._leaves: list[tuple[Tensor, Any]] = []  # those that have a node, which is another one if any of it changes
        self._watch()

    def moved(self, counterparts: dict[int, Any]) -> PurityGuards:
        """The guards of a twin, by the ids of what its parts correspond to (`cell_twins`)."""
        made = object.__new__(PurityGuards)
        get = counterparts.get
        made._items = list(self._items)
        made._attributes = [(get(id(owner), owner), name, get(id(x), x)) for owner, name, x in self._attributes]
        made._contents = [c.moved(counterparts) for c in self._contents]
        made._large = [c.moved(counterparts) for c in self._large]
        made._modules, made._seen = self._modules, self._seen
        made.tensors, made._captured, made._leaves = self.tensors, self._captured, self._leaves
        return made

    def capture(self, tensors: Iterable[Tensor]) -> None:
        """These are read indeed: their types, and whether they are tracked, shall stay."""
        self._captured = [(t, t._type, type(t._history) is Node) for t in tensors]
        self._leaves = [(t, t._history) for t, _, tracked in self._captured if tracked]

    def same(self) -> bool:
        """Whether everything is as it was."""
        try:
            for where, name, value in self._items:
                if where.get(name, MISSING) is not value:
                    return self._compare()
            for owner, name, value in self._attributes:
                if getattr(owner, name, MISSING) is not value:
                    return self._compare()
        except ValueError:  # a closure's variable was deleted
            return False
        for t, node in self._leaves:
            if t._history is not node:
                return self._compare()
        if len(self._leaves) != len(self._captured) and not self._same_captured():
            return False
        for content in self._contents:
            if not content.same():
                return False
        return CHANGES[0] == self._seen or self._compare()

    def _same_captured(self) -> bool:
        for t, type_, tracked in self._captured:
            if (t._type is not type_ and t._type != type_) or (type(t._history) is Node) is not tracked:
                return False
        return True

    def _compare(self) -> bool:
        """Compare one by one. What is equal and of the same type, though another object, is taken over."""
        if not self._same_captured():
            return False
        self._leaves = [(t, t._history) for t, _, tracked in self._captured if tracked]
        for reads, get in ((self._items, _item), (self._attributes, _attribute)):
            for i, (owner, name, value) in enumerate(reads):
                now = get(owner, name)
                if now is not value:
                    if not alike(now, value):
                        return False
                    reads[i] = (owner, name, now)
        if all(c.same() for c in itertools.chain(self._contents, self._large)) and all(m.same() for m in self._modules):
            self._watch()
            return True
        return False

    def _watch(self) -> None:
        if len(WATCHED) > _MOST_WATCHED:
            WATCHED.clear()
            look_again()
        WATCHED.update([m.id for m in self._modules])
        self._seen = CHANGES[0]

    def modules(self) -> list[Module]:
        """The modules among it."""
        return [found for m in self._modules if (found := m.module()) is not None]

    def changed(self) -> str:
        """The name of something that is not as it was; "" if nothing is."""
        for owner, name, value in self._items:
            if not alike(_item(owner, name), value):
                return name
        for owner, name, value in self._attributes:
            if not alike(_attribute(owner, name), value):
                return name if name != "cell_contents" else "a variable of the function around it"
        for content in itertools.chain(self._contents, self._large):
            if not content.same():
                return content.name
        return next((name for m in self._modules for name in m.changes()), "")


def _item(owner: Any, name: str) -> Any:
    return owner.get(name, MISSING)


def _attribute(owner: Any, name: str) -> Any:
    return getattr(owner, name, MISSING)
