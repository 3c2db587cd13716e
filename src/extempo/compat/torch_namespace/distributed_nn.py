"""`torch.distributed.nn`: collectives that gradients pass through, for one process."""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor


def all_reduce(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """The sum over one process is what it has."""
    return tensor


broadcast = reduce = all_reduce


def all_gather(tensor: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
    return (tensor,)


gather = all_gather
