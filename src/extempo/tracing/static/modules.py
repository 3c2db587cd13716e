"""The modules that a static function calls: their train/eval setting, and their parameters as they are at each call."""

from __future__ import annotations

import operator
from collections.abc import Collection
from typing import Any

from ...core.tensor import Tensor
from ...errors import GraphError
from .guards import Slots

_training = operator.attrgetter("training")
_TABLES = {"_parameters": "parameter", "_buffers": "buffer"}
_hooks = operator.attrgetter("_call_hooks")


class Modules:
    """The modules that were called, with all that is inside them."""

    def __init__(self, called: Collection[Any], outside: dict[int, Tensor]) -> None:
        found = {id(m): m for top in called for m in top.modules()}
        self._modules = list(found.values())
        self._trains = list(map(_training, self._modules))
        self._hooks = list(map(_hooks, self._modules))
        self._parents = [(m.__dict__, tuple(m._modules.values())) for m in self._modules if m._modules]
        slots = {id(x): slot for slot, x in outside.items()}
        self._names = _qualified(called)
        # Slot, and where it is filled from: attributes of a module, which of its tables, a name. Not the table itself:
        # it may be replaced.
        self._tensors: list[tuple[int, dict[str, Any], str, str]] = []
        for m in self._modules:
            for table in _TABLES:
                named = [(name, slots.pop(id(x), None)) for name, x in m.__dict__[table].items()]
                self._tensors += [(slot, m.__dict__, table, name) for name, slot in named if slot is not None]

    def labels(self) -> dict[int, str]:
        """By slot, what messages call a tensor."""
        return {slot: self._names[id(attributes), table, key] for slot, attributes, table, key in self._tensors}

    def are_set(self) -> bool:
        """Whether all are in train or eval mode as they were."""
        return list(map(_training, self._modules)) == self._trains

    def bind(self, slots: Slots, name: str) -> None:
        """Put parameters and buffers into their slots."""
        if list(map(_hooks, self._modules)) != self._hooks:
            raise GraphError(
                f"{name} (static): a module has got a hook since the function was recorded; compile it anew"
            )
        for attributes, children in self._parents:
            if tuple(attributes["_modules"].values()) != children:
                raise GraphError(
                    f"{name} (static): a module was replaced since the function was recorded; compile it anew"
                )
        for slot, attributes, table, key in self._tensors:
            x = attributes[table].get(key)
            if x is None:
                what = self._names[id(attributes), table, key]
                raise GraphError(f"{name} (static): {what} is not there any more; compile the function anew")
            slots[slot] = x


def _qualified(called: Collection[Any]) -> dict[tuple[int, str, str], str]:
    """By module, table and name in it, what to call a parameter or buffer as seen from the outermost module."""
    found: dict[tuple[int, str, str], str] = {}
    for top in called:
        for path, m in top.named_modules():
            for table, what in _TABLES.items():
                for name in m.__dict__[table]:
                    full = f"{path}.{name}" if path else name
                    found.setdefault((id(m.__dict__), table, name), f"{what} {full} of {type(top).__name__}")
    return found
