"""What a workload is, and what the programs of several workloads share.

A workload gives each peer a factory that builds the model and returns step(i) -> loss, which returns when the step is
done. Every peer starts from the same weights and sees the same data in the same order, so their losses must agree.
Extempo and PyTorch run the same text: a program takes the library as an argument.

These files also run under the interpreters of other peers (DyNet's is Python 3.10), with nothing but NumPy beside the
peer itself; so a library is imported by its name, when its process builds a workload.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

LEARNING_RATE = 1e-3

Step = Callable[[int], float]
Library = Callable[[], Any]
Peers = Mapping[str, Callable[[], Step]]


@dataclass(frozen=True)
class Workload:
    """One measured program. A block of `block` steps costs the same work whichever block it is."""

    name: str
    about: str | None
    block: int
    peers: Peers
    floor: float | None = None  # the most that eager Extempo may take, relative to PyTorch eager


def extempo() -> Any:
    library = import_module("extempo")
    library.set_num_threads(1)
    return library


def torch() -> Any:
    library = import_module("torch")
    library.set_num_threads(1)
    return library


def trainer(loss_of: Callable[..., Any], optimizer: Any, batches: Sequence[tuple[Any, ...]]) -> Step:
    """A training step for Extempo and PyTorch."""

    def step(i: int) -> float:
        optimizer.zero_grad()
        loss = loss_of(*batches[i % len(batches)])
        loss.backward()
        optimizer.step()
        return float(loss.item())

    return step


def run_this(file: str) -> None:
    """A workload's file run as a program measures that workload, with the options of run.py."""
    import sys
    from pathlib import Path

    from run import main

    main([Path(file).stem, *sys.argv[1:]])
