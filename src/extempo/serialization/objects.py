"""Objects of classes: their state taken out for saving, and put into an object that no constructor has seen.

An object is made by `object.__new__` and its attributes are entries of its `__dict__` and slots, so that no
`__init__`, `__setattr__` or property of its class runs. Modules, optimizers and loaders take their state by Extempo's
own methods.
"""

from __future__ import annotations

import copyreg
import types
from collections.abc import Callable
from typing import Any

from ..core.tensor import Tensor
from ..data.loader import DataLoader
from ..errors import UnsupportedError
from ..nn.module import Module
from ..nn.tables import TABLES
from ..optim.optimizer import Optimizer
from .class_rule import MISSING, attributes_of, is_enum, is_namedtuple, is_vouched_for, path_of, why_no_instance
from .safe_names import full_name

# Attributes of a module of PyTorch's that hold hooks, or say something about them.
_TORCH_HOOKS = (
    *("_backward_pre_hooks", "_backward_hooks", "_forward_hooks", "_forward_hooks_with_kwargs"),
    *("_forward_hooks_always_called", "_forward_pre_hooks", "_forward_pre_hooks_with_kwargs", "_state_dict_hooks"),
    *("_state_dict_pre_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks"),
)
_TORCH_ONLY = (*_TORCH_HOOKS, "_is_full_backward_hook", "_compiled_call_impl")
OWN_HOOKS = ("_call_hooks", "_state_hooks")
_RESTORE_THEMSELVES = (Module, Optimizer, DataLoader)


class State:
    """The attributes of an object, those in slots apart."""

    def __init__(self, attributes: dict[str, Any], slots: dict[str, Any]) -> None:
        self.attributes = attributes
        self.slots = slots


# ---- taking out


def class_to_save(value: Any) -> type:
    """The class of an object; of a compiled module the class of the module itself, which it shares everything with."""
    cls = type(value)
    above = cls.__bases__[0]
    is_compiled = issubclass(cls, Module) and path_of(cls) is None
    return above if is_compiled and full_name(above) == full_name(cls) else cls


def state_of(value: Any) -> State | None:
    """The state of an object of a class that files may rebuild; None if it has one that is not attributes."""
    cls = type(value)
    state: Any
    if isinstance(value, Module):
        state = value.__getstate__()
        return State(without_empty_hooks(state), {}) if type(state) is dict else None
    generated = type(cls.__getstate__) is types.FunctionType and cls.__getstate__.__module__ == "dataclasses"
    state = object.__getstate__(value) if generated else value.__getstate__()
    attributes, slots = state if type(state) is tuple and len(state) == 2 else (state, None)
    if type(attributes or {}) is not dict or type(slots or {}) is not dict:
        return None
    return State(dict(attributes or {}), dict(slots or {}))


def without_empty_hooks(state: dict[str, Any]) -> dict[str, Any]:
    """The attributes of a module without hooks that were all removed again."""
    return {name: v for name, v in state.items() if name not in OWN_HOOKS or has_hooks(v)}


def has_hooks(hooks: Any) -> bool:
    """Whether one of the two objects that hold a module's hooks has any."""
    return hooks is not None and any(vars(hooks).values())


# ---- putting in


def blank(cls: type) -> Any:
    """An object without attributes; an error where a file may not ask for one."""
    refuse_instance(cls)
    if is_enum(cls):
        raise TypeError(f"a new member of {cls.__name__}")
    try:
        return object.__new__(cls)
    except TypeError as error:
        raise UnsupportedError(
            f"load: the file holds an object of {cls.__qualname__}, which is not plain: {error}"
        ) from None


def refuse_instance(cls: type) -> None:
    """An error if a file may not ask for objects of this class."""
    reason = "" if is_vouched_for(cls) else why_no_instance(cls)
    if reason:
        raise refused_name(cls.__module__, cls.__qualname__, reason)


def refused_name(module: str, name: str, reason: str) -> UnsupportedError:
    """The error for a class or function that a file may not name."""
    return UnsupportedError(
        f"load: the file needs {module}.{name}, which is refused: {reason}. Nothing of the file is executed. "
        f"If you trust it, load inside `with extempo.serialization.safe_globals([{name}]):`; "
        "or save a state_dict or plain values in its place"
    )


def named_tuple(cls: type, parts: Any) -> Any:
    """A namedtuple of these parts."""
    refuse_instance(cls)
    fields = [attributes_of(base)["_fields"] for base in cls.__mro__ if "_fields" in attributes_of(base)]
    if not is_namedtuple(cls) or len(parts) != len(fields[0]):
        raise TypeError(f"a {cls.__name__} of {len(parts)} values")
    return tuple.__new__(cls, parts)


def member(cls: type, name: Any) -> Any:
    """The member of an enum by its name; `_missing_` is not asked."""
    members = attributes_of(cls).get("_member_map_", {})
    if type(name) is not str or name not in members:
        raise TypeError(f"{cls.__name__} has no member {name!r}")
    return members[name]


