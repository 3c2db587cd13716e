"""Guards of a cell's trace: what its body can read from Python besides its arguments, and whether that is as it was.

A cell's body runs once and is replayed from then on, so its trace holds only while a new run would do the same.
`PurityGuards(function)` follows references from the function (`_ReadSearch`): its code, defaults, closure and global
values, helper functions and methods, and all attributes of the modules below it. `same()` is asked at every call, so it
compares by identity where it can, which takes well under a microsecond for a leaf module; where an object is another
one, `_compare` asks whether it is equal. Values of tensors are not part of it; which tensor is where is, and its type.

Lists, dicts, sets and arrays are compared by content, other objects of user classes by their attributes. Code of
installed packages is taken as fixed. Attributes of modules are compared only after one of them was set: `setattr` on a
module counts `CHANGES`. What is too large to compare at every call, and what was changed behind `setattr`, is compared
once in a run of `ex.batch`, which calls `look_again()`.
"""

from __future__ import annotations

import argparse
import builtins
import functools
import itertools
import operator
import weakref
from collections import deque
from collections.abc import Iterable, Iterator
from types import FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from ..core.code_names import codes_in, globals_of, is_library
from ..core.graph import Node
from ..core.tensor import Tensor
from ..core.types import dtype
from ..nn.module import Module
from ..nn.tables import CHANGES, WATCHED, Table

