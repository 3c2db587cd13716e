"""DataLoader: the same batches with and without workers, repeatable, for every kind of data set and option."""

from __future__ import annotations

import copy
import pickle
import random
import sys

import numpy as np
import pytest

import extempo as ex
from extempo.data import (
    BatchSampler,
    BucketBatchSampler,
    DataLoader,
    Dataset,
    SequentialSampler,
    get_worker_info,
)

from .sets import DATA, Shards, listed

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="classes of a test module reach workers by fork only")


class Squares(Dataset):
    """Computes with tensors in the worker, matrix products included."""

    def __len__(self):
        return 12

    def __getitem__(self, index):
        matrix = ex.full((64, 64), float(index))
        return (matrix @ matrix)[0, 0], index


class Noise(Dataset):
    """One draw from each source of randomness."""

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return ex.tensor([ex.rand(()).item(), random.random(), np.random.random()], dtype=ex.float64)


class Ragged(Dataset):
    def __len__(self):
        return 7

    def __getitem__(self, index):
        return ex.arange(index), str(index)


@pytest.mark.parametrize(
    "options", [{}, {"shuffle": True}, {"batch_size": 7, "drop_last": True}, {"prefetch_factor": 1}]
)
def test_workers_give_the_same_batches_as_none(options):
    epochs = []
    for workers in (0, 2):
        kept = {name: value for name, value in options.items() if workers or name != "prefetch_factor"}
        ex.manual_seed(3)
        loader = DataLoader(DATA, **{"batch_size": 3, **kept}, num_workers=workers)
        epochs.append([listed(loader), listed(loader), len(loader), ex.rand(2).tolist()])
    assert epochs[0] == epochs[1]
    assert (epochs[0][0] != epochs[0][1]) == bool(options.get("shuffle"))
    assert len(epochs[0][0]) == epochs[0][2]


def test_a_generator_of_its_own_decides_the_order():
    orders = [
        listed(
            DataLoader(DATA, batch_size=4, shuffle=True, generator=ex.Generator().manual_seed(9), num_workers=workers)
        )
        for workers in (0, 2)
    ]
    assert orders[0] == orders[1]


def test_tensor_operations_run_in_workers_after_they_ran_here():
    ex.rand(64, 64) @ ex.rand(64, 64)
    batches = listed(DataLoader(Squares(), batch_size=5, num_workers=2))
    assert [x for batch in batches for x in batch[0]] == [64.0 * i * i for i in range(12)]


@pytest.mark.parametrize("persistent", [False, True])
def test_each_worker_has_a_stream_of_its_own_that_the_seed_fixes(persistent):
    def epochs():
        ex.manual_seed(11)
        loader = DataLoader(Noise(), batch_size=2, num_workers=2, persistent_workers=persistent)
        return [[batch.tolist() for batch in loader] for _ in range(2)]

    first = epochs()
    assert first == epochs()
    numbers = [x for epoch in first for batch in epoch for row in batch for x in row]
    assert len(set(numbers)) == len(numbers)


def test_persistent_workers_draw_the_same_as_new_ones():
    results = []
    for persistent in (False, True):
        ex.manual_seed(11)
        loader = DataLoader(Noise(), batch_size=2, num_workers=2, persistent_workers=persistent)
        results.append([[batch.tolist() for batch in loader] for _ in range(2)])
    assert results[0] == results[1]


@pytest.mark.parametrize("workers", [0, 2])
def test_samples_of_different_shapes_stay_apart(workers):
    batches = list(DataLoader(Ragged(), batch_size=3, num_workers=workers))
    assert [t.tolist() for t in batches[1][0]] == [[0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3, 4]]
    assert batches[2][1] == ("6",)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_batch_sampler_decides_the_batches(workers):
    sampler = BucketBatchSampler([5, 1, 4, 2, 5], 2, shuffle=False)
    loader = DataLoader(range(5), batch_sampler=sampler, num_workers=workers)
    assert [batch.tolist() for batch in loader] == [[0, 4], [2, 3], [1]]
    assert len(loader) == 3


@pytest.mark.parametrize("workers", [0, 2])
def test_without_a_batch_size_samples_come_alone(workers):
    loader = DataLoader([np.ones(2), np.zeros(3)], batch_size=None, num_workers=workers)
    assert [sample.tolist() for sample in loader] == [[1, 1], [0, 0, 0]]
    assert len(loader) == 2


