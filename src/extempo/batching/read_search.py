"""The search for what a function can read from Python: references followed from function to function.

Globals are read by name from code, so the code says which (`core.code_names`). Attributes of objects are not: which
object an attribute is asked of is unknown before code runs, so every name that any code asks for is looked up in every
class that was met, and what is found there may name more. Code of installed packages is taken as fixed.
"""

from __future__ import annotations

import argparse
import builtins
import functools
from collections import deque
from collections.abc import Iterable
from types import FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from ..core.code_names import codes_in, globals_of, is_library
from ..core.tensor import Tensor
from ..nn.module import Module
from ..nn.tables import Table
from .read_guards import MISSING, SCALARS, ContainerGuard, ModuleGuard

_NAMESPACES = (SimpleNamespace, argparse.Namespace)
_CONTAINERS = (list, dict, set, deque, bytearray, np.ndarray)
_DEEP = 4  # how far objects in objects are followed
# What code asks objects for without a name.
_IMPLIED = frozenset(
    f"__{name}__"
    for name in (
        *("init", "call", "getitem", "len", "iter", "next", "contains", "bool", "eq", "lt", "getattr", "enter", "exit"),
        *("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "matmul", "rmatmul", "neg", "pow"),
    )
)


class ReadSearch:
    """What roots can reach; `PurityGuards` compares it."""

    def __init__(self) -> None:
        self.items: list[tuple[Any, str, Any]] = []  # mapping, key, what stood there
        self.attributes: list[tuple[Any, str, Any]] = []  # object, attribute, what it was
        self.contents: list[ContainerGuard] = []
        self.modules: dict[int, ModuleGuard] = {}
        self.tensors: dict[int, Tensor] = {}
        self.visited: dict[int, Any] = {}  # keeps what was visited, and so its id, alive
        self._names: set[str] = {"forward", *_IMPLIED}  # that code asks objects for
        self._classes: dict[type, set[str]] = {}  # with the names looked up there

    def visit(self, value: Any, name: str = "", depth: int = 0) -> None:
        """Follow what a value may read."""
        kind = type(value)  # what it says of its class itself may be code of the user's
        if issubclass(kind, SCALARS) or id(value) in self.visited or depth > _DEEP:
            return
        if issubclass(kind, Tensor):
            self.tensors[id(value)] = value
            return
        self.visited[id(value)] = value
        if issubclass(kind, FunctionType):
            self._function(value)
        elif issubclass(kind, MethodType):
            self.visit(value.__func__)
            self.visit(value.__self__)
        elif issubclass(kind, functools.partial):
            self._several((value.func, *value.args, *value.keywords.values()), name, depth)
        elif issubclass(kind, Module):
            self._module(value)
        elif issubclass(kind, _CONTAINERS):
            self.contents.append(ContainerGuard(value, name))
            self._several(_elements(value), name, depth)
        elif issubclass(kind, (tuple, frozenset)):
            self._several(value, name, depth)
        elif issubclass(kind, type):
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
        value = names.get(name, MISSING)
        self.items.append((names, name, value))
        if value is MISSING:
            value = getattr(builtins, name, None)
        while isinstance(value, ModuleType) and attributes:
            names, name, *attributes = vars(value), *attributes
            value = names.get(name, MISSING)
            self.items.append((names, name, value))
        self.visit(value, name)

    def _module(self, module: Module) -> None:
        self.modules[id(module)] = ModuleGuard(module)
        self.visit(type(module))
        hooks = module._call_hooks
        if hooks is not None:
            self.contents += [ContainerGuard(entries, "hooks") for entries in vars(hooks).values()]
        for name, value in list(vars(module).items()):
            if type(value) is not Table and name != "_non_persistent_buffers_set":
                self.visit(value, f"{type(module).__name__}.{name}")

    def _object(self, value: Any, depth: int) -> None:
        kind = type(value)
        if issubclass(kind, _NAMESPACES) or not _is_fixed(kind.__module__):
            self.visit(kind)
            attributes = attributes_of(value)
            if attributes is not None:
                self.contents.append(ContainerGuard(attributes, kind.__name__))
                self._several(list(attributes.values()), kind.__name__, depth)
            for name in _slots(kind):
                try:
                    found = object.__getattribute__(value, name)
                except AttributeError:
                    continue
                self.attributes.append((value, name, found))
                self.visit(found, name, depth + 1)
        else:  # a cell, a function with a cache
            self.visit((attributes_of(value) or {}).get("__wrapped__"))

    def resolve(self) -> None:
        """Look every name that code asks for up in every class that it may ask."""
        n_before = -1
        while n_before != (n_before := len(self.visited) + len(self._names)):
            for cls, done in list(self._classes.items()):
                for name in sorted(self._names - done):
                    done.add(name)
                    self._look_up(cls, name)

    def _look_up(self, cls: type, name: str) -> None:
        owner = next((base for base in cls.__mro__ if name in vars(base)), None)
        if owner is None or (_is_fixed(owner.__module__) and (name != "forward" or not issubclass(cls, Module))):
            return
        value = vars(owner)[name]
        if isinstance(value, FunctionType) or not hasattr(type(value), "__get__"):
            self.attributes.append((cls, name, value))
        else:  # a class or static method, which getattr makes anew; another descriptor, whose code must not run
            self.items.append((vars(owner), name, value))
        self._definition(value, name)
        for base in cls.__mro__[cls.__mro__.index(owner) + 1 :]:  # that super() finds
            if name in vars(base) and not _is_fixed(base.__module__):
                self.items.append((vars(base), name, vars(base)[name]))
                self._definition(vars(base)[name], name)

    def _definition(self, value: Any, name: str) -> None:
        """What stands in a class: a value, a function, or what holds functions."""
        self.visit(value, name)
        if _is_fixed(type(value).__module__):  # no descriptor of the user's, whose code must not run
            parts = [getattr(value, part, None) for part in ("__func__", "fget", "fset", "func")]
            self._several([part for part in parts if isinstance(part, FunctionType)], name, 0)


def searched(*roots: Any) -> ReadSearch:
    """Everything that the roots, functions or objects, may read."""
    search = ReadSearch()
    for root in roots:
        search.visit(root)
    search.resolve()
    return search


def attributes_of(x: Any) -> dict[str, Any] | None:
    """Those of the object itself, found without running code of its class."""
    try:
        found = object.__getattribute__(x, "__dict__")
    except AttributeError:
        return None
    return found if isinstance(found, dict) else None


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
