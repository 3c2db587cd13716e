"""What `ex.studio` costs: blocks of steps without it, unwatched, watched, and with every=1, in turn, in one process.

    python benchmarks/studio.py                       three rows of benchmarks/run.py
    python benchmarks/studio.py mlp_small --rounds 8  one of them

A page without a browser reads all that the server sends, in a process of its own. A ratio is that of the sums of all
blocks with a studio and without; 1.10 is the most that a watched loop may take. Looks are dealt out over time, so a
round takes seconds; the first second of a block is not counted.
"""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from typing import Any

from interleave import ONE_THREAD

ROWS = ("mlp_small", "rnn_python_loop", "transformer_small")
SETTLING = 1.0  # seconds of each block that are not counted: the first look of a run comes at once, whatever it costs
MOST = {"unwatched": 1.02, "watched": 1.10}
_READER = """
import os, sys
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, range(os.cpu_count()))  # the page is another program: it runs on whichever core is free
from websockets.sync.client import connect
with connect(sys.argv[1], max_size=None) as page:
    while True:
        page.recv()
"""


class Watched:
    """A studio with a page that reads, or without one."""

    def __init__(self, has_page: bool, every: int | None) -> None:
        self._has_page = has_page
        self._every = every

    def __enter__(self) -> None:
        from extempo.studio_server import api

        self._stack = ExitStack()
        block = self._stack.enter_context(api.studio(show=False))
        session, _ = api.process_studio()
        session.every = self._every
        self._reader = None
        if self._has_page:
            address = block.address.replace("http://", "ws://").replace("/?", "/ws?")
            self._reader = subprocess.Popen([sys.executable, "-c", _READER, address])
            while not session.outboxes.n_pages:
                time.sleep(0.01)

    def __exit__(self, *error: object) -> None:
        from extempo.studio_server import api

        if self._reader is not None:
            self._reader.kill()
            self._reader.wait()
        self._stack.close()
        session, _ = api.process_studio()
        while session.outboxes.n_pages:
            time.sleep(0.01)


WAYS: dict[str, Callable[[], Any]] = {
    "plain": nullcontext,
    "unwatched": lambda: Watched(False, None),
    "watched": lambda: Watched(True, None),
    "every=1": lambda: Watched(True, 1),
}


def seconds_of(step: Callable[[int], float], block: int, way: str, at_least: float) -> tuple[float, int]:
    """(Seconds, steps) of a block that takes at least so long."""
    with WAYS[way]():
        began = time.perf_counter()
        while time.perf_counter() - began < SETTLING:
            for i in range(block):
                step(i)
        n_steps = 0
        began = time.perf_counter()
        while time.perf_counter() - began < at_least:
            for i in range(block):
                step(n_steps + i)
            n_steps += block
        return time.perf_counter() - began, n_steps


def ratios_of(step: Callable[[int], float], block: int, rounds: int, at_least: float) -> tuple[dict[str, float], float]:
    """(The ratio of each way, milliseconds of a plain step)."""
    for way in WAYS:  # what is loaded once
        seconds_of(step, block, way, 1.0)
    seconds, steps = dict.fromkeys(WAYS, 0.0), dict.fromkeys(WAYS, 0)
    for k in range(rounds):
        for way in WAYS if k % 2 else reversed(WAYS):
            took, n_steps = seconds_of(step, block, way, at_least)
            seconds[way] += took
            steps[way] += n_steps
    each = {way: seconds[way] / steps[way] for way in WAYS}
    return {way: each[way] / each["plain"] for way in WAYS if way != "plain"}, each["plain"] * 1e3


def main(arguments: list[str] | None = None) -> None:
    os.environ.update(ONE_THREAD)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", default=list(ROWS))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=5.0, help="of a block")
    options = parser.parse_args(arguments)
    print(f"{'row':<20} {'step':>9}  unwatched  watched  every=1")
    for name in options.rows:
        (workload,) = importlib.import_module(name).WORKLOADS
        peer = next(peer for peer in workload.peers if peer.startswith("extempo"))
        ratios, milliseconds = ratios_of(workload.peers[peer](), workload.block, options.rounds, options.seconds)
        missed = [way for way, most in MOST.items() if ratios[way] > most]
        said = f"  FAIL: {', '.join(missed)}" if missed else ""
        figures = "  ".join(f"{ratios[way]:>8.3f}" for way in ratios)
        print(f"{name:<20} {milliseconds:>6.2f} ms  {figures}{said}", flush=True)


if __name__ == "__main__":
    main()
