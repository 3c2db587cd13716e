"""`torch.cuda.amp.common`: whether mixed precision on a GPU may be there."""

from __future__ import annotations


def amp_definitely_not_available() -> bool:
    """There is no GPU."""
    return True
