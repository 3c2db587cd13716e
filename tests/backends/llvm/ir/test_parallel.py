"""Jobs in parts: every part once, by whoever runs them; a single one without asking."""

import ctypes

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from extempo.backends.llvm.ir.builder import IRModule
from extempo.backends.llvm.ir.machine import Machine
from extempo.backends.llvm.ir.parallel import run_long, run_parts, run_shared
from extempo.backends.llvm.ir.types import i1, i64, ptr, void

PART = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)


@pytest.fixture
def runner(no_kernels_on_disk):
    """A machine whose threads run parts from the last to the first, and the numbers of parts they were asked for."""
    asked, own = [], Machine()

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    def backwards(part, context, n_parts):
        asked.append(n_parts)
        for i in reversed(range(n_parts)):
            PART(part)(context, i)

    own.offer("extempo_parallel", ctypes.cast(backwards, ctypes.c_void_p).value)
    own.keep = [backwards]
    return own, asked


def job(own, run):
    """A function of (context, n) whose parts each add one to a word of the context."""
    module = IRModule()
    with module.function("add_one", void, internal=True, context=ptr, i=i64) as b:
        words = b.pointer(b.arg("context"), i64)
        words[b.arg("i")] = words[b.arg("i")] + 1
    with module.function("start", void, context=ptr, n=i64) as b:
        run(b, "add_one", b.arg("context"), b.arg("n"))
    library = own.load(module.text(), ["start"], module.imports)
    return PART(library.address["start"])


@pytest.mark.parametrize("n", [0, 1, 2, 9])
def test_every_part_is_run_once(runner, n):
    own, asked = runner
    counts = np.zeros(12, np.int64)
    job(own, run_shared)(counts.ctypes.data, n)
    assert counts.tolist() == [1] * n + [0] * (12 - n)
    assert asked == [n]


def test_a_single_part_is_called_at_once(runner):
    own, asked = runner
    start, counts = job(own, run_parts), np.zeros(3, np.int64)
    start(counts.ctypes.data, 1)
    assert (counts.tolist(), asked) == ([1, 0, 0], [])
    start(counts.ctypes.data, 3)
    assert (counts.tolist(), asked) == ([2, 1, 1], [3])


def test_a_single_part_that_takes_long_is_run_by_itself(runner):
    own, asked = runner
    alone = []

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
    def long_part(part, context):
        alone.append(1)
        PART(part)(context, 0)

    own.offer("extempo_long_part", ctypes.cast(long_part, ctypes.c_void_p).value)
    own.keep.append(long_part)
    for is_long, n, by_itself, shared in [(True, 1, 1, []), (True, 2, 0, [2]), (False, 1, 0, [1])]:
        counts = np.zeros(3, np.int64)
        job(own, lambda b, part, context, n, is_long=is_long: run_long(b, part, context, n, b.const(i1, is_long)))(
            counts.ctypes.data, n
        )
        assert (counts.tolist(), sum(alone), asked) == ([1] * n + [0] * (3 - n), by_itself, shared)
        alone.clear()
        asked.clear()


def test_a_part_may_be_given_by_its_address(runner):
    own, asked = runner
    counts = np.zeros(4, np.int64)
    job(own, lambda b, part, context, n: run_shared(b, b.module.address_of(b, part), context, n))(counts.ctypes.data, 4)
    assert (counts.tolist(), asked) == ([1] * 4, [4])
