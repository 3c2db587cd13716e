"""What one thing that a cell's body reads was, and whether it is so still: containers, modules, plain values."""

from __future__ import annotations

import operator
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..core.types import dtype
from ..nn.module import Module

MISSING: Any = object()  # what is found where nothing is
SCALARS = (int, float, str, bytes, bool, complex, type(None), type(Ellipsis), range, slice, dtype, np.generic)


def alike(a: Any, b: Any) -> bool:
    """Whether one can stand for the other: the same object, or equal values of one plain type."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if type(a) is tuple:
        return len(a) == len(b) and all(map(alike, a, b))
    if not isinstance(a, SCALARS):
        return False
    return repr(a) == repr(b) if isinstance(a, float | complex | np.generic) else bool(a == b)


class ContainerGuard:
    """What was in a container."""

    __slots__ = ("_container", "_kept", "_keys", "name", "size")

    def __init__(self, container: Any, name: str) -> None:
        self._container = container
        self.name = name
        self.size = container.size if isinstance(container, np.ndarray) else len(container)
        self._keys = list(container) if isinstance(container, dict) else None
        self._kept = _copy_of(container)

    def moved(self, counterparts: dict[int, Any]) -> ContainerGuard:
        """The guard of the container that corresponds to this one; itself if there is none."""
        container = counterparts.get(id(self._container))
        if container is None:
            return self
        made = object.__new__(ContainerGuard)
        made._container, made.name, made.size, made._keys = container, self.name, self.size, self._keys
        made._kept = [counterparts.get(id(x), x) for x in self._kept]
        return made

    def same(self) -> bool:
        now = self._container
        if isinstance(now, set | np.ndarray | bytearray):
            return bool(_copy_of(now) == self._kept)
        if len(now) != self.size or (self._keys is not None and list(now) != self._keys):
            return False
        values = now if self._keys is None else now.values()
        return all(map(operator.is_, values, self._kept)) or all(map(alike, values, self._kept))


def _copy_of(container: Any) -> Any:
    """Something that tells whether the container is as it was: its elements themselves, or bytes of an array."""
    if isinstance(container, np.ndarray):
        return container.shape, container.dtype, container.tobytes()
    if isinstance(container, set | bytearray):
        return container.copy()
    return list(container.values() if isinstance(container, dict) else container)


class ModuleGuard:
    """The attributes that a module had."""

    __slots__ = ("_attributes", "_class", "_kept", "id", "module")

    def __init__(self, module: Module) -> None:
        self.id = id(module)
        self.module = weakref.ref(module)
        self._class = type(module)
        self._attributes = vars(module)
        self._kept = dict(self._attributes)

    def same(self) -> bool:
        now, kept = self._attributes, self._kept
        if len(now) != len(kept) or type(self.module()) is not self._class:
            return False
        if all(map(operator.is_, now.values(), kept.values())) and all(map(operator.eq, now, kept)):
            return True  # the usual case, in C
        for name, value in kept.items():
            found = now.get(name, MISSING)
            if found is not value and not alike(found, value):
                return False
        return True

    def changes(self) -> Iterator[str]:
        for name in self._kept.keys() | self._attributes.keys():
            if not alike(self._kept.get(name, MISSING), self._attributes.get(name, MISSING)):
                yield f"{self._class.__name__}.{name}"
