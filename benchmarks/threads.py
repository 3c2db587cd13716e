"""The timed workloads with several threads: Extempo beside PyTorch with as many, and beside itself with one.

    python benchmarks/run.py --threads 2                all of them
    python benchmarks/run.py mlp_large --threads 2      one

Peers of Extempo are those of its table with one thread that do best there: compiled, batched or ragged where it has
them. No row may take longer than with one thread, and none longer than PyTorch eager with as many.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack, closing

from interleave import COMPILED, PeerProcess, Result, measure
from report import BASELINE, BATCH, OURS, RAGGED, shown, source, table, verdict
from workload import Workload

ALONE = "{} with one thread"
TO_TORCH, TO_ONE_THREAD = (
    1.0,
    1.05,
)  # the most that a row may take; a twentieth is what two runs of one program differ by
FREE = 0.5  # the load, in cores, below which a core is free
HEADER = ("workload", "peer", "ms", "one thread ms", "torch ms", "to one thread", "floor", "to torch", "floor", "note")


def cores() -> int:
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def what_is_missing(threads: int, load: float, n_cores: int) -> str:
    """Why the figures would say nothing about threads, or ""."""
    if n_cores < threads:
        return f"too few cores ({n_cores} for {threads} threads): the figures say nothing about threads"
    if load > n_cores - threads + FREE:
        return f"{threads} cores are not free (load {load:.1f} of {n_cores}): the figures say little about threads"
    return ""


def own_peers(workload: Workload) -> list[str]:
    found = [peer for peer in (COMPILED, BATCH, RAGGED) if peer in workload.peers]
    return found or [OURS]


def rows_of(workload: Workload, results: Sequence[Result]) -> list[list[str]]:
    by_name = {result.peer: result for result in results}
    rows = []
    for peer in own_peers(workload):
        beside = [by_name[name] for name in (peer, ALONE.format(peer), BASELINE)]
        errors = [f"{one.peer}: {one.error}" for one in beside if one.error or not one.times]
        if errors:
            rows.append([workload.name, peer, *[""] * 7, "; ".join(errors)])
            continue
        ours, alone, theirs = (one.minimum for one in beside)
        ratios = [(ours / alone, TO_ONE_THREAD), (ours / theirs, TO_TORCH)]
        cells = [cell for ratio, floor in ratios for cell in (shown(ratio), verdict(ratio, floor))]
        rows.append([workload.name, peer, *(f"{ms:.3f}" for ms in (ours, alone, theirs)), *cells, ""])
    return rows


def section(names: Sequence[str], rounds: int, threads: int) -> str:
    """One table for all of the workloads."""
    warning = what_is_missing(threads, os.getloadavg()[0], cores())
    rows, results = [], []
    for name in names:
        (workload,) = importlib.import_module(name).WORKLOADS
        peers = own_peers(workload)
        with ExitStack() as stack:
            processes = [PeerProcess(name, peer, threads=threads) for peer in (*peers, BASELINE)]
            processes += [PeerProcess(name, peer, name=ALONE.format(peer)) for peer in peers]
            for process in processes:
                stack.enter_context(closing(process))
            results = measure(workload, processes, rounds)
        rows += rows_of(workload, results)
    paragraphs = ["### threads", warning, f"{threads} threads each.", table(HEADER, rows)]
    return "\n\n".join([*filter(None, paragraphs), source(results, f"minima of {rounds} rounds")])
