"""What the tensors of PyTorch take, which keeps no count of its own on a CPU: from the events of its profiler."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from ..core.live_objects import live_objects


class TensorMemory(NamedTuple):
    """Bytes of tensors: the most at a time, with those that were there before; and how many more there are after."""

    peak: int
    growth: int


def tensor_memory(run: Callable[[], None]) -> TensorMemory:
    """Of a call, op by op: what an op needs inside and gives back is not seen."""
    from torch.autograd.profiler import profile

    before = _alive()
    profiler: Any = profile(profile_memory=True)
    with _quiet():  # it reports start and stop on standard error
        profiler.__enter__()
    try:
        run()
    finally:
        with _quiet():
            profiler.__exit__(None, None, None)
    events = [event for event in profiler.function_events if event.self_cpu_memory_usage]
    held = peak = 0
    for event in sorted(events, key=lambda event: event.time_range.end):
        held += event.self_cpu_memory_usage
        peak = max(peak, held)
    return TensorMemory(before + peak, max(held, 0))


def _alive() -> int:
    """Bytes behind all tensors, those that share memory counted once."""
    import torch

    storages = (x.untyped_storage() for x in live_objects(torch.Tensor))
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


@contextmanager
def _quiet() -> Iterator[None]:
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
