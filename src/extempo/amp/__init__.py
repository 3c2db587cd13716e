"""Automatic mixed precision by PyTorch's names. `autocast` is a stated no-op; `GradScaler` does what PyTorch's does.

On a CPU with NumPy's kernels bfloat16 is slower than float32, so ops inside `autocast` run in the dtype of their
operands: numbers are those of float32 code, and scripts that use autocast run unchanged.
"""

from __future__ import annotations

from ..core.absent_names import explain_absent
from ..core.public_names import publish
from .autocasting import (
    autocast,
    custom_bwd,
    custom_fwd,
    get_autocast_dtype,
    is_autocast_available,
    is_autocast_enabled,
)
from .scaler import GradScaler

__all__ = [
    "GradScaler",
    "autocast",
    "custom_bwd",
    "custom_fwd",
    "get_autocast_dtype",
    "is_autocast_available",
    "is_autocast_enabled",
]

publish(__name__, __all__, globals())

explain_absent(__name__)
