"""The door."""

from __future__ import annotations

import importlib.util

from extempo import distributed as dist


def test_one_process_is_always_available():
    assert dist.is_available()
    assert dist.is_mpi_available() == (importlib.util.find_spec("mpi4py") is not None)
