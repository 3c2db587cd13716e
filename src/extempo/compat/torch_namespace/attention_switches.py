"""`torch.backends.cuda` and `torch.nn.attention`: which kernels of attention a GPU may use. Extempo has one way.

What is set is kept, and has no effect.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

WARN_FOR_UNFUSED_KERNELS = False
_allowed: dict[str, bool] = {}


def _switch(kernel: str) -> tuple[Callable[[bool], None], Callable[[], bool]]:
    def enable(enabled: bool) -> None:
        """Keep the wish."""
        _allowed[kernel] = bool(enabled)

    def is_enabled() -> bool:
        """What was wished, True at first."""
        return _allowed.get(kernel, True)

    return enable, is_enabled


enable_flash_sdp, flash_sdp_enabled = _switch("flash")
enable_mem_efficient_sdp, mem_efficient_sdp_enabled = _switch("mem_efficient")
enable_math_sdp, math_sdp_enabled = _switch("math")
enable_cudnn_sdp, cudnn_sdp_enabled = _switch("cudnn")
allow_fp16_bf16_reduction_math_sdp, fp16_bf16_reduction_math_sdp_allowed = _switch("reduction")


class sdp_kernel(nullcontext[None]):  # PyTorch's name
    """A block in which some kernels of attention are allowed: the one that there is runs."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()


def is_flash_attention_available() -> bool:
    """Not here."""
    return False


is_ck_sdpa_available = is_flash_attention_available


def can_use_flash_attention(params: Any, debug: bool = False) -> bool:
    """Not here."""
    return False


can_use_efficient_attention = can_use_cudnn_attention = can_use_flash_attention
