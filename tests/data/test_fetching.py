"""Fetchers: from what a sampler yields to a batch."""

from __future__ import annotations

import sys

import pytest

import extempo as ex
from extempo.data import (
    DataLoader,
    Dataset,
)
from extempo.data.fetching import Exhausted, IterableFetcher, MapFetcher
from extempo.errors import ExtempoError


class Batched:
    """A data set that reads several samples at once."""

    def __getitem__(self, index):
        raise AssertionError("one by one")

    def __getitems__(self, indices):
        return [-i for i in indices]


def test_a_list_of_indices_makes_a_batch_and_one_index_a_sample():
    letters = "abcdef"
    assert MapFetcher(letters, "".join, batched=True).fetch([4, 0]) == "ea"
    assert MapFetcher(letters, str.upper, batched=False).fetch(2) == "C"
    assert MapFetcher(letters, list, batched=True).fetch([]) == []


def test_a_data_set_that_can_is_asked_for_all_samples_at_once():
    assert MapFetcher(Batched(), tuple, batched=True).fetch([1, 2]) == (-1, -2)


def test_a_stop_iteration_does_not_pass_for_the_end_of_the_epoch():
    def stop(samples):
        raise StopIteration

    with pytest.raises(ExtempoError, match=r"str: StopIteration came out of the data set or collate_fn at \[0\]"):
        MapFetcher("a", stop, batched=True).fetch([0])


@pytest.mark.parametrize(("drop_last", "batches"), [(False, [[0, 1], [2, 3], [4]]), (True, [[0, 1], [2, 3]])])
def test_an_iterable_is_read_batch_by_batch_and_then_exhausted(drop_last, batches):
    fetcher = IterableFetcher(range(5), list, 2, drop_last)
    assert [fetcher.fetch(None) for _ in batches] == batches
    for _ in range(2):
        with pytest.raises(Exhausted):
            fetcher.fetch(None)


def test_without_a_batch_size_samples_come_alone():
    fetcher = IterableFetcher([7], float, None, False)
    assert fetcher.fetch(None) == 7.0
    with pytest.raises(Exhausted):
        fetcher.fetch(None)


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="classes of a test module reach workers by fork only")


@pytest.mark.parametrize("workers", [0, 1])
def test_a_stop_iteration_inside_of_a_data_set_does_not_end_the_epoch_in_silence(workers):
    class Stops(Dataset):
        def __len__(self):
            return 3

        def __getitem__(self, index):
            return next(iter([]))

    with pytest.raises(ex.errors.ExtempoError, match="StopIteration came out"):
        list(DataLoader(Stops(), num_workers=workers))
