"""CostSampler: the samples of each step divided among ranks so that all have the same work, not only the same number.

Each global batch (batch_size of every rank) is divided largest first, always to the rank with the least work that still
has room; which part goes to which rank evens out what earlier batches have left unequal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Sized
from typing import Any

import numpy as np

from .. import ops
from ..core.storage import Array
from ..core.tensor import Tensor
from ..data.samplers import Sampler
from ..errors import ArgumentError
from ..random import Generator
from .groups import get_rank, get_world_size


def n_tokens(sample: Any) -> int:
    """The length of a sample: of its first part, if it has several."""
    first = sample[0] if isinstance(sample, tuple | list) and sample else sample
    if isinstance(first, dict):
        first = next(iter(first.values()))
    return int(first.shape[0]) if isinstance(first, Tensor) and first.ndim else len(first)


def n_nodes(sample: Any) -> int:
    """The nodes of a tree of tuples and lists, leaves included; of a pair (tree, target), those of both."""
    return 1 + sum(map(n_nodes, sample)) if isinstance(sample, tuple | list) else 1


_COSTS: dict[str, Callable[[Any], float]] = {"tokens": n_tokens, "nodes": n_nodes}


class CostSampler(Sampler[int]):
    """Indices for one rank among several, such that all ranks have the same work in each step.

    It is a DataLoader's `sampler`. The order depends on seed and epoch alone; call `set_epoch` before each epoch. What
    `state_dict` gives goes on in the middle of an epoch.

    dataset: has a length, and samples by index.
    batch_size: the DataLoader's.
    cost: of a sample: "tokens" (its length), "nodes" (of a tree), a function of it, or the numbers themselves.
    num_replicas: how many ranks; those of the group unless given.
    rank: which one; this process unless given.
    shuffle: in another order in each epoch.
    seed: of the order, the same on all ranks.
    drop_last: leave samples out where they do not fill a batch of all ranks; if not, some come twice.

    >>> costs = [9, 1, 1, 1, 8, 2]
    >>> parts = [ex.distributed.CostSampler(costs, 3, costs, 2, rank, shuffle=False) for rank in (0, 1)]
    >>> [sum(costs[i] for i in part) for part in parts]
    [11, 11]
    """

    def __init__(
        self,
        dataset: Sized,
        batch_size: int = 1,
        cost: str | Callable[[Any], float] | Sequence[float] = "tokens",
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if not isinstance(batch_size, int) or batch_size < 1:
            raise ArgumentError(f"CostSampler: batch_size must be a whole number of at least 1, got {batch_size!r}")
        self.dataset = dataset
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.seed = seed
        self.drop_last = drop_last
        self.epoch = 0
        self._num_replicas = num_replicas
        self._rank = rank
        self._costs = self._found(cost)
        self._begin = 0  # where in the epoch the next iterator begins
        self._n_given = 0

    def _found(self, cost: Any) -> Array:
        if isinstance(cost, str) and cost not in _COSTS:
            raise ArgumentError(f"CostSampler: cost must be 'tokens', 'nodes', a function or numbers, got {cost!r}")
        if isinstance(cost, str) or callable(cost):
            of: Any = _COSTS[cost] if isinstance(cost, str) else cost
            data: Any = self.dataset
            cost = [of(data[i]) for i in range(len(data))]
        found = np.asarray(cost, np.float64)
        if found.shape != (len(self.dataset),) or not (np.isfinite(found) & (found >= 0)).all():
            raise ArgumentError(
                f"CostSampler: a finite cost of at least 0 is needed for each of {len(self.dataset)} samples, got "
                f"{found.size} numbers"
            )
        return found

    @property
    def num_replicas(self) -> int:
        """How many ranks there are."""
        return get_world_size() if self._num_replicas is None else self._num_replicas

    @property
    def rank(self) -> int:
        """Which of them this one is for."""
        return get_rank() if self._rank is None else self._rank

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of the next epoch; give the same number on all ranks.

        epoch: its number.
        """
        self.epoch, self._begin = epoch, 0

    def state_dict(self) -> dict[str, int]:
        """Where it is: the epoch, and how many indices were given."""
        return {"epoch": self.epoch, "seed": self.seed, "n_given": self._n_given}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on from there with the next iterator.

        state: what `state_dict` gave.
        """
        self.epoch, self.seed, self._begin = state["epoch"], state["seed"], state["n_given"]

    def __len__(self) -> int:
        n, each = len(self.dataset), self.num_replicas
        return n // (each * self.batch_size) * self.batch_size if self.drop_last else -(-n // each)

    def __iter__(self) -> Iterator[int]:
        begin, self._begin = self._begin, 0
        self._n_given = begin
        for i in self._indices()[begin:]:
            self._n_given += 1
            yield int(i)

    def _indices(self) -> list[int]:
        """All indices of this rank in this epoch."""
        n_ranks, total = self.num_replicas, len(self) * self.num_replicas
        order = np.arange(len(self.dataset))
        if self.shuffle:
            generator = Generator().manual_seed(self.seed + self.epoch)
            order = ops.randperm(len(order), generator=generator).numpy()
        order = np.resize(order, total)  # repeated where it is too short
        work = np.zeros(n_ranks)
        own: list[int] = []
        for start in range(0, total, self.batch_size * n_ranks):
            parts = _divided(order[start : start + self.batch_size * n_ranks], self._costs, n_ranks)
            costs = np.array([self._costs[part].sum() for part in parts])
            for rank, k in zip(np.argsort(work, kind="stable"), np.argsort(-costs, kind="stable"), strict=True):
                work[rank] += costs[k]
                if rank == self.rank:
                    own += parts[k]
        return own


def _divided(indices: Array, costs: Array, n_parts: int) -> list[list[int]]:
    """Parts of one number of samples, and nearly one cost."""
    room = len(indices) // n_parts
    parts: list[list[int]] = [[] for _ in range(n_parts)]
    work = [0.0] * n_parts
    for i in indices[np.argsort(-costs[indices], kind="stable")]:
        least = min((k for k in range(n_parts) if len(parts[k]) < room), key=lambda k: work[k])
        parts[least].append(int(i))
        work[least] += costs[i]
    return parts
