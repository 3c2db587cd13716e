"""Batch samplers that look at lengths: buckets, and batches of so many tokens."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.data import (
    BatchSampler,
    BucketBatchSampler,
    MaxTokensBatchSampler,
    RandomSampler,
)

LENGTHS = [(i * 37) % 23 + 1 for i in range(101)]


def waste(batches, lengths):
    """The share of padding in the padded batches."""
    padded = sum(len(batch) * max(lengths[i] for i in batch) for batch in batches)
    return 1 - sum(lengths[i] for batch in batches for i in batch) / padded


def test_buckets_visit_everything_once_and_pad_less():
    sampler = BucketBatchSampler(LENGTHS, 8, generator=ex.Generator().manual_seed(0))
    batches = list(sampler)
    assert sorted(i for batch in batches for i in batch) == list(range(101))
    assert len(batches) == len(sampler) == 13
    random_batches = list(BatchSampler(RandomSampler(range(101), generator=ex.Generator().manual_seed(0)), 8, False))
    assert waste(batches, LENGTHS) < 0.1 < 0.3 < waste(random_batches, LENGTHS)


@pytest.mark.parametrize(
    "sampler", [BucketBatchSampler(LENGTHS, 4, batches_per_bucket=5), MaxTokensBatchSampler(LENGTHS, 60)]
)
def test_the_longest_sample_of_a_batch_comes_first(sampler):
    for batch in sampler:
        lengths = [LENGTHS[i] for i in batch]
        assert lengths == sorted(lengths, reverse=True)


def test_dropping_the_last_bucket_batch_does_not_always_drop_the_shortest():
    sampler = BucketBatchSampler([*range(1, 10), 10], 3, drop_last=True, generator=ex.Generator().manual_seed(0))
    dropped = [set(range(10)) - {i for batch in sampler for i in batch} for _ in range(20)]
    assert all(len(left) == 1 for left in dropped)
    assert len(set.union(*dropped)) > 3


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("shuffle", [True, False])
def test_token_batches_stay_below_the_limit(padded, width, shuffle):
    sampler = MaxTokensBatchSampler(LENGTHS, 60, padded=padded, width=width, shuffle=shuffle, max_batch_size=9)
    batches = list(sampler)
    assert sorted(i for batch in batches for i in batch) == list(range(101))
    assert len(batches) == len(sampler)
    for batch in batches:
        lengths = [LENGTHS[i] for i in batch]
        assert (max(lengths) * len(lengths) if padded else sum(lengths)) <= 60
        assert len(batch) <= 9


def test_token_batches_are_full():
    sampler = MaxTokensBatchSampler([5] * 20, 25)
    assert {len(batch) for batch in sampler} == {5}


def test_too_long_samples_raise_or_are_skipped_or_stand_alone():
    lengths = [3, 50, 4, 2]
    with pytest.raises(ValueError, match="sample 1 with 50"):
        MaxTokensBatchSampler(lengths, 10)
    assert sorted(i for batch in MaxTokensBatchSampler(lengths, 10, too_long="skip") for i in batch) == [0, 2, 3]
    assert [1] in list(MaxTokensBatchSampler(lengths, 10, too_long="alone"))


def test_lengths_may_be_a_tensor_and_must_be_ints():
    assert len(BucketBatchSampler(ex.tensor(LENGTHS), 8)) == 13
    with pytest.raises(TypeError, match="one int for each sample"):
        BucketBatchSampler([1.5, 2.0], 8)
    with pytest.raises(ValueError, match="negative"):
        MaxTokensBatchSampler([1, -2], 8)
