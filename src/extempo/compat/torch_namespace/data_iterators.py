"""`torch.utils.data.dataloader`: the classes of its iterators by PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any

from ...data.iteration import SerialIterator as _SingleProcessDataLoaderIter
from ...data.iteration import WorkerIterator as _MultiProcessingDataLoaderIter
from ...data.samplers import Sampler

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


class _InfiniteConstantSampler(Sampler[None]):
    """For data sets that iterate in their own order: there is nothing to choose, any number of times."""

    def __iter__(self) -> Iterator[None]:
        return repeat(None)


class _DatasetKind:
    """Whether samples are asked for by index or come in their own order."""

    Map, Iterable = 0, 1
