"""What a profile costs while it runs, and how its parts add up: rows of the other files, with a profile and without."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import lines
import mlp_small
import op_overhead
import rnn_python_loop
import tree_lstm
from report import machine, table
from workload import extempo, run_this

SECONDS, TURNS = 0.05, 3  # that a turn takes, about, and turns of a round

OWN = ("extempo", "extempo compiled")


def rows() -> dict[str, Callable[[], Any]]:
    """Programs by name; each is one step."""
    training = lines.training_step()
    made: dict[str, Callable[[], Any]] = {
        "op_overhead": partial(op_overhead.program(extempo, backward=False), 0),
        "op_overhead, backward": partial(op_overhead.program(extempo, backward=True), 0),
        "op_overhead, compiled": partial(op_overhead.program(extempo, backward=True, compiled=True), 0),
        "step over 1 ms": training,
    }
    for module, peers in {mlp_small: OWN, rnn_python_loop: OWN, tree_lstm: ("extempo batch",)}.items():
        (workload,) = module.WORKLOADS
        for peer in peers:
            made[f"{workload.name}, {peer}"] = partial(workload.peers[peer](), 0)
    return made


Times = tuple[float, float]  # by the clock, and of the processor


def measured(step: Callable[[], Any], rounds: int) -> tuple[dict[str, list[Times]], list[float]]:
    """Seconds a step: before a profile, in a trace, in samples, and after them, in turn; and how parts add up."""
    ex = sys.modules["extempo"]
    for _ in range(20):
        step()
    begin = time.perf_counter()
    step()
    n_steps = max(int(SECONDS / max(time.perf_counter() - begin, 1e-6)), 1)
    found: dict[str, list[Times]] = {"off": [], "trace": [], "sample": [], "off again": []}
    sums = []

    def turn() -> Times:
        begin = (time.perf_counter(), time.process_time())
        for _ in range(n_steps):
            step()
        return (time.perf_counter() - begin[0]) / n_steps, (time.process_time() - begin[1]) / n_steps

    for _ in range(rounds * TURNS):
        found["off"].append(turn())
        with ex.profile() as prof:
            found["trace"].append(turn())
        sums.append(sum(row.seconds for row in prof.by("phase")) / prof.seconds)
        with ex.profile(mode="sample"):
            found["sample"].append(turn())
        found["off again"].append(turn())
    return found, sums


def section(wanted: str | None, rounds: int) -> str:
    made = []
    for name, step in rows().items():
        found, sums = measured(step, rounds)
        off = found["off"]
        cells = []
        for mode in MODES:
            by_processor = statistics.median(now[1] for now in found[mode]) / statistics.median(t[1] for t in off) - 1
            by_clock = min(now[0] for now in found[mode]) / min(t[0] for t in off) - 1
            cells.append(f"{by_processor:+.1%} ({by_clock:+.1%})")
        made.append([name, f"{min(t[0] for t in off) * 1e3:.3f}", *cells, f"{statistics.median(sums):.3f}"])
    text = table(["", "off, ms a step", "trace", "sample", "off again", "parts / clock"], made)
    about = "Costs: medians of the processor's time of all threads, and in brackets minima by the clock."
    return f"### profiler\n\n{__doc__}\n\n{about}\n\n{text}\n\n{machine()}; {rounds} rounds"


MODES = ("trace", "sample", "off again")

if __name__ == "__main__":
    run_this(__file__)
