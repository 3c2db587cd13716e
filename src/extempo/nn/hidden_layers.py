"""Layers that a module has and does not know of: those in plain lists and dicts, which register nothing.

To hide a module in a list is also a known trick, so nothing is said where a list is set. It is said where it turns out
to be a mistake: a model that has no parameters at all, or weights that get gradients and are in no optimizer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..core.tensor import Tensor

if TYPE_CHECKING:
    from .module import Module

_PLAIN = (list, tuple, dict)


def hidden_parameters(model: Module) -> Iterator[tuple[str, str, Tensor]]:
    """For each parameter in a plain container of one of the model's modules, which `parameters()` leaves out:
    its dotted name, what to do, and the parameter itself."""
    known = {id(p) for _, p in model.named_parameters()}
    for prefix, module in model.named_modules():
        for attribute, value in vars(module).items():
            if not isinstance(value, _PLAIN) or attribute.startswith("_"):
                continue
            name = f"{prefix}.{attribute}".lstrip(".")
            for key, item in _items(value):
                for path, parameter in _parameters(f"{name}.{key}", item):
                    if id(parameter) not in known:
                        yield path, f"{name} is a plain {type(value).__name__}: {_remedy(value, item)}", parameter


def _items(container: Any) -> list[tuple[Any, Any]]:
    return list(container.items()) if isinstance(container, dict) else list(enumerate(container))


def _parameters(name: str, item: Any, around: tuple[Any, ...] = ()) -> Iterator[tuple[str, Tensor]]:
    """`around`: the containers that it is in, which it may hold in turn."""
    from .module import Module

    if isinstance(item, Module):
        yield from item.named_parameters(name)
    elif isinstance(item, Tensor):
        if item.is_leaf and item.requires_grad:
            yield name, item
    elif isinstance(item, _PLAIN) and not any(item is outer for outer in around):
        for key, part in _items(item):
            yield from _parameters(f"{name}.{key}", part, (*around, item))


def _remedy(container: Any, item: Any) -> str:
    kind = "Dict" if isinstance(container, dict) else "List"
    of = "Parameter" if isinstance(item, Tensor) else "Module"
    return f"make it nn.{of}{kind}(...), which registers what is in it"
