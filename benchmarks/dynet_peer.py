"""What the programs for DyNet share. Its tensors are column-major, and the batch is an axis of its own at the end."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from workload import Step


def dynet(memory_mb: int = 512, autobatch: bool = False) -> Any:
    """The library, given its memory and whether it batches by itself, which must be settled before it is imported."""
    import_module("dynet_config").set(mem=memory_mb, random_seed=1, autobatch=int(autobatch))
    return import_module("dynet")


def trainer(loss_of: Any, optimizer: Any, weights: Any) -> Step:
    """A training step; loss_of(i) builds the graph of step i."""
    dy = import_module("dynet")
    optimizer.set_clip_threshold(-1)

    def step(i: int, owner: Any = weights) -> float:  # the optimizer itself does not keep its parameters alive
        dy.renew_cg()
        loss = loss_of(i)
        value = float(loss.value())
        loss.backward()
        optimizer.update()
        return value

    return step
