"""Shared by the tests of files that are larger than what is read of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from extempo.data import DataLoader


def anonymous_memory():
    """Bytes of memory that no file backs: what the process itself holds, without the system's cache of mapped files."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


@pytest.fixture
def growth():
    """How far memory rises, in megabytes, when a data set is opened and read to the end."""
    if sys.platform != "linux":
        pytest.skip("reads /proc")

    def measure(open_dataset, **options):
        start = anonymous_memory()
        loader = DataLoader(open_dataset(), batch_size=64, **options)
        return (max(anonymous_memory() for _ in loader) - start) / 2**20

    return measure
