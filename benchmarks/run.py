"""Extempo and its peers side by side, on one thread, interleaved.

    python benchmarks/run.py                            everything, with every peer that is installed
    python benchmarks/run.py mlp_small --peers torch    one workload beside PyTorch, in seconds
    python benchmarks/run.py --threads 2                the timed workloads with two threads each, beside one
    python benchmarks/run.py --write                    put the tables into docs/performance.md, too

docs/performance.md says what is measured and how to read it.
"""

from __future__ import annotations

import argparse
import importlib
import os

import report
import threads
from interleave import ONE_THREAD, Result, measure, started
from workload import Workload

TIMED = [
    "op_overhead",
    "op_overhead_bwd",
    "mlp_small",
    "mlp_large",
    "rnn_python_loop",
    "early_exit",
    "transformer_small",
    "elementwise_chain",
    "conv_small",
    "tree_lstm",
    "ragged_batch",
    "spinn",
    "reinforce",
]
OWN_TABLES = {  # name: module
    "per_sample": "per_sample",
    "ragged_attention": "ragged_attention",
    "programs": "programs",
    "inference": "inference",
    "serving": "serving",
    "lengths": "lengths",
    "cold": "cold",
    "adversary": "adversary",
    "branching": "branching",
    "no_gain": "no_gain",
    "gemm": "gemm",
    "memory": "memory",
    "import": "start_up",
    "lines": "lines",
    "profiler": "profiler",
    "every_op": "every_op",
}


def choose(peers: list[str], wanted: str | None) -> list[str]:
    """Extempo's ways to run a step, PyTorch eager, peers that are named or begin with a name that no peer has."""
    if wanted is None:
        return peers
    chosen = {*report.OWN, report.BASELINE}
    for word in wanted.split(","):
        chosen.update([word] if word in peers else [peer for peer in peers if peer.startswith(word)])
    return [peer for peer in peers if peer in chosen]


def time_workload(name: str, wanted: str | None, rounds: int) -> tuple[Workload, list[Result]]:
    (workload,) = importlib.import_module(name).WORKLOADS
    with started(name, choose(list(workload.peers), wanted)) as processes:
        return workload, measure(workload, processes, rounds)


def run(names: list[str], wanted: str | None, rounds: int, write: bool) -> None:
    """Print each table as soon as it is known, and at the end how the floors fared."""
    timed: list[tuple[Workload, list[Result]]] = []
    for name in names:
        if name in TIMED:
            timed.append(time_workload(name, wanted, rounds))
            text = report.section(*timed[-1], rounds)
        else:
            text = importlib.import_module(OWN_TABLES[name]).section(wanted, rounds)
        print(text + "\n", flush=True)
        if write:
            report.write(name, text)
    if len(timed) > 1:
        text = report.summary(timed)
        print(text, flush=True)
        if write and len(timed) == len(TIMED):
            report.write("summary", text)


def run_with_threads(names: list[str], rounds: int, count: int, write: bool) -> None:
    text = threads.section([name for name in names if name in TIMED], rounds, count)
    print(text, flush=True)
    if write:
        report.write("threads", text)


def main(arguments: list[str] | None = None) -> None:
    names = [*TIMED, *OWN_TABLES]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", nargs="*", help=f"{', '.join(names)}; without any, all of them")
    parser.add_argument("--peers", help='comma-separated; "torch" is PyTorch eager, "jax" all that begins with jax')
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1, help="of each library, in the timed workloads")
    parser.add_argument("--write", action="store_true", help="replace the tables in docs/performance.md, too")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.workload if name not in names]
    if unknown:
        parser.error(f"there is no workload {unknown[0]}; choose from {', '.join(names)}")
    if given.rounds < 1:
        parser.error(f"--rounds must be at least 1, got {given.rounds}")
    if given.threads > 1:
        run_with_threads(given.workload or TIMED, given.rounds, given.threads, given.write)
        return
    os.environ.update(ONE_THREAD)  # for what is measured in this process; NumPy is not loaded yet
    run(given.workload or names, given.peers, given.rounds, given.write)


if __name__ == "__main__":
    main()
