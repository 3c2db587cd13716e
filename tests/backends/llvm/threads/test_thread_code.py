"""The code of the pool: chunks are claimed once, helpers are woken where that pays, and jobs never mix."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time

import numpy as np
import pytest

pytest.importorskip("llvmlite")
if sys.platform == "win32":
    pytest.skip("native kernels do not support Windows yet", allow_module_level=True)

from extempo.backends.llvm.ir.builder import IRModule, i32, i64, ptr, void
from extempo.backends.llvm.ir.machine import machine
from extempo.backends.llvm.threads import pool as threads
from extempo.backends.llvm.threads.thread_words import call

from . import thread_probes as probes
from .programs import linux, output_of

pytestmark = pytest.mark.alone


# ---- chunks


@pytest.mark.parametrize("n_threads", [1, 2, 4])
def test_every_chunk_runs_once(eager, n_threads):
    eager.set_threads(n_threads)
    for n_chunks in (0, 1, 2, 3, 17, 1000, 65_535, 65_536, 65_537, 140_000):
        counts = probes.run(eager, "mark", n_chunks, size=n_chunks + 4)
        np.testing.assert_array_equal(counts, np.arange(n_chunks + 4) < n_chunks)


@pytest.mark.parametrize("watch", [0, 50_000])
@pytest.mark.parametrize("n_threads", [2, 5])
def test_thousands_of_small_jobs_never_mix(n_threads, watch):
    pool = probes.eager_pool(watch=watch)
    pool.set_threads(n_threads)
    assert probes.storm(pool, 3000, seed=n_threads) == 0
    assert pool.stats()["helped_chunks"] > 0
    pool.set_threads(1)


def test_a_chunk_may_run_a_job_of_its_own(eager):
    eager.set_threads(3)
    counts = np.zeros(40 * 5, np.int64)
    probes.run(eager, "nested", 40, eager.address["extempo_parallel"], counts.ctypes.data)
    assert (counts == 1).all()


@linux
def test_a_job_runs_where_no_thread_can_be_started():
    printed = output_of(
        "import resource\n"
        "pool = probes.eager_pool(); pool.set_threads(200)\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * 4096\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + 30_000_000, -1))\n"
        "print(probes.run(pool, 'mark', 9, size=9).sum(), pool.stats()['running'] < 10)\n"
    )
    assert printed == "9 True\n"


# ---- busy machines


def test_jobs_do_without_helpers_for_a_while_after_one_kept_the_caller_waiting():
    pool = probes.new_pool(threads.target()._replace(knows_cpu=False))
    pool.set_threads(2)
    deadline = time.monotonic() + 30
    while not pool.stats()["losses"]:  # until the helper gets hold of a chunk, which takes it 10 ms
        probes.run(pool, "linger", 2, threading.get_ident(), 10_000, 0)
        assert time.monotonic() < deadline
    shared = pool.stats()["shared_jobs"]
    probes.run(pool, "nap", 2, 1)
    assert pool.stats()["shared_jobs"] == shared
    while pool.stats()["shared_jobs"] == shared:
        probes.run(pool, "nap", 2, 1)
        assert time.monotonic() < deadline
    pool.set_threads(1)


@pytest.mark.skipif(threads.target().knows_cpu and len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_helpers_are_woken_for_a_job_that_is_worth_it(pool):
    pool.set_threads(2)
    deadline = time.monotonic() + 30
    while not probes.meet(pool):
        assert time.monotonic() < deadline


@linux
def test_helpers_that_have_only_the_callers_cpu_stay_out_of_its_way():
    printed = output_of(
        "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "pool = probes.new_pool(); pool.set_threads(3)\n"
        "for _ in range(100): probes.run(pool, 'nap', 4, 100)\n"
        "print(pool.stats()['helped_chunks'])\n"
    )
    assert int(printed) == 0


def test_a_long_part_runs_without_the_gil_and_gives_it_back(pool):
    module = IRModule()
    with module.function("holds_gil", void, context=ptr, chunk=i64) as b:
        b.pointer(b.arg("context"), i64)[0] = b.cast("sext", call(b, "PyGILState_Check", i32), i64)
    held = machine().load(module.text(), ["holds_gil"], module.imports)
    word = np.full(1, -1)
    run = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(pool.address["extempo_long_part"])
    run(held.address["holds_gil"], word.ctypes.data)
    assert word[0] == 0
    ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(held.address["holds_gil"])(word.ctypes.data, 0)
    assert word[0] == 1
