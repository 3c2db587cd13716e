"""`torch.nn.parallel` in one process on a CPU: the wrappers have PyTorch's structure, and hand every call on."""

from __future__ import annotations

from typing import Any

from ...nn.module import Module

__all__ = ["DataParallel", "DistributedDataParallel"]


class DataParallel(Module):
    """The module itself, one level down: names in the state_dict begin with `module.` as PyTorch's do."""

    def __init__(self, module: Module, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        self.module = module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)


class DistributedDataParallel(DataParallel):
    """As `DataParallel`: there is one process, whose gradients are everybody's."""

    def no_sync(self) -> Any:
        """Gradients are never exchanged."""
        from contextlib import nullcontext

        return nullcontext()
