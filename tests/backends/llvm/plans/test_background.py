"""Kernels are compiled in the background: nobody waits, nothing is lost, and forks and exits are lived through."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

from extempo.backends.llvm.ir import disk
from extempo.backends.llvm.ir.builder import IRModule, i64
from extempo.backends.llvm.ir.machine import KERNEL, machine
from extempo.backends.llvm.plans import background
from extempo.backends.llvm.plans.background import CompileJob, settle
from extempo.backends.llvm.plans.clusters import ClusterKernel, known_kernel
from extempo.backends.llvm.plans.expressions import of_op
from extempo.backends.llvm.plans.sharing import Shared
from extempo.backends.selection import native
from extempo.core import costs
from extempo.core.op import REGISTRY
from extempo.core.types import TensorType, float32

pytestmark = pytest.mark.alone

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)


def kernel_of(*names):
    """One op after another."""
    expressions = [of_op(REGISTRY[name], (TensorType((), float32),), {}) for name in names]
    nodes = tuple((e, (-i,) if i else (0,)) for i, e in enumerate(expressions))
    return ClusterKernel(nodes, (float32,), (len(nodes) - 1,), "1")


def broken_kernel():
    kernel = kernel_of("neg")
    return kernel._replace(inputs=(float32,) * 99, kinds="1" * 99)


def wait_for(job):
    settle()
    assert job.ready()


def test_a_job_ends_with_its_kernels_there(no_kernels_on_disk):
    kernels = [kernel_of("exp", "neg", "exp"), kernel_of("exp", "neg", "neg", "exp")]
    assert [known_kernel(k) for k in kernels] == [None, None]
    job = CompileJob(kernels)
    wait_for(job)
    assert job.error is None
    assert all(known_kernel(k) for k in kernels)


def test_what_two_jobs_ask_for_is_compiled_once(no_kernels_on_disk):
    before = machine().compiled
    jobs = [CompileJob([kernel_of("sin", "neg", "neg")]) for _ in range(3)]
    for job in jobs:
        wait_for(job)
    assert machine().compiled == before + 1


def test_llvm_takes_time_for_what_nobody_else_asked_for_before():
    def write_two(module):
        with module.function("two", i64) as b:
            b.ret(2)

    kernels = [kernel_of("sin", "neg", "sin"), kernel_of("sin", "neg", "abs")]
    first = CompileJob(kernels[:1])
    second = CompileJob([*kernels, kernels[1]])
    assert (first.seconds, second.seconds) == (costs.KERNEL, costs.KERNEL)
    second.wait()
    assert CompileJob([Shared("two", write_two)]).seconds == costs.LIBRARY > costs.KERNEL


def test_a_job_is_waited_for(monkeypatch):
    may, done = threading.Event(), []
    monkeypatch.setattr(background, "cluster_kernel", lambda *arguments: done.append(may.wait(60)))
    kernel = kernel_of("cos", "neg", "neg")
    job = CompileJob([kernel, kernel])
    assert background.is_pending(kernel)
    threading.Timer(0.1, may.set).start()
    job.wait()
    assert done == [True]
    assert not background.is_pending(kernel)
    job.wait()  # there is nothing left to wait for


def test_code_that_says_the_same_is_compiled_once(no_kernels_on_disk):
    def write():
        module = IRModule()
        with module.function("number", i64) as b:
            b.ret(4711)
        return module

    before = machine().compiled
    first = machine().load(write().text(), ["number"], [])
    named = machine().load_as("a number", ["number"], write)
    assert machine().compiled == before + 1
    assert named.address == first.address
    assert machine().load_as("a number", ["number"], pytest.fail) is named
    key = disk.key_of(*machine()._identity, KERNEL, "made from", "a number")
    assert no_kernels_on_disk.get(key) is not None  # a later process finds it by what it was made from


def test_an_error_is_told_to_those_who_asked_for_that_kernel():
    good, bad = (
        CompileJob([kernel_of("neg", "abs", "neg")]),
        CompileJob([kernel_of("neg", "abs", "abs"), broken_kernel()]),
    )
    wait_for(good)
    wait_for(bad)
    assert good.error is None
    assert "99 inputs" in bad.error


def test_looking_for_a_kernel_does_not_wait_for_llvm():
    held, done = threading.Event(), threading.Event()

    def hold():
        with machine()._lock:
            held.set()
            done.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        began = time.perf_counter()
        assert known_kernel(kernel_of("cos", "neg", "cos")) is None
        assert time.perf_counter() - began < 5
    finally:
        done.set()
        thread.join()


def test_where_no_thread_can_be_started_kernels_are_compiled_at_once(monkeypatch, no_kernels_on_disk):
    def fail(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fail)
    monkeypatch.setattr(background, "_compilers", [background._Compiler()])
    kernel = kernel_of("tanh", "neg", "neg", "neg")
    assert CompileJob([kernel]).ready()
    assert known_kernel(kernel)


BEGIN = """
import os, sys, time
import extempo as ex
from extempo.backends.selection import native
native()
from extempo.backends.llvm.plans.background import CompileJob, settle
from extempo.backends.llvm.plans.clusters import ClusterKernel, known_kernel
from extempo.backends.llvm.plans.expressions import of_op
from extempo.core.op import REGISTRY
from extempo.core.types import TensorType, float32
tanh, neg = (of_op(REGISTRY[name], (TensorType((), float32),), {}) for name in ("tanh", "neg"))
def kernel(n):
    return ClusterKernel(((tanh, (0,)), *[(neg, (-1 - i,)) for i in range(n)]), (float32,), (n,), "1")
kernels = [kernel(n) for n in range(1, 21)]
job = CompileJob(kernels)
"""


def run(code, tmp_path):
    environment = {**os.environ, "EXTEMPO_CACHE_DIR": str(tmp_path / "kernels")}
    # From Python 3.12 on, a fork beside threads warns, whatever these do to prepare for it.
    command = [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", BEGIN + code]
    return subprocess.run(command, env=environment, capture_output=True, timeout=120)


def test_a_process_that_ends_while_kernels_are_compiled_ends_well(tmp_path):
    ended = run("", tmp_path)
    assert (ended.returncode, ended.stderr) == (0, b"")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_compiles_what_its_parent_had_not_finished(tmp_path):
    code = """
while not known_kernel(kernels[0]):
    time.sleep(0.001)
child = os.fork()
while not job.ready():
    time.sleep(0.001)
assert job.error is None and all(map(known_kernel, kernels))
if child == 0:
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
print("both")
"""
    ended = run(code, tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"both\n", b"")
