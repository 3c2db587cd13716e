"""Samplers: each index as often as promised, in an order that the seed decides."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.data import (
    BatchSampler,
    BlockRandomSampler,
    BucketBatchSampler,
    DistributedSampler,
    MaxTokensBatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    WeightedRandomSampler,
)

from .lengths import RANDOM


@pytest.mark.parametrize("make", RANDOM.values(), ids=RANDOM)
def test_a_generator_fixes_every_epoch_and_epochs_differ(make):
    first, again = make(ex.Generator().manual_seed(3)), make(ex.Generator().manual_seed(3))
    epochs = [list(first), list(first)]
    assert epochs == [list(again), list(again)]
    assert epochs[0] != epochs[1]
    assert len(epochs[0]) == len(epochs[1]) == len(first)


@pytest.mark.parametrize("make", RANDOM.values(), ids=RANDOM)
def test_an_epoch_takes_one_draw_at_once(make):
    ex.manual_seed(5)
    expected = list(make(None))
    after = ex.rand(3).tolist()
    ex.manual_seed(5)
    running = iter(make(None))
    assert ex.rand(3).tolist() == after
    assert list(running) == expected


def test_sequential_and_random_samplers_visit_everything_once():
    assert list(SequentialSampler("abcd")) == [0, 1, 2, 3]
    assert sorted(RandomSampler(range(200))) == list(range(200))


def test_more_samples_than_there_are_start_another_permutation():
    draws = list(RandomSampler(range(10), num_samples=25))
    assert sorted(draws[:10]) == sorted(draws[10:20]) == list(range(10))
    assert len(set(draws[20:])) == 5


def test_replacement_draws_come_from_the_whole_range():
    draws = list(RandomSampler(range(7), replacement=True, num_samples=500))
    assert len(draws) == 500
    assert set(draws) == set(range(7))


def test_samplers_of_nothing_are_empty():
    assert list(RandomSampler([])) == list(RandomSampler([], replacement=True)) == list(BlockRandomSampler([])) == []
    assert list(BucketBatchSampler([], 4)) == list(MaxTokensBatchSampler([], 4)) == []


def test_weights_decide_how_often_and_zero_means_never():
    draws = list(WeightedRandomSampler([0.0, 3.0, 1.0], 4000, generator=ex.Generator().manual_seed(0)))
    assert draws.count(0) == 0
    assert draws.count(1) / 4000 == pytest.approx(0.75, abs=0.03)


def test_batches_keep_or_drop_the_last():
    assert list(BatchSampler(range(5), 2, False)) == [[0, 1], [2, 3], [4]]
    assert list(BatchSampler(range(5), 2, True)) == [[0, 1], [2, 3]]
    assert len(BatchSampler(range(5), 2, False)) == 3
    assert len(BatchSampler(range(5), 2, True)) == 2


@pytest.mark.parametrize("size", [0, -1, 2.0, True])
def test_batch_sizes_must_be_positive_ints(size):
    with pytest.raises((ValueError, TypeError), match="batch_size"):
        BatchSampler(range(5), size, False)


def test_blocks_stay_together():
    order = list(BlockRandomSampler([4, 0, 6], generator=ex.Generator().manual_seed(1)))
    assert sorted(order) == list(range(10))
    assert sorted(order[:4]) == [0, 1, 2, 3] or sorted(order[:6]) == [4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("shuffle", [False, True])
def test_distributed_parts_are_disjoint_and_of_equal_size(shuffle, drop_last):
    parts = [DistributedSampler(range(10), 3, rank, shuffle=shuffle, drop_last=drop_last) for rank in range(3)]
    indices = [list(part) for part in parts]
    assert [len(part) for part in indices] == [3 if drop_last else 4] * 3 == [len(part) for part in parts]
    assert len({i for part in indices for i in part}) == (9 if drop_last else 10)
    for part in parts:
        part.set_epoch(1)
    assert ([list(part) for part in parts] != indices) == shuffle


def test_distributed_parts_equal_those_of_pytorch_without_shuffling():
    torch_data = pytest.importorskip("torch.utils.data", reason="compares with PyTorch")
    for size in (1, 2, 7, 10):
        for rank in range(3):
            ours = DistributedSampler(range(size), 3, rank, shuffle=False)
            assert list(ours) == list(torch_data.DistributedSampler(range(size), 3, rank, shuffle=False))


def test_a_sampler_without_iter_says_so():
    with pytest.raises(NotImplementedError, match="without __iter__"):
        iter(Sampler())
