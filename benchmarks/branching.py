"""`ex.batch` beside a plain loop where samples branch on values that they read: 20 turns through layers of 64 units.

    python benchmarks/branching.py --reads 5        0, 1, 5 or 20 values read per sample; without it, all of these

On a common path a sample goes on through one of four layers, chosen by the argmax of what it has computed, wherever it
reads a value; without reads all samples take the first. On a path of its own every sample has units in a number of its
own and layers of its own, so that no two samples can run as one: there a batch may take at most 1.1 times what the loop
takes. Where batches do not pay, most calls of a batched function are plain loops; the time is then the mean over these
and the one that is batched, to see whether batches pay by now. A step is forward and backward, in the same process by
turns. The difference is that of gradients, the largest, relative to the largest gradient.
"""

from __future__ import annotations

import argparse
import gc
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from adversary import Answer, forked
from interleave import ONE_THREAD, Result
from report import OURS, shown, source, table, verdict
from worker import cpu_seconds, stay_on_one_core, version_of
from workload import extempo

READS, SAMPLES = (0, 1, 5, 20), (1, 8, 32, 128)
N_TURNS, N_BRANCHES, WIDTH, SMALLEST = 20, 4, 64, 8
WORST_FLOOR = 1.1
N_WARM_UP = 4


class Program:
    """One sample's code and the weights it reads; inputs are drawn anew for every step."""

    def __init__(self, ex: Any, reads: int, n_samples: int, own_path: bool) -> None:
        self.ex = ex
        self.own_path = own_path
        self.rng = np.random.RandomState(0)
        self.reading_turns = {turn * N_TURNS // reads for turn in range(reads)} if reads else set()
        self.widths = [SMALLEST + k if own_path else WIDTH for k in range(n_samples)]
        sets = self.widths if own_path else [WIDTH]
        self.layers = [[ex.nn.Linear(width, width) for _ in range(N_BRANCHES)] for width in sets]
        self.parameters = [p for layers in self.layers for layer in layers for p in layer.parameters()]
        with ex.no_grad():
            for p in self.parameters:
                scale = 1.5 * p.shape[-1] ** -0.5
                p.copy_(ex.from_numpy((scale * self.rng.randn(*p.shape)).astype("f4")))

    def samples(self) -> list[tuple[Any, Any]]:
        """The input and the layers of each."""
        inputs = [self.ex.from_numpy(self.rng.randn(width).astype("f4")) for width in self.widths]
        return [(x, self.layers[k if self.own_path else 0]) for k, x in enumerate(inputs)]

    def one(self, sample: tuple[Any, Any]) -> Any:
        x, layers = sample
        branch = 0
        for turn in range(N_TURNS):
            if turn in self.reading_turns:
                branch = x.argmax().item() % N_BRANCHES
            x = self.ex.tanh(layers[branch](x))
        return (x * x).mean()

    def step(self, each: Callable[..., list[Any]], samples: Sequence[Any]) -> None:
        for p in self.parameters:
            p.grad = None
        self.ex.stack(each(samples)).mean().backward()

    def gradients(self) -> list[Any]:
        return [np.zeros(p.shape, "f4") if p.grad is None else p.grad.numpy().copy() for p in self.parameters]


def timed(step: Callable[[], None]) -> float:
    """Milliseconds; time in which another process had the core does not count."""
    wall, cpu = time.perf_counter(), cpu_seconds()
    step()
    return min(cpu_seconds() - cpu, time.perf_counter() - wall) * 1e3


def measure(reads: int, n_samples: int, own_path: bool, rounds: int) -> Answer:
    """Mean milliseconds of both ways, the mean batch of calls that were batched, and how far gradients differ."""
    ex = extempo()
    program = Program(ex, reads, n_samples, own_path)
    batched = ex.batch(program.one)

    def loop(samples: Sequence[Any]) -> list[Any]:
        return [program.one(sample) for sample in samples]

    ways: list[Callable[..., list[Any]]] = [loop, batched]
    differences: list[float] = []

    def both() -> list[float]:
        """Milliseconds of a step of each; who comes first, and finds caches that the other has not filled, changes."""
        samples, taken, found = program.samples(), {}, []
        for each in ways:
            taken[each] = timed(partial(program.step, each, samples))
            found.append(program.gradients())
        ways.reverse()
        largest = max(float(np.abs(g).max()) for g in found[0])
        differences.extend(float(np.abs(a - b).max()) / largest for a, b in zip(*found, strict=True))
        return [taken[loop], taken[batched]]

    both()
    aside = batched.stats()["aside"]
    for _ in range(N_WARM_UP - 1):
        both()
    gc.collect()  # what the first calls have left; once, and not as part of some round
    looped, at_once = np.mean([both() for _ in range(rounds)], 0).tolist()
    if aside:
        with ex.no_grad():
            while batched.stats()["aside"]:
                batched(program.samples())
        at_once = (aside * at_once + both()[1]) / (aside + 1)
    return {"loop": looped, "batch": at_once, "mean": batched.stats()["mean_batch"], "difference": max(differences)}


def row(reads: int, n_samples: int, own_path: bool, rounds: int) -> list[str]:
    """A program's row, from a process of its own: what one program taught the library does not help the next."""
    answer = forked(partial(measure, reads, n_samples, own_path, rounds))
    path = "own" if own_path else "common"
    if "error" in answer:
        return [path, str(reads), str(n_samples), "", "", answer["error"][:100], "", ""]
    ratio = answer["batch"] / answer["loop"]
    return [
        path,
        str(reads),
        str(n_samples),
        f"{answer['loop']:.2f}",
        f"{answer['batch']:.2f}",
        f"{shown(ratio)} ({verdict(ratio, WORST_FLOOR)})" if own_path else shown(ratio),
        f"{answer['mean']:.1f}",
        f"{answer['difference']:.0e}",
    ]


def report(reads: Sequence[int], sizes: Sequence[int], rounds: int) -> str:
    extempo()
    rows = [row(r, n, own, rounds) for own in (False, True) for r in reads for n in sizes]
    header = ["path", "reads", "samples", "loop ms", "batch ms", "ratio", "mean batch", "gradients differ by"]
    title, _, about = __doc__.strip().partition("\n\n")
    about = about.partition("\n\n")[2]
    where = source([Result(OURS, version_of(OURS))], f"means of {rounds} rounds")
    return f"### branching\n\n{title}\n\n{about}\n\n{table(header, rows)}\n\n{where}"


def section(wanted: str | None, rounds: int) -> str:
    return report(READS, SAMPLES, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reads", type=int, action="append", help=f"per sample, {READS} otherwise")
    parser.add_argument("--samples", type=int, action="append", help=f"in a batch, {SAMPLES} otherwise")
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args()
    if any(not 0 <= reads <= N_TURNS for reads in given.reads or ()):
        parser.error(f"--reads must be from 0 to {N_TURNS}")
    os.environ.update(ONE_THREAD)
    stay_on_one_core()
    print(report(given.reads or READS, given.samples or SAMPLES, given.rounds))


if __name__ == "__main__":
    main()
