"""Whoever refers to a tensor, in words: a variable of a function that runs, an attribute, a global, a closure."""

from __future__ import annotations

import gc
import sys
from collections import deque
from collections.abc import Iterator
from types import FrameType, FunctionType, ModuleType
from typing import Any

from ..core.code_names import is_library
from ..core.graph import Node
from ..core.tensor import Tensor

CONTAINERS = (list, dict, set, deque)
_MOST_LOOKED_AT = 10_000  # entries of one container


def saved_bytes(node: Node) -> int:
    """What a node keeps for its gradient."""
    return sum(getattr(part[1], "nbytes", 0) for part in node.saved or ())


def is_tensor(x: Any) -> bool:
    """Of Extempo or of PyTorch."""
    if isinstance(x, Tensor):
        return True
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def variable_of(value: Any) -> str:
    """The variable of a running function of the user's that has a value, itself or in a container; "" if none has."""
    for frame in _frames():
        for name, held in frame.f_locals.items():
            how = _inside(held, value)
            if how is not None:
                function = frame.f_code.co_name
                place = "" if function == "<module>" else f" of {function}"
                return f"{name!r}{how}{place}"
    return ""


def _inside(held: Any, value: Any) -> str | None:
    if held is value:
        return ""
    if isinstance(held, (*CONTAINERS, tuple)) and len(held) <= _MOST_LOOKED_AT:
        for part in held.values() if isinstance(held, dict) else held:
            if part is value or (isinstance(part, tuple | list) and any(x is value for x in part)):
                return f" ({type(held).__name__} of {len(held):,})"
    return None


def _frames() -> Iterator[FrameType]:
    """Those of the user's code in all threads."""
    for frame in list(sys._current_frames().values()):
        found: FrameType | None = frame
        while found is not None:
            if not is_library(found.f_globals.get("__name__")):
                yield found
            found = found.f_back


def holder(value: Any, own: set[int], depth: int = 0) -> str:
    """In words, whoever refers to a value: an attribute, a global variable, a variable of a closure.

    `own`: identities of objects that do not count.
    """
    for referrer in gc.get_referrers(value):
        if id(referrer) in own or isinstance(referrer, FrameType) or is_tensor(referrer):
            continue
        found = _named(referrer, value)
        if not found and isinstance(referrer, (*CONTAINERS, tuple)) and depth < 3:
            own.add(id(referrer))
            outer = holder(referrer, own, depth + 1)
            found = f"{outer} ({type(referrer).__name__})" if outer and depth == 0 else outer
        if found:
            return found
    return ""


def _named(referrer: Any, value: Any) -> str:
    """What refers to a value by a name; "" if it has none for it."""
    if isinstance(referrer, dict):
        name, owner = _key_of(referrer, value), _owner(referrer)
        return f"{owner}.{name}" if owner and isinstance(name, str) else ""
    if isinstance(referrer, ModuleType | FunctionType):
        return f"{referrer.__name__}"
    if type(referrer).__name__ == "cell":
        return _closure(referrer) or "a variable of a closure"
    if isinstance(referrer, (*CONTAINERS, tuple)) or not hasattr(referrer, "__dict__"):
        return ""
    name = _key_of(vars(referrer), value)
    return f"{type(referrer).__name__}.{name}" if name else ""


def _key_of(entries: dict[Any, Any], value: Any) -> Any:
    for key, found in entries.items():  # a generator expression would refer to the value, too
        if found is value:
            return key
    return None


def _owner(attributes: dict[Any, Any]) -> str:
    if "__name__" in attributes and "__builtins__" in attributes:
        return str(attributes["__name__"])
    for referrer in gc.get_referrers(attributes):
        if getattr(referrer, "__dict__", None) is attributes:
            return type(referrer).__name__
    return ""


def _closure(cell: Any) -> str:
    for cells in gc.get_referrers(cell):
        if isinstance(cells, tuple):
            for fn in gc.get_referrers(cells):
                if isinstance(fn, FunctionType) and fn.__closure__ is cells:
                    place = next(i for i, c in enumerate(cells) if c is cell)
                    return f"{fn.__code__.co_freevars[place]!r}, a variable of {fn.__name__}'s closure"
    return ""
