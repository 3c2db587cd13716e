"""The modules that a static function calls: their train/eval setting, and their parameters as they are at each call."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

from .._tensor import Tensor
from ..errors import GraphError
from .arguments import Slots

_training = operator.attrgetter("training")
_hooks = operator.attrgetter("_call_hooks")


class Modules:
    """The modules that were called, with all that is inside them."""

    def __init__(self, called: Iterable[Any], outside: dict[int, Tensor]) -> None:
        found = {id(m): m for top in called for m in top.modules()}
        self._modules = list(found.values())
        self._trains = list(map(_training, self._modules))
        self._hooks = list(map(_hooks, self._modules))
        self._parents = [(m._modules, tuple(m._modules.values())) for m in self._modules if m._modules]
        slots = {id(x): slot for slot, x in outside.items()}
        self._tensors: list[tuple[int, Any, str]] = []  # slot, and where it is filled from: a table and a name
        for m in self._modules:
            for table in (m._parameters, m._buffers):
                named = [(name, slots.pop(id(x), None)) for name, x in table.items()]
                self._tensors += [(slot, table, name) for name, slot in named if slot is not None]

    def are_set(self) -> bool:
        """Whether all are in train or eval mode as they were."""
        return list(map(_training, self._modules)) == self._trains

    def bind(self, slots: Slots, name: str) -> None:
        """Put parameters and buffers into their slots."""
        if list(map(_hooks, self._modules)) != self._hooks:
            raise GraphError(
                f"{name} (static): a module has got a hook since the function was recorded; compile it anew"
            )
        for table, children in self._parents:
            if tuple(table.values()) != children:
                raise GraphError(
                    f"{name} (static): a module was replaced since the function was recorded; compile it anew"
                )
        for slot, table, key in self._tensors:
            x = table.get(key)
            if x is None:
                raise GraphError(f"{name} (static): a module has no {key!r} any more; compile the function anew")
            slots[slot] = x
