"""What it costs that every node keeps the user's line, for error messages: Extempo with and without, in one process."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import op_overhead
from report import machine, table
from workload import extempo, run_this

CALLS = 20


def training_step() -> Callable[[], Any]:
    """A step over 1 ms: four products of 256x256, forward and backward."""
    ex = extempo()
    rng = np.random.RandomState(0)
    w = ex.from_numpy(rng.randn(256, 256).astype("f4") / 16).requires_grad_()
    x = ex.from_numpy(rng.randn(256, 256).astype("f4"))

    def step() -> None:
        h = x
        for _ in range(4):
            h = ex.tanh(h @ w)
        h.sum().backward()
        w.grad = None

    return step


def without_lines(program: Callable[[], Any]) -> Callable[[], Any]:
    """The program, with the function that finds the line replaced in every module of Extempo that uses it."""
    find = sys.modules["extempo.core.source_location"].user_line
    users = [vars(module) for name, module in sys.modules.items() if name.startswith("extempo.")]
    users = [names for names in users if names.get("user_line") is find]

    def put(function: Callable[[], Any]) -> None:
        for names in users:
            names["user_line"] = function

    def run() -> None:
        put(lambda: None)
        try:
            program()
        finally:
            put(find)

    return run


def milliseconds(programs: list[Callable[[], Any]], rounds: int) -> list[list[float]]:
    """Per call of each program, round by round, in turn."""
    times: list[list[float]] = [[] for _ in programs]
    for _ in range(rounds + 1):
        for program, found in zip(programs, times, strict=True):
            start = time.perf_counter()
            for _ in range(CALLS):
                program()
            found.append((time.perf_counter() - start) / CALLS * 1e3)
    return [found[1:] for found in times]  # the first round warms up


def section(wanted: str | None, rounds: int) -> str:
    chain = op_overhead.program(extempo, backward=True)
    programs: dict[str, Callable[[], Any]] = {
        "200 tiny ops": lambda: chain(0),
        "training step over 1 ms": training_step(),
    }
    rows = []
    for name, program in programs.items():
        kept, dropped = milliseconds([program, without_lines(program)], rounds)
        costs = [min(kept) / min(dropped) - 1, statistics.median(kept) / statistics.median(dropped) - 1]
        rows.append([name, f"{min(kept):.3f}", f"{min(dropped):.3f}", *(f"{cost:+.1%}" for cost in costs)])
    text = table(["", "with lines ms", "without ms", "cost by minima", "by medians"], rows)
    return f"### lines\n\n{__doc__}\n\n{text}\n\n{machine()}; {rounds} rounds"


if __name__ == "__main__":
    run_this(__file__)