@pytest.mark.parametrize("workers", [0, 2])
def test_collate_fn_gets_the_list_of_samples(workers):
    loader = DataLoader(range(5), batch_size=2, collate_fn=lambda batch: (type(batch), batch), num_workers=workers)
    assert list(loader) == [(list, [0, 1]), (list, [2, 3]), (list, [4])]


def test_an_iterable_data_set_is_batched_by_each_worker_in_turn():
    loader = DataLoader(Shards([3, 7]), batch_size=2, num_workers=2)
    assert [batch.tolist() for batch in loader] == [[0, 1], [100, 101], [2], [102, 103], [104, 105], [106]]
    dropped = DataLoader(Shards([3, 7]), batch_size=2, num_workers=2, drop_last=True)
    assert [batch.tolist() for batch in dropped] == [[0, 1], [100, 101], [102, 103], [104, 105]]


def test_iterable_data_sets_without_workers():
    assert [batch.tolist() for batch in DataLoader(Shards([5]), batch_size=2)] == [[0, 1], [2, 3], [4]]
    assert list(DataLoader(Shards([3]), batch_size=None)) == [0, 1, 2]
    assert [batch.tolist() for batch in DataLoader(Shards([5]), batch_size=2, drop_last=True)] == [[0, 1], [2, 3]]


def test_the_length_of_an_iterable_loader_comes_from_its_data_set():
    class Counted(Shards):
        def __len__(self):
            return 5

    assert len(DataLoader(Counted([5]), batch_size=2)) == 3
    assert len(DataLoader(Counted([5]), batch_size=2, drop_last=True)) == 2
    assert len(DataLoader(Counted([5]), batch_size=None)) == 5
    with pytest.raises(TypeError):
        len(DataLoader(Shards([5])))


def test_worker_init_fn_runs_once_in_each_worker_with_its_streams_seeded():
    class Remembered(Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, index):
            info = get_worker_info()
            return [info.id, info.num_workers, info.dataset.number, info.seed == info.dataset.seed]

    def init(worker):
        info = get_worker_info()
        info.dataset.number = 10 + worker
        info.dataset.seed = ex.initial_seed()

    loader = DataLoader(Remembered(), batch_size=None, num_workers=2, worker_init_fn=init)
    assert list(loader) == [[0, 2, 10, True], [1, 2, 11, True]] * 2
    assert get_worker_info() is None


def test_a_loader_pickles_and_copies_without_its_workers():
    loader = DataLoader(DATA, batch_size=8, num_workers=1, persistent_workers=True)
    expected = listed(loader)
    assert listed(pickle.loads(pickle.dumps(loader))) == expected
    assert listed(copy.copy(loader)) == expected


def test_empty_data_sets_give_no_batches():
    assert list(DataLoader([], batch_size=2)) == list(DataLoader([], batch_size=2, num_workers=1)) == []
    assert list(DataLoader([], shuffle=True)) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_workers": -1}, "num_workers"),
        ({"timeout": -1}, "timeout"),
        ({"prefetch_factor": 2}, "num_workers too"),
        ({"num_workers": 1, "prefetch_factor": 0}, "1 or more"),
        ({"persistent_workers": True}, "num_workers too"),
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": None, "drop_last": True}, "no last one"),
        ({"sampler": [0], "shuffle": True}, "not both"),
        ({"batch_sampler": [[0]], "batch_size": 4}, "decides alone"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        DataLoader(DATA, **options)


def test_an_iterable_data_set_has_its_own_order():
    for options in ({"shuffle": True}, {"sampler": [1]}, {"batch_sampler": [[1]]}):
        with pytest.raises(ValueError, match="its own order"):
            DataLoader(Shards([1]), **options)
    DataLoader(Shards([1]), shuffle=False)


def test_what_was_decided_cannot_be_changed():
    loader = DataLoader(DATA, batch_size=4)
    with pytest.raises(ValueError, match="make another one"):
        loader.batch_size = 8
    assert isinstance(loader.sampler, SequentialSampler)
    assert isinstance(loader.batch_sampler, BatchSampler)
