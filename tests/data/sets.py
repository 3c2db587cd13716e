"""Data sets that workers can import."""

from __future__ import annotations

import time

import extempo as ex
from extempo.data import (
    IterableDataset,
    TensorDataset,
    get_worker_info,
)

DATA = TensorDataset(ex.arange(40.0).view(20, 2), ex.arange(20))


class Shards(IterableDataset):
    """Counts to `sizes[worker]`, in tens of the worker."""

    def __init__(self, sizes, delay=0.0):
        self.sizes = sizes
        self.delay = delay

    def __iter__(self):
        info = get_worker_info()
        worker = info.id if info else 0
        for i in range(self.sizes[worker]):
            time.sleep(self.delay * (worker == 0))
            yield worker * 100 + i


def listed(batches):
    """Batches as nested lists."""
    return [[part.tolist() for part in batch] for batch in batches]
