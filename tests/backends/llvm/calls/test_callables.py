"""Python functions on native code."""

import ctypes
import threading

import pytest

pytest.importorskip("llvmlite")

from extempo.backends.llvm.calls import callables
from extempo.backends.selection import native

from ..at_once import at_once

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)


@pytest.mark.alone
def test_functions_made_by_two_threads_at_once_share_one_definition(monkeypatch):
    meeting = threading.Barrier(2, timeout=10)

    def define(*fields, plain=callables._MethodDef):
        meeting.wait()
        return plain(*fields)

    monkeypatch.setattr(callables, "_MethodDef", define)
    address = native().runtime.address["extempo_elementwise_call"]
    made = at_once(lambda: callables.function("made twice", address, (bytearray(8), None)))
    kept = callables._definitions["made twice", address, False][0]
    # struct PyCFunctionObject: the definition comes first, and is not kept alive by it.
    assert [ctypes.c_void_p.from_address(id(fn) + object.__basicsize__).value for fn in made] == [kept, kept]