_MISSING: Any = object()
_SCALARS = (int, float, str, bytes, bool, complex, type(None), type(Ellipsis), range, slice, dtype, np.generic)
_NAMESPACES = (SimpleNamespace, argparse.Namespace)
_CONTAINERS = (list, dict, set, deque, bytearray, np.ndarray)
_LARGE = 1_000  # elements, from which on contents are compared once in a run
_DEEP = 4  # how far objects in objects are followed
_MOST_WATCHED = 100_000
# What code asks objects for without a name.
_IMPLIED = frozenset(
    f"__{name}__"
    for name in (
        *("call", "getitem", "len", "iter", "next", "contains", "bool", "eq", "lt", "getattr", "enter", "exit"),
        *("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "matmul", "rmatmul", "neg", "pow"),
    )
)


def look_again() -> None:
    """Whatever was found unchanged since the last look is compared anew when it is next asked for."""
    CHANGES[0] += 1


class PurityGuards:
    """Everything that the roots, functions or objects, may read."""

    __slots__ = ("_attributes", "_captured", "_contents", "_items", "_large", "_leaves", "_modules", "_seen", "tensors")

    def __init__(self, *roots: Any) -> None:
        found = _ReadSearch()
        for root in roots:
            found.visit(root)
        found.resolve()
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

    def capture(self, tensors: Iterable[Tensor]) -> None:
        """These are read indeed: their types, and whether they are tracked, shall stay."""
        self._captured = [(t, t._type, type(t._history) is Node) for t in tensors]
        self._leaves = [(t, t._history) for t, _, tracked in self._captured if tracked]

    def same(self) -> bool:
        """Whether everything is as it was."""
        try:
            for where, name, value in self._items:
                if where.get(name, _MISSING) is not value:
                    return self._compare()
            for owner, name, value in self._attributes:
                if getattr(owner, name, _MISSING) is not value:
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
    return owner.get(name, _MISSING)


def _attribute(owner: Any, name: str) -> Any:
    return getattr(owner, name, _MISSING)


def alike(a: Any, b: Any) -> bool:
    """Whether one can stand for the other: the same object, or equal values of one plain type."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if type(a) is tuple:
        return len(a) == len(b) and all(map(alike, a, b))
    if not isinstance(a, _SCALARS):
        return False
    return repr(a) == repr(b) if isinstance(a, float | complex | np.generic) else bool(a == b)


class _Content:
    """What was in a container."""

    __slots__ = ("_container", "_kept", "_keys", "name", "size")

    def __init__(self, container: Any, name: str) -> None:
        self._container = container
        self.name = name
        self.size = container.size if isinstance(container, np.ndarray) else len(container)
        self._keys = list(container) if isinstance(container, dict) else None
        self._kept = _copy_of(container)

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


class _ModuleState:
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
        for name, value in kept.items():
            found = now.get(name, _MISSING)
            if found is not value and not alike(found, value):
                return False
        return True

    def changes(self) -> Iterator[str]:
        for name in self._kept.keys() | self._attributes.keys():
            if not alike(self._kept.get(name, _MISSING), self._attributes.get(name, _MISSING)):
                yield f"{self._class.__name__}.{name}"


class _ReadSearch:
    """Follows references from function to function. What it finds is what `PurityGuards` compares.

    Globals are read by name from code, so the code says which (`core.code_names`). Attributes of objects are not: which
    object an attribute is asked of is unknown before code runs, so every name that any code asks for is looked up in
    every class that was met (`resolve`), and what is found there may name more.
    """

    def __init__(self) -> None:
        self.items: list[tuple[Any, str, Any]] = []  # mapping, key, what stood there
        self.attributes: list[tuple[Any, str, Any]] = []  # object, attribute, what it was
        self.contents: list[_Content] = []
        self.modules: dict[int, _ModuleState] = {}
        self.tensors: dict[int, Tensor] = {}
        self._visited: dict[int, Any] = {}  # keeps what was visited, and so its id, alive
        self._names: set[str] = {"forward", *_IMPLIED}  # that code asks objects for
        self._classes: dict[type, set[str]] = {}  # with the names looked up there

    def visit(self, value: Any, name: str = "", depth: int = 0) -> None:
        """Follow what a value may read."""
        if isinstance(value, _SCALARS) or id(value) in self._visited or depth > _DEEP:
            return
        if isinstance(value, Tensor):
            self.tensors[id(value)] = value
            return
        self._visited[id(value)] = value
        if isinstance(value, FunctionType):
            self._function(value)
        elif isinstance(value, MethodType):
            self.visit(value.__func__)
            self.visit(value.__self__)
        elif isinstance(value, functools.partial):
            self._several((value.func, *value.args, *value.keywords.values()), name, depth)
        elif isinstance(value, Module):
            self._module(value)
        elif isinstance(value, _CONTAINERS):
            self.contents.append(_Content(value, name))
            self._several(_elements(value), name, depth)
        elif isinstance(value, tuple | frozenset):
            self._several(value, name, depth)
        elif isinstance(value, type):
            self._classes[value] = set()
        else:
            self._object(value, depth)

    def _several(self, values: Iterable[Any], name: str, depth: int) -> None:
        for value in values:
            self.visit(value, name, depth + 1)

    def _function(self, fn: FunctionType) -> None:
        fixed = _is_fixed(fn.__globals__.get("__name__"))
        for cell, name in zip(fn.__closure__ or (), fn.__code__.co_freevars, strict=True):
            try:
                value = cell.cell_contents
            except ValueError:  # not assigned yet
                continue
            if not fixed:
                self.attributes.append((cell, "cell_contents", value))
            self.visit(value, name)
        if fixed:
            return
        self.attributes += [(fn, "__code__", fn.__code__), (fn, "__defaults__", fn.__defaults__)]
        self.visit(fn.__defaults__)
        self.visit(fn.__kwdefaults__)
        for code in codes_in(fn.__code__):
            self._names.update(code.co_names)
            for name, attributes in globals_of(code):
                self._global(fn.__globals__, name, attributes)

    def _global(self, names: dict[str, Any], name: str, attributes: list[str]) -> None:
        """`name.attribute...` of which as much is followed as are Python modules."""
        value = names.get(name, _MISSING)
        self.items.append((names, name, value))
        if value is _MISSING:
            value = getattr(builtins, name, None)
        while isinstance(value, ModuleType) and attributes:
            names, name, *attributes = vars(value), *attributes
            value = names.get(name, _MISSING)
            self.items.append((names, name, value))
        self.visit(value, name)

    def _module(self, module: Module) -> None:
        self.modules[id(module)] = _ModuleState(module)
        self.visit(type(module))
        hooks = module._call_hooks
        if hooks is not None:
            self.contents += [_Content(entries, "hooks") for entries in vars(hooks).values()]
        for name, value in list(vars(module).items()):
            if not isinstance(value, Table) and name != "_non_persistent_buffers_set":
                self.visit(value, f"{type(module).__name__}.{name}")

    def _object(self, value: Any, depth: int) -> None:
        kind = type(value)
        if isinstance(value, _NAMESPACES) or not _is_fixed(kind.__module__):
            self.visit(kind)
            attributes = getattr(value, "__dict__", None)
            if isinstance(attributes, dict):
                self.contents.append(_Content(attributes, kind.__name__))
                self._several(list(attributes.values()), kind.__name__, depth)
            for name in _slots(kind):
                if hasattr(value, name):
                    self.attributes.append((value, name, getattr(value, name)))
                    self.visit(getattr(value, name), name, depth + 1)
        elif hasattr(value, "__wrapped__"):  # a cell, a function with a cache
            self.visit(value.__wrapped__)

    def resolve(self) -> None:
        """Look every name that code asks for up in every class that it may ask."""
        n_before = -1
        while n_before != (n_before := len(self._visited) + len(self._names)):
            for cls, done in list(self._classes.items()):
                for name in sorted(self._names - done):
                    done.add(name)
                    self._look_up(cls, name)

    def _look_up(self, cls: type, name: str) -> None:
        owner = next((base for base in cls.__mro__ if name in vars(base)), None)
        if owner is None or (_is_fixed(owner.__module__) and (name != "forward" or not issubclass(cls, Module))):
            return
        value = vars(owner)[name]
        if getattr(cls, name, _MISSING) is value:
            self.attributes.append((cls, name, value))
        else:  # a class or static method, which getattr makes anew
            self.items.append((vars(owner), name, value))
        for part in (value, *(getattr(value, f, None) for f in ("__func__", "fget", "fset", "func"))):
            if isinstance(part, FunctionType) or part is value:
                self.visit(part, name)


def _elements(container: Any) -> list[Any]:
    if isinstance(container, dict):
        return [*container.keys(), *container.values()]
    return [] if isinstance(container, np.ndarray | bytearray) else list(container)


def _slots(kind: type) -> list[str]:
    found = []
    for base in kind.__mro__:
        names = vars(base).get("__slots__", ())
        found += [names] if isinstance(names, str) else list(names)
    return [name for name in found if name not in ("__dict__", "__weakref__")]


@functools.lru_cache(1_000)
def _is_fixed(module: str | None) -> bool:
    """Whether what a Python module holds is taken as it is: Extempo's own, and installed packages."""
    return is_library(module) and not str(module).startswith("extempo.cli")
