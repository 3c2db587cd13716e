"""The cost of small ops: y = tanh(y + b) 100 times on 8 elements, forward and forward + backward, beside PyTorch.

    python benchmarks/op_overhead.py [--rounds 30]

One thread, interleaved rounds in one process, so that a noisy machine slows both alike; the ratio of the minima is the
figure to trust. With --lines it also measures what keeping source lines costs.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

import numpy as np  # noqa: E402 - the threads must be set first

import extempo as ex  # noqa: E402 - as above

N_STEPS, SIZE, CALLS = 100, 8, 20


def data() -> tuple[Any, Any]:
    rng = np.random.RandomState(0)
    return rng.randn(SIZE).astype("f4"), (0.1 * rng.randn(SIZE)).astype("f4")


def workloads(lib: Any) -> dict[str, Callable[[], float]]:
    """The same program for Extempo and PyTorch."""
    x, b = (lib.from_numpy(a).requires_grad_() for a in data())

    def chain() -> Any:
        y = x
        for _ in range(N_STEPS):
            y = lib.tanh(y + b)
        return y.sum()

    def forward() -> float:
        return float(chain().item())

    def forward_backward() -> float:
        x.grad = b.grad = None
        loss = chain()
        loss.backward()
        return float(loss.item())

    def without_grad() -> float:
        with lib.no_grad():
            return float(chain().item())

    return {"no_grad forward": without_grad, "forward": forward, "forward + backward": forward_backward}


def measure(programs: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Microseconds per call of each program, round by round, interleaved."""
    times: dict[str, list[float]] = {name: [] for name in programs}
    for program in programs.values():
        for _ in range(3):
            program()
    for _ in range(rounds):
        for name, program in programs.items():
            start = time.perf_counter()
            for _ in range(CALLS):
                program()
            times[name].append((time.perf_counter() - start) / CALLS * 1e6)
    return times


def compare_with_torch(rounds: int) -> None:
    try:
        import torch
    except ImportError:
        print("PyTorch is not installed: pip install -e '.[conformance]' for the comparison; Extempo alone:")
        for name, times in measure(workloads(ex), rounds).items():
            print(f"  {name:20} {min(times):9.1f} us (minimum)  {statistics.median(times):9.1f} us (median)")
        return
    torch.set_num_threads(1)
    ours, theirs = workloads(ex), workloads(torch)
    versions = f"extempo {ex.__version__}, torch {torch.__version__}, numpy {np.__version__}"
    print(f"{versions}; {2 * N_STEPS} ops on {SIZE} elements")
    print(f"{'':20} {'extempo us':>11} {'torch us':>11} {'ratio of minima':>16} {'of medians':>11}")
    for name in ours:
        assert abs(ours[name]() - theirs[name]()) < 1e-4
        times = measure({"ex": ours[name], "torch": theirs[name]}, rounds)
        low = [min(times[k]) for k in ("ex", "torch")]
        middle = [statistics.median(times[k]) for k in ("ex", "torch")]
        print(f"{name:20} {low[0]:11.1f} {low[1]:11.1f} {low[0] / low[1]:16.2f} {middle[0] / middle[1]:11.2f}")


def cost_of_lines(rounds: int) -> None:
    """Tiny ops, and a training step of some milliseconds, with and without the source line kept in each node."""
    from extempo import running, short_path

    keep = running.user_line
    w = ex.from_numpy(np.random.RandomState(0).randn(256, 256).astype("f4") / 16).requires_grad_()
    x = ex.from_numpy(np.random.RandomState(1).randn(256, 256).astype("f4"))

    def step() -> None:
        h = x
        for _ in range(4):
            h = ex.tanh(h @ w)
        h.sum().backward()
        w.grad = None

    for title, program in (
        ("chain of tiny ops", workloads(ex)["forward + backward"]),
        ("training step over 1 ms", step),
    ):

        def without(program: Callable[[], Any] = program) -> None:
            running.user_line = short_path.user_line = lambda: None
            try:
                program()
            finally:
                running.user_line = short_path.user_line = keep

        times = measure({"with": program, "without": without}, rounds)
        low = {k: min(v) for k, v in times.items()}
        cost = low["with"] / low["without"] - 1
        print(f"{title}: {low['with']:.1f} us with lines, {low['without']:.1f} without: {cost:+.1%}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--lines", action="store_true", help="measure what keeping source lines costs, instead")
    arguments = parser.parse_args()
    (cost_of_lines if arguments.lines else compare_with_torch)(arguments.rounds)
