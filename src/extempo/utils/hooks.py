"""The handle that takes a hook away again."""

from __future__ import annotations

from ..autograd.hooks import RemovableHandle

__all__ = ["RemovableHandle"]
