"""The library that all plans share: its instructions, and that it need not be waited for twice."""

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from extempo.backends.llvm.ir.machine import Machine
from extempo.backends.llvm.plans import runtime
from extempo.backends.selection import native

from ..guarded import Guarded, run_address

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 33])
def test_zero_and_copy_touch_so_many_bytes_and_no_more(n):
    out, source = Guarded((n,), np.uint8), np.arange(n, dtype=np.uint8)
    out.array[...] = 7
    assert run_address(runtime.runtime()["plan_zero"], [out.array], (n,)) == 0
    assert not out.array.any()
    assert run_address(runtime.runtime()["plan_copy"], [out.array, source], (n,)) == 0
    np.testing.assert_array_equal(out.array, source)
    out.check()


def test_it_is_loaded_once_and_later_processes_find_it_on_disk(monkeypatch, no_kernels_on_disk):
    symbols = runtime.machine()._symbols  # the functions that the library calls
    for n_compiled in (1, 0):
        own = Machine()
        own._symbols.update(symbols)
        monkeypatch.setattr(runtime, "machine", lambda own=own: own)
        monkeypatch.setattr(runtime, "_libraries", [])
        addresses = runtime.runtime()
        assert runtime.runtime() is addresses
        assert set(addresses) == {"extempo_plan_run", "plan_rows", "plan_zero", "plan_copy"}
        assert own.compiled == n_compiled
