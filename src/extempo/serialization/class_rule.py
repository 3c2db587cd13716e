"""Which classes and functions a file may name, decided without running anything of them.

A file can ask for objects of classes that the program has imported: subclasses of `nn.Module` and `Dataset`,
dataclasses and namedtuples without code of their own for being made, restored or deleted, members of enums, and
Extempo's own. Functions are Extempo's computations only. Everything else has to be vouched for (`safe_names`). Names
are looked up in dicts of modules and classes, never by `getattr` or an import: both can run code.
"""

from __future__ import annotations

import abc
import enum
import functools
import importlib
import inspect
import sys
import types
from collections.abc import Mapping
from typing import Any, Generic

from ..compat.torch_namespace.layout import homes_of, is_module
from ..core.absent_names import KeywordSuggestions
from ..core.tensor import Tensor
from ..data.datasets import Dataset
from ..nn.module import Module
from ..nn.parameter import Buffer, Parameter
from .safe_names import listed_by_name

MISSING = object()
# Rooms whose classes are values and settings; those of other rooms are internals, which a file has no use for.
_ROOMS = ("nn", "optim", "data", "distributions", "amp")
# Where PyTorch's files have functions that Extempo has at the top, or in nn.functional.
_FUNCTION_HOMES = {"_C._VariableFunctionsClass": "", "_C._VariableFunctions": "", "_C._nn": "nn.functional"}
_ATTRIBUTES: Any = type.__dict__["__dict__"]  # of a class, whatever its metaclass says
_CONTENTS: Any = vars(types.ModuleType)["__dict__"]
_IS_HEAP_TYPE = 1 << 9
_OWN_CODE = (
    *("__reduce__", "__reduce_ex__", "__setstate__", "__getnewargs__", "__getnewargs_ex__"),
    *("__new__", "__del__"),
)
_NAMEDTUPLE_CODE = ("__new__", "__getnewargs__")


def is_class(found: Any) -> bool:
    """Whether it is a class; isinstance would ask an object what it calls its class."""
    return issubclass(type(found), type)


def attributes_of(cls: type) -> Mapping[str, Any]:
    """What a class itself defines."""
    return _ATTRIBUTES.__get__(cls)


# ---- looking up


def look_up(module: str, name: str) -> Any:
    """What a module that is loaded has by a dotted name, classes on the way; MISSING if there is nothing."""
    vouched = listed_by_name().get(f"{module}.{name}", MISSING)
    return vouched if vouched is not MISSING else _loaded_name(module, name)


def _loaded_name(module: str, name: str) -> Any:
    if module == "torch" or module.startswith("torch."):
        return _look_up_torch(module[6:], name)
    if module == "extempo" or module.startswith("extempo."):
        _load_room(module)
    return _walk(sys.modules.get(module), name)


def _load_room(module: str) -> None:
    """Extempo's own packages are loaded when they are first used, which may be here."""
    room = module.split(".")[1:2]
    if room and room[0] in _ROOMS:
        importlib.import_module(f"extempo.{room[0]}")


def _look_up_torch(path: str, name: str) -> Any:
    """Extempo's meaning of a name of PyTorch's."""
    path = _FUNCTION_HOMES.get(path, path)
    if not is_module(path):
        return MISSING
    for home in homes_of(path):
        if home.module is not None:
            found = _loaded_name(home.module, name) if home.module.startswith("extempo") else MISSING
            if found is not MISSING:
                return found
    return MISSING


def _walk(module: Any, name: str) -> Any:
    if not issubclass(type(module), types.ModuleType):
        return MISSING
    first, *inner = name.split(".")
    found = _CONTENTS.__get__(module).get(first, MISSING)
    for part in inner:
        if not is_class(found):
            return MISSING
        found = attributes_of(found).get(part, MISSING)
    return found


def is_loaded(module: str) -> bool:
    """Whether the program has imported a module, so that its names can be looked up."""
    return module in sys.modules or module.partition(".")[0] in ("torch", "extempo")


# ---- the rule


def is_vouched_for(found: Any) -> bool:
    """Whether it is in the list of `safe_globals`."""
    return any(found is vouched for vouched in listed_by_name().values())


def why_not(found: Any) -> str:
    """Why a file may not name this class or function; empty if it may."""
    if is_vouched_for(found):
        return ""
    if is_class(found):
        return why_no_instance(found)
    return "" if id(found) in _computations() else "it is not a class, nor a function of Extempo's that computes"


