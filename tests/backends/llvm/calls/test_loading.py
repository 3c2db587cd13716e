"""The code of calls is found on disk, and written only where it is not."""

from __future__ import annotations

import time

import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

from extempo.backends.llvm.calls import loading
from extempo.backends.llvm.ir import sources
from extempo.backends.llvm.ir.builder import i64
from extempo.backends.llvm.ir.machine import machine
from extempo.backends.selection import native

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)


@pytest.fixture(autouse=True)
def sure(monkeypatch):
    """Files count as older than this process, however recently they were edited."""
    monkeypatch.setattr(sources, "_loaded_at", [time.time() + 1e6])
    monkeypatch.setattr(sources, "_digests", {})


def forget(monkeypatch):
    """As in a new process."""
    monkeypatch.setattr(machine(), "_libraries", {})


def test_the_code_of_calls_is_found_on_disk_without_being_written(monkeypatch, no_kernels_on_disk):
    def write(module):
        with module.function("extempo_answer", i64) as b:
            b.ret(42)

    def not_again(module):
        raise AssertionError("it is on disk")

    monkeypatch.setattr(loading, "_digest", [])
    forget(monkeypatch)
    loading.load_calls(write, ["extempo_answer"], "one fact")
    forget(monkeypatch)
    assert loading.load_calls(not_again, ["extempo_answer"], "one fact").address["extempo_answer"]
    with pytest.raises(AssertionError):
        loading.load_calls(not_again, ["extempo_answer"], "another fact")
    monkeypatch.setattr(loading, "_digest", [None])  # files have changed since they were loaded
    with pytest.raises(AssertionError):
        loading.load_calls(not_again, ["extempo_answer"], "one fact")
