"""The older spelling of `ex.amp` for CUDA, which scripts carry along: without such a device both do nothing."""

from __future__ import annotations

from ..amp.older import AutocastOf, GradScalerOf

__all__ = ["GradScaler", "autocast"]


class autocast(AutocastOf):
    """`ex.amp.autocast("cuda", ...)`: computes in the dtypes that the tensors have.

    >>> with ex.cuda.amp.autocast():
    ...     (ex.ones(1) * 2).dtype
    extempo.float32
    """

    device_name = "cuda"


class GradScaler(GradScalerOf):
    """`ex.amp.GradScaler("cuda", ...)`: switched off, with a warning, as in PyTorch without CUDA.

    >>> ex.cuda.amp.GradScaler(enabled=False).is_enabled()
    False
    """

    device_name = "cuda"
