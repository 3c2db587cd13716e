"""What a call in a function's source is of, found without running anything: an op, a layer, a function that recurses.

It is a guess, made when a function is rewritten, about what names refer to then. It decides what is worth trying as a
part of a region; whether a region only computes is proven when it runs, and what a name refers to is watched.
"""

from __future__ import annotations

import ast
import builtins
import enum
import math
from collections.abc import Iterator
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from ...core.code_names import codes_in, is_library
from ...core.tensor import Tensor
from ...nn.module import Module
from ..cell_twins import CellOfFunction
from ..cells import CELLS_OF_MODULES
from ..pure_calls import is_layer_code, is_pure_function, is_tuple
from ..read_guards import MISSING
from ..read_search import attributes_of

FORK = "__fork__"  # the name, in a function that forks, of the fork that a call of it is
_MOST_FUNCTIONS = 100  # that are followed to see whether a function calls itself
_BUILTINS: frozenset[Any] = frozenset(
    (
        *(len, isinstance, range, zip, enumerate, reversed, tuple, list, dict, set, float, int, bool, str, slice),
        *(sum, min, max, abs, round, sorted, all, any, getattr, hasattr, divmod, pow),
        *(fn for fn in vars(math).values() if isinstance(fn, BuiltinFunctionType)),
    )
)
_BEHIND = frozenset(("__dict__", "__setattr__", "__delattr__", "vars"))
# Methods of lists, dicts, sets, strings and tensors that are no part of a region, and are not the user's either.
_METHODS = frozenset(name for cls in (list, dict, set, str, tuple, Tensor) for name in dir(cls))


class Role(enum.Enum):
    """What calling something is, as far as one sees."""

    OP = enum.auto()  # an op or a layer of Extempo
    BUILTIN = enum.auto()  # a function of Python's that only computes
    CELL = enum.auto()  # one that is recorded as one call anyway
    FUNCTION = enum.auto()  # a function or module of the user's that may do so
    OUTLINED = enum.auto()  # one that does not, but has parts that may
    OTHER = enum.auto()

    @property
    def computes(self) -> bool:
        return self in (Role.OP, Role.BUILTIN, Role.CELL, Role.FUNCTION)


class Callees:
    """What the calls in one function are of."""

    def __init__(self, fn: FunctionType, owner: Any = None) -> None:
        """owner: the object whose method it is; None if it is none."""
        code = fn.__code__
        self._globals = fn.__globals__
        self._closure = dict(zip(code.co_freevars, fn.__closure__ or (), strict=True))
        self.free = {*code.co_freevars} - {"__class__"}
        self.locals = {*code.co_varnames, *code.co_cellvars}
        self.parameters = {*code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]}
        self._owner = owner
        self.owner_name = code.co_varnames[0] if owner is not None and code.co_argcount else ""

    def value_of(self, node: ast.expr) -> Any:
        """What a name, or an attribute of one, is now; MISSING if that is not known."""
        if isinstance(node, ast.Attribute):
            owner = self.value_of(node.value)
            return MISSING if owner is MISSING else _attribute(owner, node.attr)
        if not isinstance(node, ast.Name):
            return MISSING
        name = node.id
        if name == self.owner_name:
            return self._owner
        if name in self.locals:
            return MISSING
        if name in self._closure:
            try:
                return self._closure[name].cell_contents
            except ValueError:  # not assigned yet
                return MISSING
        return self._globals[name] if name in self._globals else getattr(builtins, name, MISSING)

    def role_of(self, callee: ast.expr) -> Role:
        value = self.value_of(callee)
        if value is not MISSING:
            return role_of(value)
        if isinstance(callee, ast.Attribute):
            if isinstance(callee.value, ast.Name) and callee.value.id == FORK:
                return Role.OTHER
            method = getattr(Tensor, callee.attr, None)
            if is_pure_function(method) and not callee.attr.endswith("_"):
                return Role.OP
            return Role.OTHER if callee.attr in _METHODS else Role.OUTLINED
        is_parameter = isinstance(callee, ast.Name) and callee.id in self.parameters
        return Role.FUNCTION if is_parameter else Role.OUTLINED


