"""Digests of source files: those that may have changed are not relied on."""

from __future__ import annotations

import os
import time

import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

from extempo.backends.llvm.ir import sources
from extempo.backends.selection import native

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)


@pytest.fixture(autouse=True)
def sure(monkeypatch):
    """Files count as older than this process, however recently they were edited."""
    monkeypatch.setattr(sources, "_loaded_at", [time.time() + 1e6])
    monkeypatch.setattr(sources, "_digests", {})


def test_a_file_that_may_have_changed_since_it_was_loaded_is_not_relied_on(monkeypatch, tmp_path):
    file = tmp_path / "emitter.py"
    file.write_text("one")
    first = sources.digest(file)
    sources._digests.clear()
    file.write_text("two")
    assert None not in (first, sources.digest(file))
    assert sources.digest(file) != first
    monkeypatch.setattr(sources, "_loaded_at", [os.stat(file).st_mtime])
    sources._digests.clear()
    assert sources.digest(file) is None
