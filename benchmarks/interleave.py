"""Workloads in, times out: one process per peer, asked in turn for a block of steps, round after round.

A machine that is slow for some seconds slows all peers alike, so ratios within a run can be trusted where times cannot.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from worker import library_of
from workload import THREADS, Workload

ANSWER_WITHIN_S = 300
COMPILED = "extempo compiled"  # the peer whose recorded ops are counted
TOLERANCE = 2e-3  # of losses, relative to the larger of 1 and the loss: float32 and some steps of training

THREAD_COUNTS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUM_CPU_THREADS", THREADS)


def with_threads(count: int) -> dict[str, str]:
    """Variables of the environment that let every library have so many threads."""
    many = "true" if count > 1 else "false"
    return {
        **dict.fromkeys(THREAD_COUNTS, str(count)),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": f"--xla_cpu_multi_thread_eigen={many} intra_op_parallelism_threads={count}",
    }


ONE_THREAD = with_threads(1)


@dataclass
class Result:
    """What one peer did in one workload. Times are milliseconds per step, one per round."""

    peer: str
    version: str = ""
    times: list[float] = field(default_factory=list)
    apart: list[float] = field(default_factory=list)  # what is not in these times: a simulator, for instance
    first_block: float = 0.0
    losses: list[float] = field(default_factory=list)
    backend: str = ""  # Extempo's: "native" or "numpy"
    fallbacks: dict[str, float] = field(default_factory=dict)  # NumPy kernels that a native backend ran per step, by op
    n_recorded: int = 0  # ops that ex.compile recorded per step; 0 where that was not asked for
    error: str = ""

    @property
    def minimum(self) -> float:
        return min(self.times)

    @property
    def median(self) -> float:
        return statistics.median(self.times)

    def agrees_with(self, other: Result) -> bool:
        pairs = zip(self.losses, other.losses, strict=True)
        return all(abs(a - b) <= TOLERANCE * max(1.0, abs(b)) for a, b in pairs)


def interpreter_of(peer: str) -> str:
    """This one, unless EXTEMPO_BENCH_PYTHON_JAX (or _TORCH, _DYNET, ...) names another."""
    return os.environ.get("EXTEMPO_BENCH_PYTHON_" + library_of(peer).upper(), sys.executable)


def environment(cache: str, threads: int) -> dict[str, str]:
    """As many threads everywhere; compilers find empty caches, so that warm-up is what a first run costs."""
    names = ("EXTEMPO_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "XDG_CACHE_HOME")
    return {**os.environ, **with_threads(threads), **{name: f"{cache}/{name.lower()}" for name in names}}


class PeerProcess:
    """A worker and the pipe to it. After an error it answers nothing but that error.

    Compilers keep their files in `cache`; without one they begin with nothing. `name`: what the peer is called in
    results, if one runs twice.
    """

    def __init__(
        self, module: str, peer: str, cache: str | None = None, threads: int = 1, name: str | None = None
    ) -> None:
        self.peer = name or peer
        self.error = ""
        self._process: subprocess.Popen[str] | None = None
        self._folder = tempfile.TemporaryDirectory()
        self._messages = Path(self._folder.name, "messages")
        command = [interpreter_of(peer), str(Path(__file__).with_name("worker.py")), module, peer]
        pipe = subprocess.PIPE
        variables = environment(cache or self._folder.name, threads)
        self.began = time.monotonic()
        try:
            with self._messages.open("w") as messages:
                self._process = subprocess.Popen(
                    command, env=variables, stdin=pipe, stdout=pipe, stderr=messages, text=True
                )
        except OSError:
            self.error = f"not installed: there is no {interpreter_of(peer)}"

    def ask(self, **request: Any) -> dict[str, Any]:
        if not self.error:
            answer = self._answer(json.dumps(request))
            self.error = answer.get("error", "")
            return answer
        return {"error": self.error}

    def _answer(self, request: str) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        alarm = threading.Timer(ANSWER_WITHIN_S, self._process.kill)
        alarm.start()
        try:
            self._process.stdin.write(request + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            alarm.cancel()
        return json.loads(line) if line else {"error": f"failed: {self._last_words()}"}

    def _last_words(self) -> str:
        lines = self._messages.read_text().strip().splitlines()
        return lines[-1][:100] if lines else f"no answer within {ANSWER_WITHIN_S} s, or killed"

    def close(self) -> None:
        if self._process:
            with contextlib.suppress(subprocess.TimeoutExpired, BrokenPipeError):
                self._process.communicate(timeout=10)  # the worker ends when its input does
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()


@contextlib.contextmanager
def started(module: str, peers: list[str], cache: str | None = None) -> Iterator[list[PeerProcess]]:
    """Processes for the peers, ended on the way out."""
    processes = [PeerProcess(module, peer, cache) for peer in peers]
    try:
        yield processes
    finally:
        for process in processes:
            process.close()


def measure(workload: Workload, processes: list[PeerProcess], rounds: int) -> list[Result]:
    """Warm every peer up with some blocks, then time one block of each per round, on other data."""
    results = {process.peer: Result(process.peer) for process in processes}
    for process in processes:
        _warm_up(workload, process, results[process.peer])
    before = {process.peer: process.ask(kernels=True) for process in processes}
    for number in range(rounds):
        # Whoever runs after a peer that fills the caches is slower, so everyone takes every place in turn.
        turn = number % len(processes)
        for process in processes[turn:] + processes[:turn]:
            answer = process.ask(run=[(number + workload.warm_up) * workload.block, workload.block])
            if "error" not in answer:
                results[process.peer].times.append(answer["ms"])
                results[process.peer].apart.append(answer["apart"])
    for process in processes:
        result, after = results[process.peer], process.ask(kernels=True)
        _count_kernels(result, before[process.peer], after, rounds * (workload.block + 1))
        result.error = process.error
        if process.peer == COMPILED and not process.error:
            result.n_recorded = process.ask(recorded=True).get("ops", 0)
    return list(results.values())


def _warm_up(workload: Workload, process: PeerProcess, result: Result) -> None:
    result.version = process.ask(build=workload.name).get("version", "")
    first = process.ask(run=[0, workload.block])
    process.ask(run=[workload.block, (workload.warm_up - 1) * workload.block])
    if "error" not in first:
        result.first_block = first["ms"] * workload.block
        result.losses = first["losses"]


def _count_kernels(result: Result, before: dict[str, Any], after: dict[str, Any], n_steps: int) -> None:
    result.backend = after.get("backend", "")
    counts = {name: n - before["fallbacks"].get(name, 0) for name, n in after.get("fallbacks", {}).items()}
    result.fallbacks = {name: n / n_steps for name, n in counts.items() if n}
