"""Which worker process this is."""

from __future__ import annotations

from typing import Any, NamedTuple


class WorkerInfo(NamedTuple):
    """What `get_worker_info` returns inside of a worker.

    >>> info = ex.utils.data.WorkerInfo(id=1, num_workers=4, seed=7, dataset="abcdefgh")
    >>> info.dataset[info.id :: info.num_workers]
    'bf'
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any


_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """Which worker this is, of how many, its seed and its copy of the data set; None in the main process.

    An `IterableDataset` asks it which part to read, or every worker reads everything.

    >>> print(ex.utils.data.get_worker_info())
    None
    """
    return _info


def announce(worker: int, n_workers: int, seed: int, dataset: Any) -> None:
    """Say that this process is a worker."""
    global _info
    _info = WorkerInfo(worker, n_workers, seed, dataset)
