"""Peak resident memory of training, each peer in a fresh process: in all, and what the steps of a workload add.

What the steps add is measured above model and data, after some steps of mlp_small, which load what a library loads on
first use. It is activations, gradients, the optimizer's moments, memory kept for reuse, and the workload's own kernels.
"""

from __future__ import annotations

import importlib
from typing import Any

from interleave import Result, started
from report import BASELINE, OURS, source, table
from workload import Workload, run_this

N_STEPS = 20


def workload(name: str) -> Workload:
    (found,) = importlib.import_module(name).WORKLOADS
    return found


FIRST_USE = workload("mlp_small")
MEASURED = ["mlp_large", "rnn_python_loop", "transformer_small", "elementwise_chain", "conv_small"]
WORKLOADS = [FIRST_USE, *map(workload, MEASURED)]


def peaks(name: str, peer: str) -> tuple[dict[str, Any], Result]:
    """The answer in MiB, and which version it is of."""
    with started("memory", [peer]) as (process,):
        version = process.ask(build=FIRST_USE.name).get("version", "")
        process.ask(run=[0, N_STEPS])
        process.ask(build=name)
        return process.ask(memory=N_STEPS), Result(peer, version)


def row(name: str, ours: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    for answer in (ours, theirs):
        if "error" in answer:
            return [name, *[""] * 6, answer["error"]]
    added = [answer["peak"] - answer["built"] for answer in (ours, theirs)]
    cells = [ours["peak"], theirs["peak"], *added, ours["drift"]]
    verdict = "pass" if added[0] <= added[1] and ours["peak"] <= theirs["peak"] else "FAIL"
    return [name, *(f"{cell:.1f}" for cell in cells), f"{added[0] / added[1]:.2f}", verdict]


def section(wanted: str | None, rounds: int) -> str:
    """One row per workload; memory does not vary enough for rounds."""
    rows = []
    for name in MEASURED:
        ours, our_version = peaks(name, OURS)
        theirs, their_version = peaks(name, BASELINE)
        rows.append(row(name, ours, theirs))
    header = ["workload", "extempo MB", "torch MB", "extempo's steps", "torch's steps", "drift", "ratio of steps", ""]
    where = source([our_version, their_version], f"{N_STEPS} steps, drift is what extempo grew by in the last half")
    return f"### memory\n\n{__doc__.strip()}\n\n{table(header, rows)}\n\n{where}"


if __name__ == "__main__":
    run_this(__file__)
