"""The MPI engine; what it carries is in test_collectives.py."""

from __future__ import annotations

import sys

import pytest

from extempo.distributed import mpi
from extempo.errors import DistributedError


def test_a_launcher_is_known_by_what_it_leaves_in_the_environment(monkeypatch):
    for sign in mpi._SIGNS:
        monkeypatch.delenv(sign, raising=False)
    assert not mpi.is_started_by_mpi()
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    assert mpi.is_started_by_mpi()


def test_without_mpi4py_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(DistributedError, match=r"extempo\[mpi\]"):
        mpi.load()
