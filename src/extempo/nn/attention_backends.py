"""`nn.attention.sdpa_kernel`: PyTorch's choice among implementations of attention. Here all choices are one."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import DtypeError

__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend(enum.IntEnum):
    """The implementations of PyTorch's `scaled_dot_product_attention`.

    >>> nn.attention.SDPBackend.MATH.name
    'MATH'
    """

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[None]:
    """Take the choice and compute attention as always: results do not depend on it.

    >>> q = ex.ones(1, 2, 4)
    >>> with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
    ...     nn.functional.scaled_dot_product_attention(q, q, q).shape
    extempo.Size([1, 2, 4])
    """
    chosen = [backends] if isinstance(backends, SDPBackend) else backends
    if not isinstance(chosen, list | tuple) or not all(isinstance(one, SDPBackend) for one in chosen):
        raise DtypeError(f"sdpa_kernel: expected an SDPBackend or a list of them, got {backends!r}")
    yield
