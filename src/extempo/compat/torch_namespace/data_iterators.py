"""`torch.utils.data.dataloader`: the classes of its iterators by PyTorch's names."""

from __future__ import annotations

from ...data.iteration import SerialIterator as _SingleProcessDataLoaderIter
from ...data.iteration import WorkerIterator as _MultiProcessingDataLoaderIter

__all__ = ["_BaseDataLoaderIter", "_DatasetKind", "_MultiProcessingDataLoaderIter", "_SingleProcessDataLoaderIter"]

_BaseDataLoaderIter = _SingleProcessDataLoaderIter | _MultiProcessingDataLoaderIter


class _DatasetKind:
    """Whether samples are asked for by index or come in their own order."""

    Map, Iterable = 0, 1