def why_no_instance(cls: type) -> str:
    """Why a file may not rebuild an object of this class; empty if it may."""
    if type(cls) is not type and type(cls) is not abc.ABCMeta:
        return "" if is_enum(cls) else f"its metaclass {type(cls).__name__} is its own"
    if is_own(cls):
        return _why_not_own(cls)
    if not (issubclass(cls, Module | Dataset) or is_dataclass(cls) or is_namedtuple(cls)):
        return "it is no subclass of nn.Module or Dataset, no dataclass and no namedtuple"
    for base in cls.__mro__:
        if not is_own(base) and base not in (object, tuple, Generic, abc.ABC):
            reason = _why_not_base(base)
            if reason:
                return reason
    return ""


def _why_not_base(base: type) -> str:
    if not base.__flags__ & _IS_HEAP_TYPE:
        return f"it is a kind of {base.__name__}"
    allowed = _NAMEDTUPLE_CODE if tuple in base.__bases__ and "_fields" in attributes_of(base) else ()
    for name, value in attributes_of(base).items():
        generated = type(value) is types.FunctionType and value.__module__ == "dataclasses"
        if name in _OWN_CODE and name not in allowed and not generated:
            return f"{base.__qualname__} has a {name} of its own, which would be code to run"
        if name == "__dict__" and type(value) is not types.GetSetDescriptorType:
            return f"{base.__qualname__} has a __dict__ of its own"
    return ""


def is_own(cls: type) -> bool:
    """Whether it is a class of Extempo's."""
    return cls.__module__.partition(".")[0] == "extempo"


def _why_not_own(cls: type) -> str:
    room = cls.__module__.split(".")[1:2]
    if not room or room[0] not in _ROOMS:
        return "it is a part of Extempo that files have no use for"
    if not is_namedtuple(cls):
        # The __new__ of KeywordSuggestions looks at the keywords of a call, and a file makes none: object.__new__ does.
        for base in (base for base in cls.__mro__ if is_own(base) and base is not KeywordSuggestions):
            named = [name for name in ("__reduce__", "__new__", "__del__") if name in attributes_of(base)]
            if named:
                return f"it has a {named[0]} of its own"
    return ""


def is_enum(cls: type) -> bool:
    """Whether its members are constants with names."""
    return issubclass(type(cls), enum.EnumMeta)


def is_dataclass(cls: type) -> bool:
    """Whether it, or a class that it derives from, is a dataclass."""
    return any("__dataclass_fields__" in attributes_of(base) for base in cls.__mro__)


def is_namedtuple(cls: type) -> bool:
    """Whether it is a tuple with names for its parts."""
    return issubclass(cls, tuple) and any("_fields" in attributes_of(base) for base in cls.__mro__)


# ---- functions


_HOMES_OF_FUNCTIONS = (
    *("extempo.nn.functional", "extempo.nn.init", "extempo.ops.public", "extempo.special", "extempo.linalg"),
    "extempo.data.collation",
)
_SETTINGS = ("set_", "manual_seed", "seed")  # functions that change what later ones compute


@functools.cache
def _computations() -> dict[int, str]:
    """The path of each function of Extempo's that computes, by its id; none of them is ever deleted."""
    found: dict[int, str] = {}
    for home in _HOMES_OF_FUNCTIONS:
        module = importlib.import_module(home)
        path = "extempo" if home == "extempo.ops.public" else home
        for name in getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")]:
            value = vars(module).get(name)
            is_function = callable(value) and not is_class(value) and not inspect.ismodule(value)
            if is_function and not name.startswith(_SETTINGS):
                found.setdefault(id(value), f"{path}:{name}")
    return found


def path_of(found: Any) -> str | None:
    """`module:name` by which a class or function is found again; None if it is not."""
    if id(found) in _computations():
        return _computations()[id(found)]
    module, name = getattr(found, "__module__", None), getattr(found, "__qualname__", None)
    if type(module) is not str or type(name) is not str or _loaded_name(module, name) is not found:
        return None
    return f"{module}:{name}"


# ---- keys


def has_plain_hash(key: Any) -> bool:
    """Whether a key of a dict, or an element of a set, is compared without running code of somebody's class."""
    todo = [key]
    while todo:
        part = todo.pop()
        if type(part) in _PLAIN_KEYS:  # tensors are compared by identity
            continue
        if not (_is_known_method(type(part), "__hash__") and _is_known_method(type(part), "__eq__")):
            return False
        if isinstance(part, tuple | frozenset):
            todo.extend(part)
    return True


_PLAIN_KEYS = (str, int, float, bool, type(None), Tensor, Parameter, Buffer)


def _is_known_method(cls: type, name: str) -> bool:
    """Whether a method of a class is CPython's own, Extempo's, or one of the standard library's plain values."""
    found = next((attributes_of(base)[name] for base in cls.__mro__ if name in attributes_of(base)), None)
    if type(found) is types.FunctionType:
        return found.__module__.partition(".")[0] in ("extempo", "enum", "pathlib")
    return type(found) is types.WrapperDescriptorType
