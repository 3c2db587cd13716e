"""Fetchers: from what a sampler yields to a batch, the same in the main process and in a worker."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from ..errors import ExtempoError
from .datasets import samples

Collate = Callable[[Any], Any]


class Exhausted(Exception):
    """An iterable data set has no more batches."""


class MapFetcher:
    """Reads the samples of one index, or of a list of indices that make a batch."""

    def __init__(self, dataset: Any, collate: Collate, batched: bool) -> None:
        self._dataset = dataset
        self._collate = collate
        self._batched = batched

    def fetch(self, index: Any) -> Any:
        """The batch of these indices."""
        try:
            return self._collate(samples(self._dataset, index) if self._batched else self._dataset[index])
        except StopIteration as stop:  # it would end the loop over the loader as if the epoch were complete
            raise ExtempoError(
                f"{type(self._dataset).__name__}: StopIteration came out of the data set or collate_fn at {index!r}"
            ) from stop


class IterableFetcher:
    """Reads the next `batch_size` samples, or the next one if it is None."""

    def __init__(self, dataset: Any, collate: Collate, batch_size: int | None, drop_last: bool) -> None:
        self._samples = iter(dataset)
        self._collate = collate
        self._batch_size = batch_size
        self._drop_last = drop_last

    def fetch(self, index: None) -> Any:
        """The next batch. Raises Exhausted after the last."""
        found = list(itertools.islice(self._samples, self._batch_size or 1))
        if not found or (self._drop_last and len(found) < (self._batch_size or 1)):
            raise Exhausted
        return self._collate(found[0] if self._batch_size is None else found)


Fetcher = MapFetcher | IterableFetcher
