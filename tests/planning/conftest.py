"""A disk cache of a test's own."""

import pytest


@pytest.fixture
def no_kernels_on_disk(tmp_path, monkeypatch):
    """Begin with an empty directory of kernels; returns the cache on it."""
    disk = pytest.importorskip("extempo.backends.llvm.ir.disk")
    cache = disk.DiskCache(tmp_path / "kernels")
    monkeypatch.setitem(disk._DEFAULT, "cache", cache)
    return cache
