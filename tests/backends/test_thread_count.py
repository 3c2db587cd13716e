"""How many threads a kernel may use: what was chosen, the environment, cores and containers."""

from __future__ import annotations

import os
import sys

import pytest

from extempo.backends import thread_count

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_the_number_is_that_of_the_environment(monkeypatch):
    for name in thread_count.ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    cores = thread_count.available()
    assert 1 <= cores <= (os.cpu_count() or 1)
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert thread_count.available() == 7
    monkeypatch.setenv("EXTEMPO_NUM_THREADS", "3")
    assert thread_count.available() == 3
    monkeypatch.setenv("EXTEMPO_NUM_THREADS", "many")
    assert thread_count.available() == 7


@linux
def test_cpus_of_one_core_and_the_limit_of_a_container_count(monkeypatch):
    for name in thread_count.ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    files = {f"/sys/devices/system/cpu/cpu{i}/topology/thread_siblings_list": f"{i % 4},{i % 4 + 4}" for i in range(8)}

    def read(path: str) -> str:
        if path not in files:
            raise FileNotFoundError(path)
        return files[path]

    monkeypatch.setattr(thread_count, "_read", read)
    assert thread_count.available() == 4
    files["/sys/fs/cgroup/cpu.max"] = "max 100000"
    assert thread_count.available() == 4
    files["/sys/fs/cgroup/cpu.max"] = "150000 100000"
    assert thread_count.available() == 2
    files.clear()
    assert thread_count.available() == 8
