"""Peak resident memory of training, each peer in a fresh process: in all, and what the steps of a workload add.

What the steps add is measured above model and data, after some steps of mlp_small, which load what a library loads on
first use. It is activations, gradients, the optimizer's moments, memory kept for reuse, and the workload's own kernels
and plans. Compiled Extempo may need neither more than PyTorch nor more than its own static graph.
"""

from __future__ import annotations

import importlib
from typing import Any

from interleave import COMPILED, Result, started
from report import BASELINE, OURS, STATIC, source, table
from workload import Workload, run_this

N_STEPS = 20
SAME_MB = 0.5  # by which two runs of the same program differ


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


def row(name: str, peer: str, answers: dict[str, dict[str, Any]]) -> list[str]:
    ours, theirs = answers[peer], answers[BASELINE]
    for answer in (ours, theirs):
        if "error" in answer:
            return [name, peer, *[""] * 6, answer["error"]]
    added = {one: answer["peak"] - answer["built"] for one, answer in answers.items() if "error" not in answer}
    cells = [ours["peak"], theirs["peak"], added[peer], added[BASELINE], ours["drift"]]
    fits = added[peer] <= added[BASELINE] and ours["peak"] <= theirs["peak"]
    if peer == COMPILED and STATIC in added:
        fits = fits and added[peer] <= added[STATIC] + SAME_MB
    ratio = f"{added[peer] / added[BASELINE]:.2f}"
    return [name, peer, *(f"{cell:.1f}" for cell in cells), ratio, "pass" if fits else "FAIL"]


def section(wanted: str | None, rounds: int) -> str:
    """One row per workload and way to run it; memory does not vary enough for rounds."""
    rows = []
    versions: dict[str, Result] = {}
    for found in WORKLOADS[1:]:
        answers = {}
        for peer in [peer for peer in (OURS, COMPILED, STATIC, BASELINE) if peer in found.peers]:
            answers[peer], versions[peer] = peaks(found.name, peer)
        rows += [row(found.name, peer, answers) for peer in answers if peer != BASELINE]
    header = ["workload", "peer", "MB", "torch MB", "its steps", "torch's steps", "drift", "ratio of steps", ""]
    where = source(list(versions.values()), f"{N_STEPS} steps, drift is what the last half of them added")
    return f"### memory\n\n{__doc__.strip()}\n\n{table(header, rows)}\n\n{where}"


if __name__ == "__main__":
    run_this(__file__)
