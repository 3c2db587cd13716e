"""`torch.utils._contextlib`: context managers that are decorators too."""

from __future__ import annotations

from contextlib import ContextDecorator


class _DecoratorContextManager(ContextDecorator):
    """Each call of a decorated function enters a copy of its own, made by `clone`."""

    def clone(self) -> _DecoratorContextManager:
        """An equal one; override it where the constructor takes arguments."""
        return type(self)()

    def _recreate_cm(self) -> _DecoratorContextManager:
        return self.clone()
