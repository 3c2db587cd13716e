"""`torch.utils.data.dataloader`: the classes of its iterators by PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...data.iteration import SerialIterator as _SingleProcessDataLoaderIter
from ...data.iteration import WorkerIterator as _MultiProcessingDataLoaderIter

_collate_fn_t = _worker_init_fn_t = Callable[..., Any]

__all__ = [
    "_BaseDataLoaderIter",
    "_DatasetKind",
    "_MultiProcessingDataLoaderIter",
    "_SingleProcessDataLoaderIter",
    "_collate_fn_t",
    "_worker_init_fn_t",
]

_BaseDataLoaderIter = _SingleProcessDataLoaderIter | _MultiProcessingDataLoaderIter


class _DatasetKind:
    """Whether samples are asked for by index or come in their own order."""

    Map, Iterable = 0, 1
