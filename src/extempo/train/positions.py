"""Where training is: how much of the epoch is done, and where all random streams are."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from .. import ops
from ..random import Generator, get_rng_state, set_rng_state


class Position:
    """The epoch so far: batches, samples, the sum of their losses, seconds, and the streams when it began."""

    def __init__(self) -> None:
        self.n_batches = 0
        self.n_seen = 0
        self.total = 0.0
        self.seconds = 0.0
        self.began_with: Any = None

    def add(self, loss: float, n: int) -> None:
        """One more batch."""
        self.n_batches += 1
        self.n_seen += n
        self.total += loss * n

    def state_dict(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


def _generators(loaders: tuple[Any, ...]) -> list[Generator]:
    """The generators that data loaders draw from, theirs and their samplers', each once."""
    found: dict[int, Generator] = {}
    for loader in loaders:
        batch_sampler = getattr(loader, "batch_sampler", None)
        for part in (loader, getattr(loader, "sampler", None), batch_sampler, getattr(batch_sampler, "sampler", None)):
            generator = getattr(part, "generator", None)
            if isinstance(generator, Generator):
                found[id(generator)] = generator
    return list(found.values())


def random_state(*loaders: Any) -> dict[str, Any]:
    """Where all random streams are: Extempo's, the data loaders' own, Python's and NumPy's."""
    version, numbers, gauss = random.getstate()
    name, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    return {
        "extempo": get_rng_state(),
        "loaders": [generator.get_state() for generator in _generators(loaders)],
        "python": {"version": version, "numbers": ops.tensor(list(numbers)), "gauss": gauss},
        "numpy": {
            "name": str(name),
            "keys": ops.tensor(np.asarray(keys).astype(np.int64)),
            "position": int(position),
            "has_gauss": int(has_gauss),
            "cached": float(cached),
        },
    }


def restore_random_state(state: dict[str, Any], *loaders: Any) -> None:
    """Put all random streams where they were."""
    set_rng_state(state["extempo"])
    for generator, kept in zip(_generators(loaders), state["loaders"], strict=False):
        generator.set_state(kept)
    python, numpy = state["python"], state["numpy"]
    random.setstate((python["version"], tuple(python["numbers"].tolist()), python["gauss"]))
    keys = numpy["keys"].numpy().astype(np.uint32)
    np.random.set_state((numpy["name"], keys, numpy["position"], numpy["has_gauss"], numpy["cached"]))
