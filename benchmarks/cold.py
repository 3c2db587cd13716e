"""Wall seconds of a new process until its first steps are done: import, building, compiling and planning included.

Extempo's whole step is compiled. Kernels on disk: none, or what an earlier run left. Ahead from: the step from which on
Extempo has done all steps so far sooner than PyTorch eager.
"""

from __future__ import annotations

import importlib
import tempfile

from interleave import COMPILED, Result, started
from report import BASELINE, source, table
from workload import run_this

MARKS = {"mlp_small": (10, 100, 1000), "rnn_python_loop": (10, 100, 1000), "transformer_small": (10, 100)}
N_RUNS = 3

WORKLOADS = [workload for name in MARKS for workload in importlib.import_module(name).WORKLOADS]


class Failed(Exception):
    """A process could not, and why."""


def since_start(name: str, peer: str, n_steps: int, cache: str | None) -> tuple[list[float], str]:
    """Seconds from the start of the process to the end of each step, and the version of the library."""
    with started(name, [peer], cache) as (process,):
        version = process.ask(build=name).get("version", "")
        answer = process.ask(clock=n_steps)
        if "error" in answer:
            raise Failed(f"{peer}: {answer['error']}")
        return [at - process.began for at in answer["at"]], version


def least(name: str, peer: str, n_steps: int, cache: str | None, n_runs: int) -> tuple[list[float], str]:
    """Step by step the least of several runs: wall time has no other protection from a disturbed machine."""
    runs = [since_start(name, peer, n_steps, cache) for _ in range(n_runs)]
    return [min(times) for times in zip(*(times for times, _ in runs), strict=True)], runs[0][1]


def ahead_from(ours: list[float], theirs: list[float]) -> str:
    """The first step, from 1 on, from which we are ahead until the end."""
    behind = [i for i, (a, b) in enumerate(zip(ours, theirs, strict=True), 1) if a >= b]
    if not behind:
        return "1"
    return str(behind[-1] + 1) if behind[-1] < len(ours) else f"not within {len(ours)}"


def rows(name: str, marks: tuple[int, ...], n_runs: int) -> tuple[list[list[str]], list[Result]]:
    n_steps = marks[-1]
    empty, our_version = least(name, COMPILED, n_steps, None, n_runs)
    theirs, their_version = least(name, BASELINE, n_steps, None, n_runs)
    with tempfile.TemporaryDirectory() as cache:
        since_start(name, COMPILED, n_steps, cache)
        warm, _ = least(name, COMPILED, n_steps, cache, n_runs)
    found = []
    for mark in marks:
        cells = [f"{times[mark - 1]:.2f}" for times in (empty, warm, theirs)]
        ahead = [ahead_from(ours, theirs) if mark == n_steps else "" for ours in (empty, warm)]
        found.append([name, str(mark), *cells, *ahead, ""])
    return found, [Result(COMPILED, our_version), Result(BASELINE, their_version)]


def section(wanted: str | None, rounds: int) -> str:
    """One row per workload and number of steps; as many runs as it takes, but no more than `rounds`."""
    made: list[list[str]] = []
    versions: list[Result] = []
    n_runs = min(N_RUNS, rounds)
    for name, marks in MARKS.items():
        try:
            found, versions = rows(name, marks, n_runs)
        except Failed as error:
            found = [[name, *[""] * 6, str(error)]]
        made += found
    on_disk = "with kernels on disk"
    header = ["workload", "steps", "compiled s", f"{on_disk} s", "torch s", "ahead from", on_disk, "note"]
    where = source(versions, f"the least of {n_runs} runs")
    return f"### cold\n\n{__doc__.strip()}\n\n{table(header, made)}\n\n{where}"


if __name__ == "__main__":
    run_this(__file__)
