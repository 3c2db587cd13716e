"""Code that plans share: written once, compiled when it is first wanted."""

import pytest

pytest.importorskip("llvmlite")

from extempo.backends.llvm.ir.builder import i64
from extempo.backends.llvm.ir.machine import Machine
from extempo.backends.llvm.plans import sharing
from extempo.backends.llvm.plans.sharing import Shared


@pytest.fixture
def own_machine(monkeypatch, no_kernels_on_disk):
    made = Machine()
    monkeypatch.setattr(sharing, "machine", lambda: made)
    return made


def test_it_is_there_once_somebody_wanted_it_and_written_once(own_machine):
    written = []

    def write(module):
        written.append(1)
        with module.function("shared_answer", i64) as b:
            b.ret(1)

    first = Shared("shared_answer", write)
    assert not first.is_there()
    address = first.address()
    assert first.is_there()
    assert first.address() == address
    assert written == [1]
    # The same code is one, whoever shares it.
    assert Shared("shared_answer", write).address() == address


def test_what_is_on_disk_is_there_without_compiling(own_machine, monkeypatch):
    def write(module):
        with module.function("kept_answer", i64) as b:
            b.ret(2)

    Shared("kept_answer", write).address()
    later = Machine()
    monkeypatch.setattr(sharing, "machine", lambda: later)
    assert Shared("kept_answer", write).is_there()
    assert later.compiled == 0
