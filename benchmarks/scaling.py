"""What more ranks would bring: a small model of a training step, whose inputs are measured here, up to 4,096 ranks.

    python benchmarks/scaling.py                 # measure, check against 1, 2 and 4 ranks, predict
    python benchmarks/scaling.py --plot docs/assets/scaling.svg

A step of N ranks takes the compute of the slowest rank plus one exchange of gradients:

    step(N) = compute * contention * (1 + imbalance * z(N)) + exchange(N)
    exchange(N) = 2 (N - 1) / N * bytes / bandwidth + 2 ceil(log2 N) * latency

`imbalance` is the standard deviation of a rank's work over its mean, z(N) the expected largest of N normal draws (so
DistributedSampler's; with CostSampler it is measured again and near 0). `contention` is ranks on a machine over its
cores, where it is above 1. Bandwidth and latency are those of the network, measured between ranks of this machine, or
given for another one.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import distributed
import numpy as np
import ragged_batch

SIZES = [2**k for k in range(1, 13)]
N_PARAMETERS = 784 * 1024 + 1024 + 1024 * 1024 + 1024 + 1024 * 10 + 10  # of mlp_large


@dataclass(frozen=True)
class Machine:
    """What a step is made of. Seconds, bytes, and bytes per second."""

    compute: float
    n_bytes: float
    bandwidth: float
    latency: float
    imbalance: float = 0.0
    cores: int = 0  # of the one machine that all ranks share; 0: each rank has its own

    def exchange(self, n: int) -> float:
        """Seconds to average the gradients of n ranks."""
        if n == 1:
            return 0.0
        return 2 * (n - 1) / n * self.n_bytes / self.bandwidth + 2 * math.ceil(math.log2(n)) * self.latency

    def step(self, n: int) -> float:
        """Seconds of a step of n ranks."""
        contention = max(1.0, n / self.cores) if self.cores else 1.0
        return self.compute * contention * (1 + self.imbalance * largest_of(n)) + self.exchange(n)

    def efficiency(self, n: int) -> float:
        """The work done in a second, of what n ranks could do that never wait."""
        return self.compute / self.step(n)


def largest_of(n: int) -> float:
    """The expected largest of n standard normal draws (Blom's approximation)."""
    return 0.0 if n == 1 else statistics.NormalDist().inv_cdf((n - 0.375) / (n + 0.25))


def imbalance_of(batch_size: int, by_cost: bool, n_ranks: int = 8) -> float:
    """The spread of a rank's work in a step, over its mean, for sequences of 5 to 50 words."""
    from extempo.distributed import CostSampler

    lengths = np.random.RandomState(0).randint(ragged_batch.SHORTEST, ragged_batch.LONGEST + 1, 10_000)
    if by_cost:
        parts = [list(CostSampler(lengths, batch_size, lengths, n_ranks, rank)) for rank in range(n_ranks)]
    else:
        order = np.random.RandomState(1).permutation(len(lengths))
        parts = [order[rank::n_ranks] for rank in range(n_ranks)]
    n_steps = len(parts[0]) // batch_size
    work = np.array([lengths[part[: n_steps * batch_size]].reshape(n_steps, -1).sum(axis=1) for part in parts])
    return float((work.std(axis=0) / work.mean(axis=0)).mean())


def measured(n_rounds: int) -> tuple[Machine, dict[int, float]]:
    """mlp_large on this machine, and what its step takes with 1, 2 and 4 ranks."""
    times = {
        n: statistics.median(distributed.measure("extempo", "mlp_large", n, 8) for _ in range(n_rounds))
        for n in (1, 2, 4)
    }
    large, small = (
        statistics.median(distributed.measure("extempo", row, 2, 8) for _ in range(n_rounds))
        for row in ("all_reduce_64MB", "all_reduce_4MB")
    )
    bandwidth = (64 - 4) * 2**20 / max(large - small, 1e-9)
    latency = max((small - 4 * 2**20 / bandwidth) / 2, 1e-6)
    return Machine(times[1], 4 * N_PARAMETERS, bandwidth, latency, cores=os.cpu_count() or 1), times


def last_paying(machine: Machine, share: float = 0.5) -> int:
    """The largest number of ranks, of powers of two, that still does this share of its work."""
    return max((n for n in [1, *SIZES] if machine.efficiency(n) >= share), default=1)


def scenarios(here: Machine) -> dict[str, Machine]:
    """The machine's compute on networks that others have; the knobs that move where it stops paying."""
    ethernet = replace(here, cores=0, bandwidth=10e9 / 8, latency=25e-6)
    plain, even = imbalance_of(32, False), imbalance_of(32, True)
    return {
        "10 Gbit/s": ethernet,
        "100 Gbit/s, RDMA": replace(ethernet, bandwidth=100e9 / 8, latency=2e-6),
        "10 Gbit/s, bfloat16 hook": replace(ethernet, n_bytes=ethernet.n_bytes / 2),
        "10 Gbit/s, batch 8 times as large": replace(ethernet, compute=8 * ethernet.compute),
        "10 Gbit/s, ragged, DistributedSampler": replace(ethernet, imbalance=plain),
        "10 Gbit/s, ragged, CostSampler": replace(ethernet, imbalance=even),
    }


def plot(machines: dict[str, Machine], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "extempo"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4))
    for name, machine in machines.items():
        axes.plot(SIZES, [machine.efficiency(n) for n in SIZES], label=name)
    axes.set(xscale="log", xlabel="ranks", ylabel="efficiency", ylim=(0, 1.05))
    axes.set_xticks(SIZES, [str(n) for n in SIZES])
    axes.legend(fontsize=7)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--plot", type=Path)
    given = parser.parse_args()
    here, times = measured(given.rounds)
    print(
        f"measured: step {here.compute * 1e3:.1f} ms, gradients {here.n_bytes / 2**20:.1f} MB, "
        f"{here.bandwidth / 1e9:.2f} GB/s, latency {here.latency * 1e6:.0f} us, {here.cores} cores"
    )
    for n, seconds in times.items():
        print(f"{n} ranks: measured {seconds * 1e3:.1f} ms, predicted {here.step(n) * 1e3:.1f} ms")
    machines = scenarios(here)
    print(f"\n| efficiency | {' | '.join(map(str, SIZES))} | half at |\n|---|{'---|' * (len(SIZES) + 1)}")
    for name, machine in machines.items():
        row = " | ".join(f"{machine.efficiency(n):.2f}" for n in SIZES)
        print(f"| {name} | {row} | {last_paying(machine)} |")
    if given.plot is not None:
        plot(machines, given.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
