"""Worker processes seen from the main process: their context, their answers, their ends."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys

import pytest

from extempo.data import (
    DataLoader,
    Dataset,
)
from extempo.data.fetching import MapFetcher
from extempo.data.pool import WorkerPool, resolve_context
from extempo.data.workers import INTERRUPTED, Job

from .sets import DATA, listed


def make_fetcher():
    return MapFetcher("abcdef", "".join, batched=True)


@pytest.fixture
def pool():
    made = WorkerPool(Job("abcdef", make_fetcher, None, 2, os.getpid()), resolve_context(None))
    yield made
    made.close()


def answers(pool):
    return [(worker, label.number, value) for worker, label, value in pool.collect(20.0) if pool.is_current(label)]


def test_the_context_is_that_of_a_name_or_the_safe_one():
    assert resolve_context("spawn").get_start_method() == "spawn"
    own = multiprocessing.get_context("spawn")
    assert resolve_context(own) is own
    if sys.platform == "linux":
        assert resolve_context(None).get_start_method() == "fork"
    with pytest.raises(ValueError, match="cannot find context"):
        resolve_context("teleport")


def test_a_worker_answers_the_tasks_that_it_was_assigned(pool):
    pool.begin(0)
    pool.assign(1, 0, [2, 3])
    assert pool.workers[1].n_waiting == 1
    assert answers(pool) == [(1, 0, "cd")]
    assert pool.workers[1].n_waiting == 0
    assert list(pool.collect(0.0)) == []  # nobody has anything to do


def test_answers_of_an_earlier_epoch_are_dropped(pool):
    pool.begin(0)
    pool.assign(0, 0, [0])
    assert pool.workers[0].connection.poll(20.0)
    pool.begin(1)
    pool.assign(0, 0, [5])
    found = []
    while not found:
        found = answers(pool)
    assert found == [(0, 0, "f")]


def test_closing_ends_the_workers_and_may_be_repeated(pool):
    processes = [worker.process for worker in pool.workers]
    assert pool.is_usable()
    pool.close()
    pool.close()
    assert not pool.is_usable()
    assert not any(process.is_alive() for process in processes)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (None, "closed its connection"),
        (0, "ended by itself with exit code 0"),
        (INTERRUPTED, "was interrupted by Ctrl-C"),
        (-signal.SIGSEGV, "was killed by SIGSEGV; run with num_workers=0"),
        (-signal.SIGKILL, "was killed by SIGKILL; the system may be out of memory"),
    ],
)
def test_the_end_of_a_worker_is_explained_by_its_exit_code(pool, monkeypatch, code, message):
    class Ended:
        pid, exitcode = 17, code

        def join(self, seconds=None):
            """It is gone already."""

        def is_alive(self):
            return False

    monkeypatch.setattr(pool.workers[0], "process", Ended())
    assert message in str(pool._death(0))
    assert "worker 0 (pid 17)" in str(pool._death(0))
    monkeypatch.undo()


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="classes of a test module reach workers by fork only")


class Pid(Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, index):
        import os

        return os.getpid()


def test_persistent_workers_serve_the_next_epoch_even_after_a_break():
    loader = DataLoader(Pid(), batch_size=2, num_workers=2, persistent_workers=True)
    first = {pid for batch in loader for pid in batch.tolist()}
    for _batch in loader:
        break
    batches = [batch.tolist() for batch in loader]
    assert {pid for batch in batches for pid in batch} == first
    assert len(batches) == 20
    fresh = DataLoader(Pid(), batch_size=2, num_workers=2)
    assert {pid for batch in fresh for pid in batch.tolist()} != {pid for batch in fresh for pid in batch.tolist()}


def test_other_contexts_and_boilerplate_are_accepted():
    import multiprocessing

    for context in ("forkserver", multiprocessing.get_context("fork")):
        loader = DataLoader(
            DATA,
            batch_size=8,
            num_workers=1,
            multiprocessing_context=context,
            pin_memory=True,
            pin_memory_device="cuda",
        )
        assert listed(loader) == listed(DataLoader(DATA, batch_size=8))
