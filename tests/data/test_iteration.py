"""One epoch: whose turn it is, how far workers are ahead, and what ends it."""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace

import pytest

import extempo as ex
from extempo.data import (
    DataLoader,
    Dataset,
)
from extempo.data.fetching import IterableFetcher, MapFetcher
from extempo.data.iteration import SerialIterator, WorkerIterator
from extempo.errors import ExtempoError

from .sets import DATA, Shards, listed


class Pool:
    """Workers that answer in the order in which a test says, and note what they were given."""

    def __init__(self, n_workers: int, answer=lambda task: ("batch", task)) -> None:
        self.workers = [SimpleNamespace(n_waiting=0) for _ in range(n_workers)]
        self.tasks: list[tuple[int, int, object]] = []
        self.waiting: list[tuple[int, int, object]] = []
        self.closed = False
        self.answer = answer

    def begin(self, base_seed):
        self.seed = base_seed

    def assign(self, worker, number, index):
        self.tasks.append((worker, number, index))
        self.waiting.append((worker, number, index))
        self.workers[worker].n_waiting += 1

    def collect(self, timeout):
        if self.waiting and timeout is None:
            worker, number, index = self.waiting.pop()  # the latest first
            self.workers[worker].n_waiting -= 1
            outcome, value = self.answer(index)
            yield worker, SimpleNamespace(number=number, outcome=outcome), value

    def is_current(self, label):
        return True

    def close(self):
        self.closed = True


def epoch(pool, indices, *, in_order=True, prefetch=2, timeout=0.0, released=None):
    released = [] if released is None else released
    return WorkerIterator(
        pool, released.append, iter(indices), 7, prefetch=prefetch, timeout=timeout, in_order=in_order
    )


def test_a_serial_epoch_ends_with_its_indices_or_its_data():
    assert list(SerialIterator(iter([0, 2]), MapFetcher("abc", str, False))) == ["a", "c"]
    endless = iter(lambda: None, 1)
    assert list(SerialIterator(endless, IterableFetcher(range(3), list, 2, False))) == [[0, 1], [2]]


def test_batches_come_in_order_whatever_arrives_first():
    pool, released = Pool(2), []
    assert list(epoch(pool, range(7), released=released)) == list(range(7))
    assert [worker for worker, _, _ in pool.tasks] == [0, 1, 0, 1, 0, 1, 0]
    assert released == [pool]
    assert (pool.seed, pool.closed) == (7, False)


def test_out_of_order_batches_come_as_they_arrive():
    assert list(epoch(Pool(2), range(4), in_order=False)) == [3, 2, 1, 0]


def test_workers_are_kept_so_many_batches_ahead_and_no_more():
    pool = Pool(3)
    running = epoch(pool, range(100), prefetch=2)
    assert len(pool.tasks) == 6
    next(running)
    assert len(pool.tasks) == 7


def test_a_worker_whose_data_is_exhausted_gets_no_more_tasks():
    pool = Pool(2, lambda index: ("exhausted", None) if index in (0, 5) else ("batch", index))
    assert list(epoch(pool, range(50), prefetch=1)) == [1, 2, 3, 4]
    assert {worker for worker, number, _ in pool.tasks if number > 1} == {1}


def test_a_failure_is_raised_and_ends_the_workers_and_the_epoch():
    failure = SimpleNamespace(exception=lambda: ValueError("in the worker"))
    pool = Pool(1, lambda index: ("failure", failure))
    running = epoch(pool, range(3))
    with pytest.raises(ValueError, match="in the worker"):
        next(running)
    assert pool.closed
    with pytest.raises(ExtempoError, match="ended with an error"):
        next(running)


def test_workers_that_say_nothing_in_time_are_an_error():
    with pytest.raises(ExtempoError, match=r"no batch came from the workers within timeout=5\.0 seconds"):
        next(epoch(Pool(1), range(3), timeout=5.0))


def test_an_epoch_without_batches_is_over_at_once():
    released = []
    assert list(epoch(Pool(2), [], released=released)) == []
    assert len(released) == 1


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="classes of a test module reach workers by fork only")


@pytest.mark.parametrize("persistent", [False, True])
def test_several_epochs_of_one_loader_may_run_at_once(persistent):
    loader = DataLoader(range(6), batch_size=2, num_workers=2, persistent_workers=persistent)
    pairs = [(a.tolist(), b.tolist()) for a in loader for b in loader]
    batches = [[0, 1], [2, 3], [4, 5]]
    assert pairs == [(a, b) for a in batches for b in batches]


@pytest.mark.alone
def test_out_of_order_batches_come_as_they_are_ready():
    class SlowFirst(Dataset):
        def __len__(self):
            return 6

        def __getitem__(self, index):
            time.sleep(0.5 if index == 0 else 0.0)
            return index

    loader = DataLoader(SlowFirst(), batch_size=None, num_workers=2, in_order=False)
    order = list(loader)
    assert sorted(order) == list(range(6))
    assert order[0] != 0


@pytest.mark.alone
def test_the_order_of_iterable_shards_does_not_depend_on_who_is_fast():
    slow = DataLoader(Shards([2, 6, 4], delay=0.03), batch_size=1, num_workers=3, prefetch_factor=2)
    fast = DataLoader(Shards([2, 6, 4]), batch_size=1, num_workers=3, prefetch_factor=2)
    assert [batch.tolist() for batch in slow] == [batch.tolist() for batch in fast]


def test_draws_during_an_epoch_change_nothing_of_it():
    ex.manual_seed(3)
    quiet = listed(DataLoader(DATA, batch_size=3, shuffle=True))
    ex.manual_seed(3)
    epoch = iter(DataLoader(DATA, batch_size=3, shuffle=True))
    ex.rand(5)
    assert listed(epoch) == quiet
