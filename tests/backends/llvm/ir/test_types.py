"""The types of LLVM values, and how constants of them are written."""

import threading

import pytest

pytest.importorskip("llvmlite")

from extempo.backends.llvm.ir import types
from extempo.backends.selection import native

from ..at_once import at_once

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)


@pytest.mark.alone
def test_a_vector_type_asked_for_by_two_threads_at_once_is_one_object(monkeypatch):
    meeting = threading.Barrier(2, timeout=10)

    def make(*fields, plain=types.Type):
        meeting.wait()
        return plain(*fields)

    monkeypatch.setattr(types, "Type", make)
    first, second = at_once(lambda: types.vector(types.f64, 37))
    assert first is second
