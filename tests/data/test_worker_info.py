"""Which worker process this is."""

from __future__ import annotations

import pytest

from extempo.data import DataLoader, IterableDataset, WorkerInfo, worker_info
from extempo.data.worker_info import announce, get_worker_info


@pytest.fixture
def _main_process(monkeypatch):
    monkeypatch.setattr(worker_info, "_info", None)


@pytest.mark.usefixtures("_main_process")
def test_a_process_is_a_worker_once_it_was_announced():
    assert get_worker_info() is None
    worker_info.announce(1, 4, 7, "abcdefgh")
    info = get_worker_info()
    assert info == WorkerInfo(id=1, num_workers=4, seed=7, dataset="abcdefgh")
    assert info.dataset[info.id :: info.num_workers] == "bf"


class Share(IterableDataset):
    """Each worker yields its number and how many there are."""

    def __iter__(self):
        info = get_worker_info()
        yield (-1, 0) if info is None else (info.id, info.num_workers)


@pytest.mark.parametrize(("n_workers", "expected"), [(0, [[-1, 0]]), (2, [[0, 2], [1, 2]])])
def test_a_data_set_learns_which_part_is_its_own(n_workers, expected):
    assert list(DataLoader(Share(), batch_size=None, num_workers=n_workers)) == expected
    assert get_worker_info() is None


@pytest.fixture
def in_a_worker(monkeypatch):
    monkeypatch.setattr(worker_info, "_info", None)


def test_the_main_process_is_no_worker():
    assert get_worker_info() is None


@pytest.mark.usefixtures("in_a_worker")
def test_a_worker_knows_its_part_of_the_data():
    announce(1, 3, seed=7, dataset=list(range(8)))
    info = get_worker_info()
    assert (info.id, info.num_workers, info.seed) == (1, 3, 7)
    assert info.dataset[info.id :: info.num_workers] == [1, 4, 7]
