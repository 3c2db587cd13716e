"""What a workload is, and what the programs of several workloads share.

A workload gives each peer a factory that builds the model and returns step(i) -> loss, which returns when the step is
done. Every peer starts from the same weights and sees the same data in the same order, so their losses must agree.
Extempo and PyTorch run the same text: a program takes the library as an argument.

These files also run under the interpreters of other peers (DyNet's is Python 3.10), with nothing but NumPy beside the
peer itself; so a library is imported by its name, when its process builds a workload.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

LEARNING_RATE = 1e-3
THREADS = "EXTEMPO_BENCH_THREADS"  # in the environment: how many each library has, 1 if it says nothing

Step = Callable[[int], float]
Library = Callable[[], Any]
Peers = Mapping[str, Callable[[], Step]]
Wrap = Callable[[Any, Callable[..., Any]], Callable[..., Any]]  # (library, function) -> function
Each = Callable[[Any, Callable[..., Any]], Callable[..., list[Any]]]  # (library, function of a sample) -> of samples


@dataclass
class TimedApart:
    """A step of which a part is counted apart: whoever runs that part adds its seconds."""

    run: Step
    clock: list[float]  # seconds so far, one number

    def __call__(self, i: int) -> float:
        return self.run(i)

    def seconds_apart(self) -> float:
        return self.clock[0]


@dataclass(frozen=True)
class Workload:
    """One measured program. A block of `block` steps costs the same work whichever block it is."""

    name: str
    about: str | None
    block: int
    peers: Peers
    floor: float | None = None  # the most that eager Extempo may take, relative to PyTorch eager
    compiled_floor: float | None = None  # the same for a step under ex.compile
    batch_floor: float | None = None  # the same where ex.batch runs code that is written for one sample
    ragged_floor: float | None = None  # the same for a ragged batch, written for all samples at once
    warm_up: int = 4  # blocks that are run before anything is timed


def n_threads() -> int:
    return int(os.environ.get(THREADS, "1"))


def extempo() -> Any:
    library = import_module("extempo")
    library.set_num_threads(n_threads())
    return library


def torch() -> Any:
    library = import_module("torch")
    library.set_num_threads(n_threads())
    return library


def as_it_is(lib: Any, fn: Callable[..., Any]) -> Callable[..., Any]:
    return fn


def whole(lib: Any, fn: Callable[..., Any]) -> Callable[..., Any]:
    return lib.compile(fn)


def static(lib: Any, fn: Callable[..., Any]) -> Callable[..., Any]:
    return lib.compile(fn, static=True)


def one_by_one(lib: Any, fn: Callable[..., Any]) -> Callable[..., list[Any]]:
    """A plain loop over the samples, whose parts come in as many sequences."""
    return lambda *parts: [fn(*sample) for sample in zip(*parts, strict=True)]


def batched(lib: Any, fn: Callable[..., Any]) -> Callable[..., list[Any]]:
    found: Callable[..., list[Any]] = lib.batch(fn)
    return found


def cell(lib: Any, fn: Any) -> Any:
    """A function or a module as a cell, where the library has cells."""
    return lib.cell(fn) if hasattr(lib, "cell") else fn


def own_peers(program: Callable[..., Step], fixed: bool = True) -> dict[str, Callable[[], Step]]:
    """Extempo eager, with its whole step compiled, and where structure and sizes are fixed as a static graph.

    program(library, wrap=...) hands `wrap` the function that is a training step, from forward to the optimizer.
    """
    peers: dict[str, Callable[[], Step]] = {
        "extempo": partial(program, extempo),
        "extempo compiled": partial(program, extempo, wrap=whole),
    }
    if fixed:
        peers["extempo static"] = partial(program, extempo, wrap=static)
    return peers


def batch_peers(program: Callable[..., Step]) -> dict[str, Callable[[], Step]]:
    """Extempo's ways to run code that is written for one sample: in a loop, batched, batched in a compiled step.

    program(library, each=..., wrap=...) hands `each` the function of one sample, and `wrap` the training step.
    """
    return {
        "extempo": partial(program, extempo),
        "extempo batch": partial(program, extempo, each=batched),
        "extempo batch compiled": partial(program, extempo, each=batched, wrap=whole),
    }


def mirrored(rng: Any, shortest: int, longest: int, count: int) -> list[int]:
    """`count` sizes, an even number, each with its mirror image: whatever is drawn, their sum is the same."""
    half = rng.randint(shortest, longest + 1, count // 2)
    sizes: list[int] = rng.permutation([*half, *(shortest + longest - half)]).tolist()
    return sizes


def fill(lib: Any, parameters: Any, arrays: Any) -> list[Any]:
    """The parameters as a list, with these values."""
    found = list(parameters)
    with lib.no_grad():
        for parameter, array in zip(found, arrays, strict=True):
            parameter.copy_(lib.from_numpy(array.copy()))
    return found


def trainer(
    lib: Any,
    loss_of: Callable[..., Any],
    optimizer: Any,
    batches: Sequence[tuple[Any, ...]],
    wrap: Wrap = as_it_is,
) -> Step:
    """A training step for Extempo and PyTorch. Only reading the loss is outside of what is wrapped."""

    def train(*batch: Any) -> Any:
        loss = loss_of(*batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    run = wrap(lib, train)
    return lambda i: float(run(*batches[i % len(batches)]).item())


def run_this(file: str) -> None:
    """A workload's file run as a program measures that workload, with the options of run.py."""
    import sys
    from pathlib import Path

    from run import main

    main([Path(file).stem, *sys.argv[1:]])
