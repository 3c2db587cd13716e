"""Table: the dict of a module's parameters, buffers or submodules, mirrored as attributes.

`module.weight` must cost what any attribute costs, because layers read theirs at every call. So each entry also stands
in the module's `__dict__`, and whoever changes the table (`functional_call` swaps tensors in and out) changes both.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

from ..core.tensor import Tensor
from ..errors import DtypeError

_MISSING = object()
TABLES = ("_parameters", "_buffers", "_modules")

# Modules that something relies on as they are, by id, and how often one of them was changed. A module that no longer
# exists may still be named: then another one of the same id counts as changed when it need not.
WATCHED: set[int] = set()
CHANGES = [0]


def note_change(owner: Any) -> None:
    """An attribute of a module is about to be another one."""
    if id(owner) in WATCHED:
        CHANGES[0] += 1


def _nobody() -> None:
    """What a table without a module has in place of a reference to it."""


class Table(dict[str, Any]):
    """Names to values; a change is made in the owner's attributes too."""

    __slots__ = ("_owner",)

    def __init__(self, owner: Any, entries: Mapping[str, Any] | None = None) -> None:
        # A weak reference: the owner holds the table, and should go as soon as nobody else holds it.
        self._owner: Callable[[], Any] = weakref.ref(owner)
        super().__init__()
        self.update(entries or {})

    def belong_to(self, owner: Any) -> None:
        """Be the table of this module, or of none: then a change is a change of the dict alone."""
        self._owner = _nobody if owner is None else weakref.ref(owner)
        attributes = self._attributes()
        for name, value in self.items():
            attributes[name] = value

    def _attributes(self) -> dict[str, Any]:
        owner = self._owner()
        if owner is None:
            return {}
        note_change(owner)
        return owner.__dict__

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        self._attributes()[name] = value

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        self._attributes().pop(name, None)

    def pop(self, name: str, *default: Any) -> Any:
        if default and name not in self:
            return default[0]
        value = self[name]
        del self[name]
        return value

    def popitem(self) -> tuple[str, Any]:
        name, value = super().popitem()
        self._attributes().pop(name, None)
        return name, value

    def clear(self) -> None:
        for name in list(self):
            del self[name]

    def setdefault(self, name: str, default: Any = None) -> Any:
        if name not in self:
            self[name] = default
        return self[name]

    def update(self, *others: Any, **named: Any) -> None:
        for name, value in dict(*others, **named).items():
            self[name] = value

    def __ior__(self, other: Any) -> Self:  # type: ignore[override,misc] # dict has one signature for each kind of other
        self.update(other)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy of a table alone belongs to nobody; Module.__setstate__ makes tables of plain dicts again.
        return dict, (dict(self),)


def replace_table(owner: Any, name: str, entries: Any) -> None:
    """`module._parameters = {...}`: the attributes that stood for the old entries go, those for the new ones come.

    A table that was taken out comes back as the same object. A plain dict is copied: later changes are to be made in
    `module._parameters`.
    """
    if not isinstance(entries, dict):
        raise DtypeError(f"{type(owner).__name__}.{name}: expected a dict of names, got {type(entries).__name__}")
    attributes = owner.__dict__
    before = attributes.get(name)
    if before is entries:
        return
    for key, value in (before or {}).items():
        if attributes.get(key, _MISSING) is value:
            del attributes[key]
    if isinstance(before, Table) and before._owner() is owner:
        before.belong_to(None)
    if type(entries) is Table and entries._owner() is None:
        entries.belong_to(owner)
        attributes[name] = entries
    else:
        attributes[name] = Table(owner, entries)


def without_mirrors(attributes: dict[str, Any], tables: Iterable[str]) -> dict[str, Any]:
    """What to copy or pickle of a module's attributes: plain dicts for its tables, and without what is in those.

    A tensor that was computed and kept as a plain attribute goes without its history, which a copy cannot have.
    """
    state = {
        name: value.detach() if isinstance(value, Tensor) and not value.is_leaf else value
        for name, value in attributes.items()
    }
    for table in tables:
        plain = state[table] = dict(attributes[table])
        for name, value in plain.items():
            if attributes.get(name, _MISSING) is value:
                del state[name]
    return state
