"""Lengths of samples."""

from __future__ import annotations

from extempo.data import (
    BlockRandomSampler,
    BucketBatchSampler,
    MaxTokensBatchSampler,
    RandomSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

LENGTHS = [(i * 37) % 23 + 1 for i in range(101)]


RANDOM = {
    "random": lambda g: RandomSampler(range(50), generator=g),
    "replacement": lambda g: RandomSampler(range(50), replacement=True, num_samples=70, generator=g),
    "subset": lambda g: SubsetRandomSampler(list(range(50)), generator=g),
    "weighted": lambda g: WeightedRandomSampler([1.0] * 50, 40, generator=g),
    "blocks": lambda g: BlockRandomSampler([20, 20, 10], generator=g),
    "bucket": lambda g: BucketBatchSampler(LENGTHS, 4, batches_per_bucket=5, generator=g),
    "tokens": lambda g: MaxTokensBatchSampler(LENGTHS, 60, generator=g),
}
