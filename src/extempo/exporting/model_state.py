"""What a model has besides its code: the modules that it is or reads, their weights by name, and what it may change.

Making and checking a program calls the model, and leaves it as it was.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from ..core.context import no_grad
from ..core.interrupts import block
from ..core.tensor import Tensor
from ..nn.module import Module


def modules_of(model: Any) -> Iterator[tuple[str, Module]]:
    """The modules that a model is or reads, with the prefix of their parameters' names."""
    if isinstance(model, Module):
        yield "", model
        return
    owner = getattr(model, "__self__", None)
    if isinstance(owner, Module):
        yield "", owner
    if inspect.isfunction(model):
        reads = inspect.getclosurevars(model)
        for name, value in {**reads.globals, **reads.nonlocals}.items():
            if isinstance(value, Module):
                yield f"{name}.", value


def state_of(modules: Mapping[str, Module]) -> Iterator[tuple[str, Tensor]]:
    """Parameters and buffers by name; one that has several names by its first."""
    seen: set[int] = set()
    for prefix, module in modules.items():
        for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
            if id(tensor) not in seen:
                seen.add(id(tensor))
                yield prefix + name, tensor


Attributes = list[tuple[dict[str, Any], dict[str, Any]]]


def attributes_of(modules: Mapping[str, Module]) -> Attributes:
    """The attributes and buffers of all modules, to be put back and to see what forward sets."""
    tables = [table for m in modules.values() for part in m.modules() for table in (vars(part), part._buffers)]
    return [(table, dict(table)) for table in tables]


def restore(before: Attributes) -> None:
    for table, old in before:
        for name in [*table]:
            if name not in old:
                del table[name]
        for name, value in old.items():
            if table.get(name) is not value:
                table[name] = value


@block
def unchanged(model: Any) -> Iterator[None]:
    """Run a block, then put attributes, and the values of buffers, back as they were."""
    modules = dict(modules_of(model))
    before = attributes_of(modules)
    kept = [(t, t.detach().clone()) for module in modules.values() for t in module.buffers()]
    try:
        yield
    finally:
        restore(before)
        with no_grad():
            for t, old in kept:
                t.copy_(old)
