"""Batch samplers for samples of different lengths.

Padding, or batching equal shapes together, costs the least when a batch holds samples of similar length. Both samplers
put the longest sample of a batch first, as `pack_padded_sequence` likes it, and visit every sample once an epoch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from .. import ops
from ..core.tensor import Tensor
from ..errors import DtypeError, ShapeError
from ..random import Generator
from .samplers import Sampler, batch_count, fresh_generator, positive

Array = np.ndarray[Any, Any]


def _as_lengths(lengths: Any, what: str) -> Array:
    array = lengths.detach().numpy() if isinstance(lengths, Tensor) else np.asarray(lengths)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise DtypeError(
            f"{what}: lengths must be one int for each sample, got {array.dtype} of shape {array.shape}; "
            "for example [len(x) for x in dataset]"
        )
    if array.size and array.min() < 0:
        raise ShapeError(f"{what}: lengths cannot be negative, sample {int(array.argmin())} has {int(array.min())}")
    return array.astype(np.int64)


def _permutation(size: int, generator: Generator) -> Array:
    return ops.randperm(size, generator=generator).numpy()


def _longest_first(order: Array, lengths: Array) -> Array:
    return order[np.argsort(-lengths[order], kind="stable")]


class BucketBatchSampler(Sampler[list[int]]):
    """Batches of `batch_size` indices whose samples have similar lengths.

    Each epoch shuffles the samples, cuts them into buckets of `batches_per_bucket` batches, sorts each bucket by
    length, cuts it into batches, and shuffles the batches. Larger buckets mean less padding and less randomness.
    Without `shuffle` there is one bucket, and the batches run from the longest to the shortest: for evaluation.

    >>> sampler = ex.utils.data.BucketBatchSampler([5, 1, 4, 2, 5], batch_size=2, shuffle=False)
    >>> list(sampler)
    [[0, 4], [2, 3], [1]]
    """

    def __init__(
        self,
        lengths: Any,
        batch_size: int,
        *,
        shuffle: bool = True,
        drop_last: bool = False,
        batches_per_bucket: int = 100,
        generator: Generator | None = None,
    ) -> None:
        self.lengths = _as_lengths(lengths, "BucketBatchSampler")
        self.batch_size = positive(batch_size, "BucketBatchSampler: batch_size")
        self.batches_per_bucket = positive(batches_per_bucket, "BucketBatchSampler: batches_per_bucket")
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.generator = generator

    def __iter__(self) -> Iterator[list[int]]:
        return self._batches(fresh_generator(self.generator) if self.shuffle else None)

    def _batches(self, generator: Generator | None) -> Iterator[list[int]]:
        size = len(self.lengths)
        if generator is None:
            order = _longest_first(np.arange(size), self.lengths)
            visits: Any = range(len(self))
        else:
            bucket = self.batch_size * self.batches_per_bucket
            # Dropped samples are dropped before the sort: else they would be the shortest, every epoch.
            shuffled = _permutation(size, generator)[: len(self) * self.batch_size]
            cuts = range(0, len(shuffled), bucket)
            order = np.concatenate([_longest_first(shuffled[i : i + bucket], self.lengths) for i in cuts] or [shuffled])
            visits = _permutation(len(self), generator)
        for batch in visits:
            yield order[batch * self.batch_size : (batch + 1) * self.batch_size].tolist()

    def __len__(self) -> int:
        return batch_count(len(self.lengths), self.batch_size, self.drop_last)


class MaxTokensBatchSampler(Sampler[list[int]]):
    """Batches of as many samples of similar length as `max_tokens` allows.

    A batch costs its longest length times its number of samples, which is its size once padded; with `padded=False`,
    the sum of its lengths. Samples of equal length are shuffled among each other each epoch, and so are the batches;
    lengths count as equal after rounding up to a multiple of `width`. The number of batches is the same every epoch.

    `too_long` says what happens to a sample of more than `max_tokens`: "raise" an error, "skip" it, or put it "alone"
    into a batch.

    >>> sampler = ex.utils.data.MaxTokensBatchSampler([5, 1, 4, 2, 5], max_tokens=10, shuffle=False)
    >>> list(sampler)
    [[0, 4], [2, 3], [1]]
    """

    def __init__(
        self,
        lengths: Any,
        max_tokens: int,
        *,
        max_batch_size: int | None = None,
        padded: bool = True,
        shuffle: bool = True,
        width: int = 1,
        too_long: Literal["raise", "skip", "alone"] = "raise",
        generator: Generator | None = None,
    ) -> None:
        self.lengths = _as_lengths(lengths, "MaxTokensBatchSampler")
        self.max_tokens = positive(max_tokens, "MaxTokensBatchSampler: max_tokens")
        if max_batch_size is not None:
            positive(max_batch_size, "MaxTokensBatchSampler: max_batch_size")
        if too_long not in ("raise", "skip", "alone"):
            raise DtypeError(f"MaxTokensBatchSampler: too_long is 'raise', 'skip' or 'alone', got {too_long!r}")
        self.max_batch_size = max_batch_size
        self.padded = padded
        self.shuffle = shuffle
        self.width = positive(width, "MaxTokensBatchSampler: width")
        self.generator = generator
        self._kept = self._within_limit(too_long)
        self._ends = self._cut()

    def _within_limit(self, too_long: str) -> Array:
        """The samples that take part, the longest first."""
        beyond = self.lengths > self.max_tokens
        if too_long == "raise" and beyond.any():
            worst = int(self.lengths.argmax())
            raise ShapeError(
                f"MaxTokensBatchSampler: {int(beyond.sum())} samples are longer than max_tokens={self.max_tokens}; "
                f"the longest is sample {worst} with {int(self.lengths[worst])}. Raise max_tokens, or pass "
                "too_long='skip' or too_long='alone'"
            )
        kept = np.flatnonzero(~beyond) if too_long == "skip" else np.arange(len(self.lengths))
        return _longest_first(kept, self._counted())

    def _counted(self) -> Array:
        """What a length counts as: rounded up, though never beyond the limit by that alone."""
        rounded = -(-self.lengths // self.width) * self.width
        return np.where(self.lengths > self.max_tokens, self.lengths, np.minimum(rounded, self.max_tokens))

    def _cut(self) -> list[int]:
        """Where each batch ends in the sorted order. Equal lengths are interchangeable, so shuffling moves no cut."""
        ends: list[int] = []
        start, tokens, longest = 0, 0, 0
        for place, length in enumerate(self._counted()[self._kept].tolist()):
            longest = max(longest, length)
            tokens += length
            cost = longest * (place + 1 - start) if self.padded else tokens
            if place > start and (cost > self.max_tokens or place - start == self.max_batch_size):
                ends.append(place)
                start, tokens, longest = place, length, length
        return [*ends, len(self._kept)] if len(self._kept) else ends

    def __iter__(self) -> Iterator[list[int]]:
        return self._batches(fresh_generator(self.generator) if self.shuffle else None)

    def _batches(self, generator: Generator | None) -> Iterator[list[int]]:
        order, visits = self._kept, np.arange(len(self._ends))
        if generator is not None:
            order = _longest_first(order[_permutation(len(order), generator)], self._counted())
            visits = _permutation(len(visits), generator)
        starts = [0, *self._ends]
        for batch in visits:
            inside = order[starts[batch] : self._ends[batch]]
            yield _longest_first(inside, self.lengths).tolist()  # `width` mixes lengths

    def __len__(self) -> int:
        return len(self._ends)
