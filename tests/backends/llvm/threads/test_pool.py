"""Every chunk runs once, in time, whatever threads, processes and signals do meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("llvmlite")
if sys.platform == "win32":
    pytest.skip("native kernels do not support Windows yet", allow_module_level=True)

from extempo.backends.llvm.threads.pool import Pool

from . import thread_probes as probes
from .programs import linux, output_of, program

pytestmark = pytest.mark.alone


@pytest.fixture
def busy_cpus() -> Iterator[None]:
    """Other processes that want every CPU."""
    command = [sys.executable, "-c", "while True: pass"]
    processes = [subprocess.Popen(command) for _ in range(os.cpu_count() or 1)]
    time.sleep(0.2)
    yield
    for process in processes:
        process.kill()
        process.wait()


def test_helpers_run_chunks_at_the_same_time_as_the_caller(eager):
    eager.set_threads(2)
    assert probes.meet(eager)
    assert eager.stats()["helped_chunks"] == 1


def test_one_thread_is_the_callers(pool):
    pool.set_threads(1)
    assert probes.run(pool, "mark", 100, size=100).sum() == 100
    assert pool.stats() == {"running": 0, "shared_jobs": 0, "helped_chunks": 0, "losses": 0}


def test_jobs_never_mix_while_other_processes_take_the_cpus(eager, busy_cpus):
    eager.set_threads(3)
    assert probes.storm(eager, 1000) == 0
    assert eager.stats()["helped_chunks"] > 0


def test_jobs_of_several_python_threads_never_mix(eager):
    eager.set_threads(3)
    wrong: list[int] = []
    callers = [
        threading.Thread(target=lambda seed=seed: wrong.append(probes.storm(eager, 700, seed))) for seed in range(3)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert wrong == [0, 0, 0]


def test_jobs_never_mix_while_the_number_of_threads_changes(eager):
    wrong: list[int] = []
    caller = threading.Thread(target=lambda: wrong.append(probes.storm(eager, 2000)))
    caller.start()
    n_threads = 1
    while caller.is_alive():
        n_threads = n_threads % 4 + 1
        eager.set_threads(n_threads)
        time.sleep(0.002)
    caller.join()
    assert wrong == [0]


# ---- threads come and go


@linux
def test_threads_start_with_the_first_job_that_can_use_them_and_end_when_they_are_too_many():
    pool = probes.eager_pool()
    before = probes.n_tasks()
    pool.set_threads(4)
    probes.run(pool, "mark", 1, size=1)
    assert probes.n_tasks() == before
    probes.run(pool, "mark", 2, size=2)
    assert probes.n_tasks() == before + 3
    pool.set_threads(2)
    assert probes.n_tasks() == before
    assert probes.meet(pool)
    assert probes.n_tasks() == before + 1
    pool.set_threads(1)
    assert probes.n_tasks() == before


@linux
def test_a_helper_leaves_signals_to_python_but_not_its_own_faults():
    pool = probes.eager_pool()
    pool.set_threads(2)
    before = set(os.listdir("/proc/self/task"))
    assert probes.meet(pool)
    (helper,) = set(os.listdir("/proc/self/task")) - before
    status = Path(f"/proc/self/task/{helper}/status").read_text()
    blocked = int(next(line for line in status.splitlines() if line.startswith("SigBlk")).split()[1], 16)
    assert blocked >> (signal.SIGINT - 1) & 1
    assert not blocked >> (signal.SIGSEGV - 1) & 1
    pool.set_threads(1)


def test_set_num_threads_reaches_the_pool_of_the_process():
    printed = output_of(
        "pool = threads.install(); assert threads.install() is pool\n"
        "probes.run(pool, 'nap', 2, 100); print(pool.stats()['running'])\n"
        "ex.set_num_threads(2); probes.run(pool, 'nap', 2, 100); print(pool.stats()['running'])\n"
        "ex.set_num_threads(1); probes.run(pool, 'nap', 2, 100); print(pool.stats()['running'])\n"
    )
    assert printed.split() == ["2", "1", "0"]


def median_time(pool: Pool, n_threads: int, n_jobs: int) -> float:
    pool.set_threads(n_threads)
    times = []
    for _ in range(n_jobs):
        begin = time.perf_counter()
        probes.run(pool, "work", 8, 50_000, size=9)
        times.append(time.perf_counter() - begin)
    return float(np.median(times))


def test_threads_cost_little_while_other_processes_take_the_cpus(pool, busy_cpus):
    median_time(pool, 2, 20)
    ratios = []
    for _ in range(5):
        alone = median_time(pool, 1, 60)
        ratios.append(median_time(pool, 2, 60) / alone)
    assert min(ratios) < 1.1


# ---- Python


def test_other_python_threads_run_during_a_long_job(pool):
    turns = 0
    ended = threading.Event()

    def count() -> None:
        nonlocal turns
        while not ended.wait(0.001):
            turns += 1

    counter = threading.Thread(target=count)
    counter.start()
    for n_threads in (1, 2):
        pool.set_threads(n_threads)
        before = turns
        probes.run(pool, "nap", 30, 10_000)
        assert turns > before + 5
    ended.set()
    counter.join()


def test_ctrl_c_ends_a_program_that_runs_jobs():
    started = program(
        "pool = probes.eager_pool(); pool.set_threads(3); assert probes.meet(pool)\n"
        "print('go', flush=True)\n"
        "while True: probes.run(pool, 'nap', 6, 1000)\n"
    )
    assert started.stdout.readline() == "go\n"
    time.sleep(0.1)
    started.send_signal(signal.SIGINT)
    _, complaints = started.communicate(timeout=30)
    assert "KeyboardInterrupt" in complaints
    assert started.returncode in (-signal.SIGINT, 128 + signal.SIGINT)


# ---- fork and exit


@linux
def test_a_forked_child_has_no_helpers_until_it_needs_them_and_the_parent_goes_on():
    printed = output_of(
        "pool = probes.eager_pool(); pool.serve(); assert probes.meet(pool)\n"
        "for _ in range(20):\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        alone = probes.n_tasks() == 0\n"
        "        os._exit(0 if alone and probes.meet(pool) and probes.storm(pool, 50) == 0 else 1)\n"
        "    assert probes.meet(pool)\n"
        "    assert os.waitpid(child, 0)[1] == 0\n"
        "print('fine')\n"
    )
    assert printed == "fine\n"


def test_fork_amid_the_jobs_of_another_thread():
    printed = output_of(
        "import warnings; warnings.simplefilter('ignore')\n"  # Python's, of a fork beside a Python thread
        "pool = probes.eager_pool(); pool.serve(); wrong = []\n"
        "caller = threading.Thread(target=lambda: wrong.append(probes.storm(pool, 4000))); caller.start()\n"
        "n_forks = 0\n"
        "while caller.is_alive() or n_forks < 5:\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        os._exit(probes.storm(pool, 20) != 0)\n"
        "    assert os.waitpid(child, 0)[1] == 0\n"
        "    n_forks += 1\n"
        "caller.join()\n"
        "print(wrong)\n"
    )
    assert printed == "[0]\n"


def test_the_number_of_threads_can_be_set_in_a_hook_of_fork():
    printed = output_of(
        "one = lambda: ex.set_num_threads(1)\n"
        "os.register_at_fork(before=one, after_in_parent=one, after_in_child=one)\n"
        "pool = probes.eager_pool(); pool.serve(); assert probes.meet(pool)\n"
        "os.register_at_fork(before=one, after_in_parent=one, after_in_child=one)\n"
        "child = os.fork()\n"
        "probes.run(pool, 'mark', 2, size=2)\n"
        "if child == 0: os._exit(pool.stats()['running'])\n"
        "print(os.waitpid(child, 0)[1], pool.stats()['running'])\n"
    )
    assert printed == "0 0\n"


@linux
def test_a_fork_that_python_does_not_know_of_leaves_a_child_that_works_and_ends():
    printed = output_of(
        "import ctypes\n"
        "pool = probes.eager_pool(); pool.serve(); assert probes.meet(pool)\n"
        "child = ctypes.PyDLL(None).fork()\n"
        "if child == 0:\n"
        "    wrong = probes.storm(pool, 100)\n"
        "    pool.set_threads(1)\n"
        "    os._exit(wrong)\n"
        "print(os.waitpid(child, 0)[1])\n"
    )
    assert printed == "0\n"


@pytest.mark.parametrize("helpers", ["asleep", "watching"])
def test_a_program_with_helpers_ends_quietly(helpers):
    pause = "time.sleep(0.1)" if helpers == "asleep" else "pass"
    text = f"pool = probes.eager_pool(); pool.serve(); assert probes.meet(pool); {pause}; print('bye')"
    assert output_of(text) == "bye\n"


def test_a_program_ends_quietly_while_a_daemon_thread_runs_jobs():
    text = (
        "pool = probes.eager_pool(); pool.serve()\n"
        "def jobs():\n"
        "    while True: probes.run(pool, 'nap', 6, 300)\n"
        "def storms():\n"
        "    while True: probes.storm(pool, 10)\n"
        "for f in (jobs, storms): threading.Thread(target=f, daemon=True).start()\n"
        "time.sleep(0.1); print('bye')"
    )
    for _ in range(3):
        assert output_of(text) == "bye\n"


def test_a_job_at_exit_runs_alone():
    printed = output_of(
        "import atexit\n"
        "def last(): print(probes.run(pool, 'mark', 9, size=9).sum(), pool.stats()['running'])\n"
        "atexit.register(last)\n"
        "pool = probes.eager_pool(); pool.serve(); assert probes.meet(pool)\n"
    )
    assert printed == "9 0\n"