def role_of(value: Any) -> Role:
    """What calling a value is."""
    kind = type(value)
    fn = value.__func__ if kind is MethodType else value
    owner = value.__self__ if kind is MethodType else None
    if type(fn) is FunctionType:
        if is_pure_function(fn):
            return Role.OP
        if is_library(fn.__globals__.get("__name__")):
            is_layer = is_layer_code(fn) and (owner is None or fn.__name__ == "forward")
            return Role.OP if is_layer else Role.OTHER
        return Role.OUTLINED if _recurses(fn, owner) else Role.FUNCTION
    if issubclass(kind, Module):
        if CELLS_OF_MODULES.get(id(value), MISSING) is None:  # an ordinary function
            return Role.OUTLINED
        if is_library(kind.__module__):
            return Role.OP
        return Role.OUTLINED if any(_recurses(*one) for one in _called_by(value)) else Role.FUNCTION
    if issubclass(kind, CellOfFunction):
        return Role.CELL
    is_named_tuple = kind is type and is_tuple(value) and hasattr(value, "_fields")
    if is_named_tuple or (kind in (BuiltinFunctionType, type) and value in _BUILTINS):
        return Role.BUILTIN
    return Role.OTHER


_Called = tuple[FunctionType, Any]  # a function, and the object whose method it is


def _recurses(fn: FunctionType, owner: Any) -> bool:
    """Whether calls of a function, or of those that it calls, may come back to it; judged by names."""
    done: set[int] = set()
    under_way: set[int] = set()

    def comes_back(called: _Called) -> bool:
        key = id(called[0].__code__)
        if key in under_way or len(done) > _MOST_FUNCTIONS:
            return True
        if key in done:
            return False
        done.add(key)
        under_way.add(key)
        found = any(map(comes_back, _references(*called)))
        under_way.discard(key)
        return found

    return comes_back((fn, owner))


def writes_behind(fn: FunctionType, owner: Any) -> bool:
    """Whether a function, or one that it calls, may set attributes of modules in a way that is not watched."""
    done: dict[int, FunctionType] = {}
    left: list[_Called] = [(fn, owner)]
    while left and len(done) <= _MOST_FUNCTIONS:
        called, its_owner = left.pop()
        if id(called) not in done:
            done[id(called)] = called
            if any(not _BEHIND.isdisjoint(code.co_names) for code in codes_in(called.__code__)):
                return True
            left += _references(called, its_owner)
    return bool(left)


def _references(fn: FunctionType, owner: Any) -> Iterator[_Called]:
    """Functions of the user's that a function names."""
    for cell in fn.__closure__ or ():
        try:
            yield from _called_by(cell.cell_contents)
        except ValueError:  # not assigned yet
            continue
    for code in codes_in(fn.__code__):
        for name in code.co_names:
            yield from _called_by(fn.__globals__.get(name))
            if owner is not None:
                yield from _called_by(_attribute(owner, name))


def _called_by(value: Any) -> Iterator[_Called]:
    """The functions of the user's that run when a value is called."""
    if issubclass(type(value), Module):
        value = _attribute(value, "forward")
    fn: Any = value.__func__ if type(value) is MethodType else value
    owner = value.__self__ if type(value) is MethodType else None
    if issubclass(type(fn), CellOfFunction):
        fn = fn._fn
    if type(fn) is FunctionType and not is_library(fn.__globals__.get("__name__")):
        yield fn, owner


def _attribute(x: Any, name: str) -> Any:
    """An attribute, found without running code of the user's; MISSING if there is none, or if code computes it."""
    if type(x) is ModuleType:
        found = vars(x).get(name, MISSING)
        return getattr(x, name, MISSING) if found is MISSING and is_library(x.__name__) else found
    cls = x if issubclass(type(x), type) else type(x)
    in_class = next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), MISSING)
    if in_class is not MISSING and hasattr(type(in_class), "__set__"):
        return MISSING
    if cls is not x:
        own = attributes_of(x) or {}
        if name in own:
            return own[name]
        if type(in_class) is FunctionType or issubclass(type(in_class), CellOfFunction):
            return MethodType(in_class, x)
    if type(in_class) is staticmethod:
        return in_class.__func__
    if type(in_class) is classmethod:
        return MethodType(in_class.__func__, cls)
    return MISSING if in_class is MISSING or (cls is not x and hasattr(type(in_class), "__get__")) else in_class
