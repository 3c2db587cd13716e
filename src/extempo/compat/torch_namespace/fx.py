"""`torch.fx`: what libraries do with it while they load. There is nothing to trace, so a mark for it has no effect."""

from __future__ import annotations

from typing import TypeVar

_F = TypeVar("_F")


def wrap(fn_or_name: _F) -> _F:
    """Mark a function, or one by its name, as one that a tracer would not look into: the function itself."""
    return fn_or_name


def has_side_effect(fn: _F) -> _F:
    """The function itself."""
    return fn
