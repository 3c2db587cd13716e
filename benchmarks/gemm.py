"""Matrix products alone, (m, k) @ (k, n) in float32: GFLOP/s of Extempo's mm, torch.mm and NumPy's OpenBLAS."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from workload import Library, Peers, Step, Workload, extempo, run_this, torch

Shape = tuple[int, int, int]
# What the ratio to the faster of the two others must be; "level" allows for the 3% by which two runs differ.
LEVEL, AHEAD = 0.97, 1.0
REQUIRED: dict[Shape, float] = {
    (1024, 1024, 1024): LEVEL,
    (256, 784, 1024): LEVEL,
    (25, 300, 750): LEVEL,
    (32, 64, 64): AHEAD,
    (16, 64, 256): AHEAD,
    (4, 150, 750): AHEAD,
    (1, 300, 750): AHEAD,
}
FLOP_PER_STEP = 2e8  # some milliseconds, so that neither the clock nor reading a value counts


def flop(shape: Shape) -> int:
    m, k, n = shape
    return 2 * m * k * n


def calls(shape: Shape) -> int:
    """How often a step multiplies."""
    return max(1, min(1000, int(FLOP_PER_STEP / flop(shape))))


def data(shape: Shape) -> tuple[Any, Any]:
    m, k, n = shape
    rng = np.random.RandomState(0)
    return rng.randn(m, k).astype("f4"), rng.randn(k, n).astype("f4")


def repeat(mm: Callable[[Any, Any], Any], a: Any, b: Any, n_calls: int) -> Step:
    def step(i: int) -> float:
        for _ in range(n_calls):
            c = mm(a, b)
        return float(c[0, 0])

    return step


def eager(library: Library, shape: Shape) -> Step:
    lib = library()
    a, b = data(shape)
    return repeat(lib.mm, lib.from_numpy(a), lib.from_numpy(b), calls(shape))


def workload(shape: Shape) -> Workload:
    peers: Peers = {
        "extempo": partial(eager, extempo, shape),
        "torch": partial(eager, torch, shape),
        "numpy": lambda: repeat(np.matmul, *data(shape), calls(shape)),
    }
    return Workload("x".join(map(str, shape)), __doc__, 2, peers)


WORKLOADS = [workload(shape) for shape in REQUIRED]


def section(wanted: str | None, rounds: int) -> str:
    """One row per shape, whatever peers were wanted: the verdict needs all three."""
    from interleave import measure, started
    from report import source, table

    rows = []
    with started("gemm", list(WORKLOADS[0].peers)) as processes:
        for shape, required in REQUIRED.items():
            results = {r.peer: r for r in measure(workload(shape), processes, rounds)}
            speed = {p: flop(shape) * calls(shape) / r.minimum / 1e6 for p, r in results.items() if not r.error}
            cells = [f"{speed[peer]:.1f}" if peer in speed else results[peer].error for peer in results]
            rows.append([workload(shape).name, *cells, *_verdict(speed, required)])
    header = ["m x k x n", "extempo", "torch.mm", "numpy", "ratio to the faster", "required", ""]
    where = source(list(results.values()), f"minima of {rounds} rounds")
    return f"### gemm\n\n{__doc__}\n\n{table(header, rows)}\n\n{where}"


def _verdict(speed: dict[str, float], required: float) -> list[str]:
    what = "level" if required == LEVEL else "ahead"
    others = [speed[peer] for peer in speed if peer != "extempo"]
    if not others or "extempo" not in speed:
        return ["-", what, "-"]
    ratio = speed["extempo"] / max(others)
    return [f"{ratio:.2f}", what, "pass" if ratio >= required else "FAIL"]


if __name__ == "__main__":
    run_this(__file__)
