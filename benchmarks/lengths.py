"""12, then 200 distinct lengths through the Python loop of rnn_python_loop: what the steps cost that are not yet known.

Eager and compiled Extempo take the same calls in turn, each in a process of its own: several passes over 12 lengths,
then over 200, in a new order each time. Kernels on disk: none, or what an earlier run left. A call is compared with the
same call of the eager process; each is the least of several runs, so that a disturbance does not count. Now and then
Python collects garbage, and the call in which it does takes tens of milliseconds longer; eager calls make more garbage,
but theirs are other calls. So the worst call is given without the collector, and with it behind that. Seconds are those
of the whole compiled process, up to the end of the last pass; eager's LLVM is what eager mode alone spends on its
kernels. Steady is the last two passes in all, relative to eager.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from interleave import COMPILED, PeerProcess, Result, started
from report import OURS, source, table, verdict
from rnn_python_loop import program
from workload import Workload, own_peers, run_this

FEW = [int(length) for length in np.linspace(5, 50, 12)]
MANY = range(1, 201)
N_PASSES, N_STEADY, N_RUNS = 6, 2, 3

LLVM_FLOOR, COMPILERS_FLOOR = 1.0, 5.0  # seconds; the second for planning and LLVM together
CALL_FLOOR, STEADY_FLOOR = 10.0, 1.0  # relative to eager

WORKLOADS = [Workload("lengths", __doc__, 1, own_peers(partial(program, chosen=tuple(MANY)), fixed=False))]


@dataclass
class Phase:
    """Calls over one set of lengths, in order: arrays of milliseconds, what Extempo's compilers took, what is kept.

    Those of a call are [all, without Python's collector].
    """

    lengths: list[int]
    eager: Any
    compiled: Any
    eager_llvm: float
    llvm: float
    planning: float
    caches: dict[str, list[int]]

    def least(self, other: Phase) -> Phase:
        """The less disturbed of two runs, call by call."""
        eager, compiled = np.minimum(self.eager, other.eager), np.minimum(self.compiled, other.compiled)
        eager_llvm, llvm = min(self.eager_llvm, other.eager_llvm), min(self.llvm, other.llvm)
        planning = min(self.planning, other.planning)
        return Phase(self.lengths, eager, compiled, eager_llvm, llvm, planning, self.caches)

    @property
    def worst(self) -> tuple[float, float, int, int]:
        """The largest ratio to eager without and with the collector; pass (from 1 on) and length of the former."""
        whole, own = (self.compiled / self.eager).T
        at = int(own.argmax())
        return float(own[at]), float(whole.max()), 1 + at * N_PASSES // len(own), self.lengths[at]

    @property
    def steady(self) -> float:
        last = slice(-len(self.lengths) * N_STEADY // N_PASSES, None)
        return float(self.compiled[last, 0].sum() / self.eager[last, 0].sum())


def visit(processes: list[PeerProcess], lengths: list[int], rng: np.random.RandomState) -> Phase:
    """N_PASSES passes over these lengths. RuntimeError with the reason if a process cannot."""
    order = np.concatenate([rng.permutation(lengths) for _ in range(N_PASSES)]).tolist()
    times: dict[str, list[list[float]]] = {process.peer: [] for process in processes}
    last: dict[str, dict[str, float]] = {}
    for length in order:
        for process in processes:
            answer = last[process.peer] = process.ask(call=length - MANY[0])
            if "error" in answer:
                raise RuntimeError(f"{process.peer}, length {length}: {answer['error']}")
            times[process.peer].append([answer["ms"], answer["ms"] - answer["collector"]])
    eager, compiled = (np.array(times[peer]) for peer in (OURS, COMPILED))
    spent, caches = last[COMPILED], processes[-1].ask(caches=True)["caches"]
    return Phase(order, eager, compiled, last[OURS]["llvm"], spent["llvm"], spent["planning"], caches)


def run(cache: str | None) -> tuple[list[Phase], str]:
    """Both phases in one pair of processes, and the version of Extempo."""
    rng = np.random.RandomState(0)
    with started("lengths", [OURS, COMPILED], cache) as processes:
        versions = [process.ask(build="lengths").get("version", "") for process in processes]
        return [visit(processes, list(lengths), rng) for lengths in (FEW, MANY)], versions[0]


def repeated(cache: str | None, n_runs: int) -> tuple[list[Phase], str]:
    runs = [run(cache) for _ in range(n_runs)]
    phases = runs[0][0]
    for others, _ in runs[1:]:
        phases = [phase.least(other) for phase, other in zip(phases, others, strict=True)]
    return phases, runs[0][1]


def row(phase: Phase, disk: str) -> list[str]:
    n_lengths = len(set(phase.lengths))
    together = phase.llvm + phase.planning
    ratio, whole, number, length = phase.worst
    return [
        str(n_lengths),
        disk,
        f"{phase.eager_llvm:.2f}",
        f"{phase.llvm:.2f} ({verdict(phase.llvm, LLVM_FLOOR)})",
        f"{phase.planning:.2f}",
        f"{together:.2f} ({verdict(together, COMPILERS_FLOOR)})",
        f"{ratio:.1f} ({verdict(ratio, CALL_FLOOR)}), {whole:.1f}",
        f"{length} in pass {number}",
        f"{phase.steady:.2f} ({verdict(phase.steady, STEADY_FLOOR)})",
    ]


def cache_row(name: str, phases: list[Phase]) -> list[str]:
    size, limit, evicted = phases[-1].caches[name]
    before = phases[0].caches.get(name, [0])[0]
    return [name, str(before), str(size), str(limit), str(evicted), "pass" if size <= limit else "FAIL"]


def section(wanted: str | None, rounds: int) -> str:
    """Costs, and the caches at the end of the runs that began with no kernels; no more runs than `rounds`."""
    n_runs = min(N_RUNS, rounds)
    try:
        empty, version = repeated(None, n_runs)
        with tempfile.TemporaryDirectory() as folder:
            run(folder)
            warm, _ = repeated(folder, n_runs)
    except RuntimeError as error:
        return f"### lengths\n\n{__doc__.strip()}\n\nNot measured: {error}."
    header = [
        "lengths",
        "kernels on disk",
        "eager's LLVM s",
        "LLVM s",
        "planning s",
        "together s",
        "worst call, and with the collector",
        "length",
        "steady",
    ]
    rows = [
        row(phase, disk)
        for pair in zip(empty, warm, strict=True)
        for phase, disk in zip(pair, ("no", "yes"), strict=True)
    ]
    names = [name for name in empty[-1].caches if empty[-1].caches[name][0]]
    caches = table(["cache", "after 12", "after 200", "limit", "evicted", ""], [cache_row(n, empty) for n in names])
    where = source([Result(OURS, version)], f"{N_PASSES} passes, the least of {n_runs} runs")
    return f"### lengths\n\n{__doc__.strip()}\n\n{table(header, rows)}\n\n{caches}\n\n{where}"


if __name__ == "__main__":
    run_this(__file__)
