"""Communication hooks: how a bucket of gradients travels, smaller than it is.

model.register_comm_hook(None, dist.comm_hooks.bf16_compress_hook)
model.register_comm_hook(dist.comm_hooks.TopKState(fraction=0.01), dist.comm_hooks.top_k_hook)
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from ..core.storage import Array
from ..core.tensor import Tensor, from_array
from ..errors import ArgumentError
from .collectives import all_reduce
from .groups import ProcessGroup, group_of
from .reducer import GradBucket
from .transfers import as_bytes

__all__ = ["TopKState", "allreduce_hook", "bf16_compress_hook", "top_k_hook"]


def allreduce_hook(process_group: ProcessGroup | None, bucket: GradBucket) -> Tensor:
    """The mean, uncompressed: what happens without a hook.

    process_group: of all ranks, if None.
    bucket: the gradients.

    >>> ex.distributed.init_process_group()
    >>> model = nn.parallel.DistributedDataParallel(nn.Linear(2, 1))
    >>> model.register_comm_hook(None, ex.distributed.comm_hooks.allreduce_hook)
    >>> ex.distributed.destroy_process_group()
    """
    group = group_of(process_group)
    tensor = bucket.buffer()
    all_reduce(tensor, group=group)
    return tensor / group.size()


def bf16_compress_hook(process_group: ProcessGroup | None, bucket: GradBucket) -> Tensor:
    """The mean by half the bytes: gradients travel as bfloat16, and are added in float32.

    process_group: of all ranks, if None.
    bucket: the gradients.

    >>> ex.distributed.init_process_group()
    >>> model = nn.parallel.DistributedDataParallel(nn.Linear(2, 1))
    >>> model.register_comm_hook(None, ex.distributed.comm_hooks.bf16_compress_hook)
    >>> ex.distributed.destroy_process_group()
    """
    group = group_of(process_group)
    size = group.size()
    flat = bucket.buffer()._values()
    each = -(-flat.size // size)
    padded = np.zeros(each * size, ml_dtypes.bfloat16)
    padded[: flat.size] = flat
    received = np.empty((size, each), ml_dtypes.bfloat16)
    result = np.empty((size, each), ml_dtypes.bfloat16)

    def act(_: Array) -> None:
        engine = group.engine
        engine.all_to_all(as_bytes(padded).reshape(size, -1), as_bytes(received).reshape(size, -1))
        mean = (received.astype(np.float32).sum(axis=0) / size).astype(ml_dtypes.bfloat16)
        engine.all_gather(as_bytes(mean), as_bytes(result).reshape(size, -1))

    group.together("bf16_compress_hook", act, repeatable=False)
    return from_array(result.reshape(-1)[: flat.size].astype(flat.dtype))


class TopKState:
    """What `top_k_hook` keeps: the part of each gradient that has not travelled yet, which is added to the next one.

    fraction: of the values that travel, the largest.
    process_group: of all ranks, if None.

    >>> ex.distributed.comm_hooks.TopKState(fraction=0.05).fraction
    0.05
    """

    def __init__(self, fraction: float = 0.01, process_group: ProcessGroup | None = None) -> None:
        if not 0 < fraction <= 1:
            raise ArgumentError(f"TopKState: fraction must be above 0 and at most 1, got {fraction}")
        self.fraction = fraction
        self.process_group = process_group
        self.residuals: dict[int, Any] = {}


def top_k_hook(state: TopKState, bucket: GradBucket) -> Tensor:
    """The mean of each rank's largest values; the rest waits for the next step (error feedback).

    state: a `TopKState`, one for each model.
    bucket: the gradients.

    >>> ex.distributed.init_process_group()
    >>> model = nn.parallel.DistributedDataParallel(nn.Linear(2, 1))
    >>> state = ex.distributed.comm_hooks.TopKState(fraction=0.05)
    >>> model.register_comm_hook(state, ex.distributed.comm_hooks.top_k_hook)
    >>> ex.distributed.destroy_process_group()
    """
    group = group_of(state.process_group)
    flat = bucket.buffer()._values().astype(np.float32)
    residual = state.residuals.get(bucket.index())
    if residual is not None and residual.size == flat.size:
        flat = flat + residual
    count = max(1, round(flat.size * state.fraction))
    largest = np.sort(np.argpartition(np.abs(flat), -count)[-count:]).astype(np.int64)
    chosen = flat[largest]
    rest = flat.copy()
    rest[largest] = 0
    state.residuals[bucket.index()] = rest
    places = np.empty((group.size(), count), np.int64)
    values = np.empty((group.size(), count), np.float32)

    def act(_: Array) -> None:
        group.engine.all_gather(largest, places)
        group.engine.all_gather(chosen, values)

    group.together("top_k_hook", act, repeatable=False)
    total = np.zeros_like(flat)
    for where, what in zip(places, values, strict=True):
        total[where] += what
    return from_array(total / np.float32(group.size()))
