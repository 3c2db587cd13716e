"""Models on several processes: `DistributedDataParallel`, by PyTorch's name and meaning."""

from __future__ import annotations

from ...core.public_names import publish
from .distributed import DistributedDataParallel

__all__ = ["DistributedDataParallel"]

publish(__name__, __all__, globals())
