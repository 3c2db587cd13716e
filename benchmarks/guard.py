"""What `ex.inspect.guard` costs: CPU time of blocks of steps with and without it, in turn, in one process on one core.

    python benchmarks/guard.py                          all rows of benchmarks/run.py, in all of Extempo's ways
    python benchmarks/guard.py mlp_small --rounds 40    one of them

A ratio is the median, over rounds, of a block with a guard beside the block without it that ran next to it; 1.10 is the
most that it may be.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from interleave import ONE_THREAD

MOST = 1.10
SHORTEST = 0.02  # seconds of a block; shorter ones are run several times


def block_seconds(step: Callable[[int], float], first: int, n_steps: int, inside: Any) -> float:
    with inside:
        began = time.thread_time()
        for i in range(first, first + n_steps):
            step(i)
        return time.thread_time() - began


def ratio_of(step: Callable[[int], float], block: int, warm_up: int, rounds: int) -> tuple[float, float]:
    """(Ratio, milliseconds of a step without a guard)."""
    guard = importlib.import_module("extempo.inspect").guard
    block_seconds(step, 0, block * warm_up, nullcontext())
    block_seconds(step, 0, block * warm_up, guard())
    once = block_seconds(step, 0, block, nullcontext())
    n_steps = block * max(int(SHORTEST / max(once, 1e-9)), 1)
    times: dict[bool, list[float]] = {False: [], True: []}
    gc.collect()
    gc.disable()
    try:
        for k in range(rounds):
            for guarded in (False, True) if k % 2 else (True, False):
                seconds = block_seconds(step, 0, n_steps, guard() if guarded else nullcontext())
                times[guarded].append(seconds)
    finally:
        gc.enable()
    ratios = [with_guard / plain for plain, with_guard in zip(times[False], times[True], strict=True)]
    return statistics.median(ratios), statistics.median(times[False]) / n_steps * 1e3


def main(arguments: list[str] | None = None) -> None:
    os.environ.update(ONE_THREAD)
    timed = importlib.import_module("run").TIMED
    stay_on_one_core = importlib.import_module("worker").stay_on_one_core
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", nargs="*", help=f"{', '.join(timed)}; without any, all of them")
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args(arguments)
    stay_on_one_core()
    ratios = []
    for name in given.workload or timed:
        (workload,) = importlib.import_module(name).WORKLOADS
        for peer, factory in workload.peers.items():
            if peer.startswith("extempo"):
                ratio, ms = ratio_of(factory(), workload.block, workload.warm_up, given.rounds)
                ratios.append(ratio)
                print(f"{name:20} {peer:24} {ms:9.3f} ms  x {ratio:.3f}{'  too much' * (ratio > MOST)}", flush=True)
    print(f"{sum(r <= MOST for r in ratios)} of {len(ratios)} rows within {MOST - 1:.0%}")


if __name__ == "__main__":
    main()
