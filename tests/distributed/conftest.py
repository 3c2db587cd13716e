"""Programs that run as several processes, each with a deadline after which it fails instead of hanging."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from extempo import distributed as dist
from extempo.distributed import launcher
from extempo.errors import DistributedError


@pytest.fixture
def alone():
    """A group of one process."""
    dist.init_process_group()
    yield
    dist.destroy_process_group()


@pytest.fixture
def start_ranks(tmp_path):
    """start(program, n, *options) -> the launcher's process; whatever is left of it at the end is killed."""
    if importlib.util.find_spec("mpi4py") is None:
        pytest.skip("mpi4py is not installed: pip install 'extempo[mpi]'")
    try:
        launcher.find_mpirun()
    except DistributedError as error:
        pytest.skip(str(error))
    started = []

    def start(program: str, n: int = 2, *options: str, args: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        path = tmp_path / f"program_{len(started)}.py"
        path.write_text(textwrap.dedent(program))
        command = [sys.executable, "-m", "extempo", "launch", "-n", str(n), *options, str(path), *args]
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


@pytest.fixture
def run_ranks(start_ranks):
    """run(program, n, *options) -> (exit status, what ranks printed by rank, stderr)."""

    def run(program: str, n: int = 2, *options: str, args: tuple[str, ...] = (), seconds: float = 120):
        process = start_ranks(program, n, *options, args=args)
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=30)
            pytest.fail(f"not done within {seconds} s\n{out[-2000:]}\n{err[-4000:]}")
        by_rank: list[list[str]] = [[] for _ in range(n)]
        for line in out.splitlines():
            number, _, text = line.partition("] ")
            by_rank[int(number[1:])].append(text)
        return process.returncode, by_rank, err

    return run