def member_of_value(cls: type, value: Any) -> Any:
    """The member of an enum by its value, compared without asking the class."""
    for found in attributes_of(cls).get("_member_map_", {}).values():
        own = found._value_
        if type(own) is type(value) and type(own) in (str, int, float, bool, bytes, tuple) and own == value:
            return found
    raise TypeError(f"{cls.__name__} has no member of the value {value!r}")


def give_state(target: Any, attributes: Any, slots: Any = None) -> None:
    """Give an object that `blank` made its attributes."""
    if type(attributes or {}) is not dict or type(slots or {}) is not dict:
        raise TypeError(f"the state of a {type(target).__name__} is not a dict")
    if not all(type(name) is str for name in (*(attributes or ()), *(slots or ()))):
        raise TypeError(f"an attribute of a {type(target).__name__} has a name that is not text")
    if isinstance(target, _RESTORE_THEMSELVES):
        _give_own_state(target, dict(attributes or {}))
        return
    if attributes:
        object.__getattribute__(target, "__dict__").update(attributes)
    for name, value in (slots or {}).items():
        _slot(type(target), name).__set__(target, value)


def _slot(cls: type, name: str) -> Any:
    found = next((attributes_of(base)[name] for base in cls.__mro__ if name in attributes_of(base)), MISSING)
    if type(found) is not types.MemberDescriptorType:
        raise TypeError(f"{cls.__name__} has no slot {name!r}")
    return found


def _give_own_state(target: Any, state: dict[str, Any]) -> None:
    if isinstance(target, Module):
        _give_module_state(target, state)
    elif isinstance(target, Optimizer):
        _check_optimizer_state(state)
        Optimizer.__setstate__(target, {name: state[name] for name in ("defaults", "state", "param_groups")})
    else:
        DataLoader.__setstate__(target, state)


def _give_module_state(module: Module, state: dict[str, Any]) -> None:
    hooked = [name for name in (*_TORCH_HOOKS, *OWN_HOOKS) if state.get(name)]
    if hooked:
        raise UnsupportedError(
            f"load: a {type(module).__name__} in the file has hooks ({hooked[0]}), which are code; remove them before "
            "saving, and register them again after loading"
        )
    state = {name: value for name, value in state.items() if name not in _TORCH_ONLY and name not in OWN_HOOKS}
    for table in TABLES:
        kind = Module if table == "_modules" else Tensor
        entries = state.setdefault(table, {})
        if not isinstance(entries, dict):
            raise TypeError(f"{table} of a {type(module).__name__} is not a dict")
        for name, value in entries.items():
            if type(name) is not str or not (value is None or isinstance(value, kind)):
                raise TypeError(f"{table} of a {type(module).__name__} has {name!r}, which is no {kind.__name__}")
    temporary = state.setdefault("_non_persistent_buffers_set", set())
    if type(temporary) is not set:
        raise TypeError(f"the temporary buffers of a {type(module).__name__} are not a set")
    state.setdefault("training", True)
    Module.__setstate__(module, state)


def _check_optimizer_state(state: dict[str, Any]) -> None:
    groups, by_parameter = state.get("param_groups"), state.get("state")
    if not isinstance(state.get("defaults"), dict) or not isinstance(by_parameter, dict) or type(groups) is not list:
        raise TypeError("the state of an optimizer is not complete")
    for group in groups:
        if type(group) is not dict or type(group.get("params")) is not list:
            raise TypeError("a parameter group of an optimizer is not one")
        if not all(isinstance(p, Tensor) for p in group["params"]):
            raise TypeError("an optimizer has a parameter that is not a tensor")


# ---- objects that users vouch for


def call_of(value: Any) -> tuple[Any, ...] | None:
    """What pickle would do to make this object, as `__reduce_ex__` says; None if it says that it cannot be."""
    try:
        made = value.__reduce_ex__(2)
    except (TypeError, AttributeError, NotImplementedError):
        return None
    if type(made) is not tuple or not 2 <= len(made) <= 5:
        return None
    return (*made, None, None, None)[:5]


def is_new_object(maker: Any) -> bool:
    """Whether an object is made by `cls.__new__(cls, ...)`."""
    return maker is copyreg.__newobj__  # type: ignore[attr-defined] # not in the stubs


def vouched_result(name: str, make: Callable[[], Any]) -> Any:
    """What code that the user vouches for returns; what it raises is not the file's fault, nor Extempo's."""
    try:
        return make()
    except Exception as error:
        raise UnsupportedError(
            f"load: rebuilding {name}, which safe_globals lists, raised {type(error).__name__}: {error}"
        ) from error


def give_vouched_state(target: Any, state: Any) -> None:
    """Give an object of a class that the user vouches for its state, as pickle does."""
    if hasattr(target, "__setstate__"):
        target.__setstate__(state)
        return
    attributes, slots = state if type(state) is tuple and len(state) == 2 else (state, None)
    for name, value in (attributes or {}).items():
        target.__dict__[name] = value
    for name, value in (slots or {}).items():
        setattr(target, name, value)
