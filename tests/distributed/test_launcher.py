"""The launcher: status, last line, interrupts, nothing left behind."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from extempo.distributed import launcher

ENDING = """
    import os, sys, time
    import extempo as ex
    from extempo import distributed as dist
    dist.init_process_group()
    how, x = sys.argv[1], ex.ones(3)
    print("pid", os.getpid(), flush=True)
    for i in range(10**9 if how == "for ever" else 30):
        if i == 10 and dist.get_rank() == 1:
            if how == "kill":
                os.kill(os.getpid(), 9)
            if how == "raise":
                raise ValueError("of its own")
            if how == "exit":
                sys.exit(3)
        dist.all_reduce(x)
        x /= dist.get_world_size()
    print("done", x.tolist(), dist.get_world_size())
"""


def test_the_command_names_what_open_mpi_needs(monkeypatch):
    monkeypatch.setattr(launcher, "find_mpirun", lambda: "mpirun")
    made = launcher.command("train.py", ["--lr", "1"], 4, None, True, False)
    assert made[:3] == ["mpirun", "-n", "4"]
    assert "ulfm" in made
    assert made[-3:] == ["train.py", "--lr", "1"]
    assert "a:2,b:2" in launcher.command("train.py", [], 4, "a:2,b:2", False, False)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    found = launcher.environment(4, None, None)
    assert (found["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"], found["OMP_NUM_THREADS"]) == ("1", "2")
    assert launcher.environment(4, None, 3)["OMP_NUM_THREADS"] == "3"
    assert found[launcher.JOB] != launcher.environment(4, None, None)[launcher.JOB]


@pytest.mark.alone
@pytest.mark.parametrize(
    ("how", "status", "last"),
    [
        ("end", 0, ""),
        ("kill", 137, "extempo launch: rank 1 is lost: killed by SIGKILL; the job has ended"),
        ("raise", 1, "extempo launch: rank 1 failed; the job has ended"),
        ("exit", 1, "failed"),
    ],
)
def test_the_last_line_names_the_rank_and_the_status_says_so(run_ranks, how, status, last):
    began = time.monotonic()
    found, printed, errors = run_ranks(ENDING, 2, args=(how,))
    assert found == status, errors
    assert last in (errors.splitlines() or [""])[-1]
    if how == "end":
        assert printed[0][-1] == printed[1][-1] == "done [1.0, 1.0, 1.0] 2"
    if how == "raise":
        assert "ValueError: of its own" in errors
    assert time.monotonic() - began < 60


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.alone
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_orphan_is_left_when_the_launcher_is_ended_and_other_jobs_go_on(start_ranks, number):
    ended, other = (start_ranks(ENDING, 2, args=("for ever",)) for _ in range(2))
    pids = [[int(process.stdout.readline().rpartition(" ")[2]) for _ in range(2)] for process in (ended, other)]
    ended.send_signal(number)
    ended.communicate(timeout=60)
    deadline = time.monotonic() + 30
    while any(map(is_running, pids[0])) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(is_running, pids[0]))
    if number == signal.SIGINT:
        assert ended.returncode == 130
    assert all(map(is_running, pids[1]))
    other.send_signal(signal.SIGTERM)
    other.communicate(timeout=60)
    assert not any(map(is_running, pids[1]))
